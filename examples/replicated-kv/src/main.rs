//! A replicated key-value store that does not wait for a busy drive.
//!
//! One SQLite database, of which each page is on three drives, and is read through a
//! [`trimtab_replicas::ReplicaSet`]. All that the application does for it is in mirror.rs and
//! vfs.rs. The program measures it under YCSB's load, on emulated drives that are written to,
//! beside reading each page from its primary replica. The README tells more.

mod clients;
mod drives;
mod experiment;
mod learn;
mod load;
mod mirror;
mod noise;
mod report;
mod store;
mod value;
mod vfs;

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use clap::Parser;
use serde::Serialize;
use trimtab_device::Profile;
use trimtab_trace::AtomicFile;

use clients::Plan;
use experiment::Experiment;
use load::Workload;

const EXAMPLES: &str = "\
Examples:
  sudo replicated-kv
  sudo replicated-kv --workload a --rounds 3 --json -
  sudo replicated-kv --seconds 3 --learn-seconds 6 --records 20000

Needs root, FUSE, loop devices, and BPF. Exit codes: 0 done, 1 failure, 2 bad input,
3 done, but values were wrong or operations failed.";

/// A SQLite store on three emulated drives, read through a set of replicas.
#[derive(Clone, Debug, Parser, Serialize)]
#[command(version, after_help = EXAMPLES)]
struct Args {
    /// How long each way of reading runs in each round, in seconds.
    #[arg(long, value_name = "S", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// How long the drives are watched to learn from, in seconds.
    #[arg(long, value_name = "S", default_value_t = 25, value_parser = clap::value_parser!(u64).range(1..=3600))]
    learn_seconds: u64,
    /// Run all ways of reading so often, in turn, and add up what they did.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Records of the store, of 1 KiB.
    #[arg(long, value_name = "N", default_value_t = 60_000, value_parser = clap::value_parser!(u64).range(1_000..=2_000_000))]
    records: u64,
    /// YCSB's workload: a (half reads), b (95% reads), c (reads only).
    #[arg(long, value_enum, default_value_t = Workload::B)]
    workload: Workload,
    /// How many clients there are; each waits for its answer before it asks again.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=64))]
    clients: u64,
    /// The drives to be like: a profile's name or file.
    #[arg(long, value_name = "PROFILE", default_value = "femu")]
    profile: String,
    /// Bytes of each drive, in MiB.
    #[arg(long, value_name = "MIB", default_value_t = 1024, value_parser = clap::value_parser!(u64).range(256..=65_536))]
    drive_mib: u64,
    /// What is written to each drive beside the store, in bursts: MiB per second; 0:
    /// nothing.
    #[arg(long, value_name = "MIB", default_value_t = 45, value_parser = clap::value_parser!(u64).range(0..=1_000))]
    noise_mib_s: u64,
    /// From which all random numbers come.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Write the figures as JSON, which appears when it is whole; - is standard output,
    /// in place of the table.
    #[arg(long, value_name = "OUT")]
    #[serde(skip)]
    json: Option<PathBuf>,
}

/// Bytes of the file that is written to beside a store: it is in memory.
const LEAST_NOISE_FILE: u64 = 64 << 20;
const MOST_NOISE_FILE: u64 = 512 << 20;

/// What the user asked for cannot be: exit code 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct BadInput(String);

/// It is done, but something was wrong: exit code 3.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Incomplete(String);

fn main() -> ExitCode {
    let done = match std::env::args().nth(1) {
        Some(word) if word == drives::SERVE => drives::serve(),
        Some(word) if word == drives::ASSIST => trimtab_emu::assist().map_err(Into::into),
        _ => measure(&Args::parse()),
    };
    let Err(error) = done else { return ExitCode::SUCCESS };
    // Nowhere is left to report a failure of this.
    _ = writeln!(io::stderr(), "replicated-kv: {error:#}");
    match error {
        e if e.is::<BadInput>() => ExitCode::from(2),
        e if e.is::<Incomplete>() => ExitCode::from(3),
        _ => ExitCode::FAILURE,
    }
}

fn measure(args: &Args) -> Result<()> {
    let experiment = args.experiment()?;
    let settings = serde_json::to_value(args)?;
    // That it cannot be written should show before minutes of work.
    let file = args.json.as_deref().filter(|out| out.as_os_str() != "-");
    let file = file.map(|out| create(out).map(|file| (file, out))).transpose()?;
    let end = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&end)).context("cannot catch signals")?;
    }
    let say = |what: &str| _ = writeln!(io::stderr(), "replicated-kv: {what}");
    // On a thread of its own, which will see other mounts than this one.
    let run = move || experiment::run(&experiment, &end, &say);
    let report = std::thread::spawn(run).join().map_err(|_| anyhow!("it panicked"))??;
    let json = || {
        Ok::<_, serde_json::Error>(serde_json::to_string_pretty(&report.told(&settings))? + "\n")
    };
    if let Some((mut file, out)) = file {
        let written = file.write_all(json()?.as_bytes()).and_then(|()| file.commit());
        written.with_context(|| format!("cannot write {}", out.display()))?;
    }
    match args.json.as_deref() {
        Some(out) if out.as_os_str() == "-" => write!(io::stdout(), "{}", json()?)?,
        _ => write!(io::stdout(), "{}", report.text())?,
    }
    report.trouble().map_or(Ok(()), |trouble| Err(Incomplete(trouble).into()))
}

fn create(out: &Path) -> Result<AtomicFile> {
    AtomicFile::create(out).with_context(|| format!("cannot write {}", out.display()))
}

impl Args {
    fn experiment(&self) -> Result<Experiment> {
        let bad = |why: String| BadInput(format!("--profile {}: {why}", self.profile));
        let profile = self.find_profile().map_err(bad)?;
        let profile =
            profile.with_capacity(self.drive_mib << 20).map_err(|e| bad(e.to_string()))?;
        // What is left of the drive after the store, its log, and room for the file system.
        let store = self.records * 1400 + (64 << 20);
        let left = (profile.capacity_bytes() * 4 / 5).checked_sub(store);
        let noise_file = left.filter(|left| *left >= LEAST_NOISE_FILE).ok_or_else(|| {
            BadInput(format!(
                "--records {}: they do not fit on drives of {} MiB; make --drive-mib larger",
                self.records, self.drive_mib
            ))
        })?;
        Ok(Experiment {
            profile,
            plan: Plan {
                workload: self.workload,
                clients: self.clients,
                records: self.records,
                seed: self.seed,
                time: Duration::from_secs(self.seconds),
            },
            learn: Duration::from_secs(self.learn_seconds),
            rounds: self.rounds,
            noise: self.noise_mib_s << 20,
            noise_file: noise_file.min(MOST_NOISE_FILE),
        })
    }

    fn find_profile(&self) -> Result<Profile, String> {
        if let Some(profile) = Profile::builtin(&self.profile) {
            return Ok(profile);
        }
        let text = std::fs::read_to_string(&self.profile)
            .map_err(|e| format!("is no profile's name, and as a file: {e}"))?;
        Profile::parse(&text).map_err(|e| e.to_string())
    }
}
