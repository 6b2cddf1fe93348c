//! `trimtab drive check`.

use std::io::{self, IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use serde::Serialize;
use trimtab_io::{LatencyHistogram, Nanos};
use trimtab_live::drive::{Drive, Error, Fill, Home, Latencies, Load, Measured, Spec, measure};
use trimtab_report::{Align, Table, count, machine};

use super::serve;
use crate::json::Json;
use crate::units::{NONE, percent};
use crate::{duration, profile};

const HELP: &str = "\
Examples:
  sudo trimtab drive check
  sudo trimtab drive check --duration 30s --json check.json

Makes three scratch drives, reads 4 KiB at random with direct I/O, and removes them
again. `added` is what a program sees beyond what the model says the drive takes:
system calls, block layer, loop device, FUSE and lateness, less the lead by which
answers are given early; `early` is the share of reads that came too soon for it. On a
busy machine it is more. Percentiles that too few reads support are left out.";

/// How to measure.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// How long each measurement takes.
    #[arg(long, value_name = "TIME", value_parser = duration::parse, default_value = "5s")]
    duration: Nanos,
    /// The drive to be like: a profile's name or file.
    #[arg(long, value_name = "PROFILE", default_value = "consumer-a")]
    profile: String,
    /// Write the figures as JSON, which appears when it is whole; - is standard
    /// output, in place of the table.
    #[arg(long, value_name = "OUT")]
    json: Option<PathBuf>,
}

/// Drives that are measured together.
const DRIVES: usize = 3;
/// Large enough for half a million reads, each of another place.
const CAPACITY: u64 = 4 << 30;
/// How long an idle server is watched.
const IDLE: Duration = Duration::from_secs(2);

/// All that is reported.
#[derive(Debug, Serialize)]
struct Told {
    trimtab: &'static str,
    machine: String,
    profile: String,
    /// How much earlier than the model says the drives answer, µs.
    lead_us: Vec<f64>,
    /// Share of one core that a server took while nobody read.
    idle_cpu: Option<f64>,
    measurements: Vec<Told1>,
}

/// One measurement.
#[derive(Debug, Serialize)]
struct Told1 {
    drives: usize,
    depth: u32,
    reads: u64,
    iops: f64,
    /// What the model says.
    model: Latencies,
    /// What a program sees beyond that.
    added: Latencies,
    /// The part of it that the server sees.
    server: Latencies,
    /// Share of the reads that came sooner than the model says, and by how much.
    early_share: f64,
    early: Latencies,
    /// Share of one core that all servers took together.
    cpu: Option<f64>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let json = args.json.as_deref().map(|out| Json::create(out, &[])).transpose()?;
    let profile = profile::find(&args.profile)?.with_capacity(CAPACITY)?;
    let home = Home::from_environment();
    let mut drives = Vec::new();
    for number in 0..DRIVES {
        let spec = Spec {
            seed: 1 + number as u64,
            // All is mapped, so that each read goes to the flash.
            fill: Fill { share: 1.0, overwrites: 0.0 },
            ..Spec::new(format!("check-{}-{number}", std::process::id()), profile.clone())
        };
        let name = spec.name.clone();
        let leash = serve::on_leash(&spec)?;
        drives.push(Scratch(Drive::find(&home, &name)?, leash));
    }
    let idle = cpu_seconds(&drives[..1]);
    thread::sleep(IDLE);
    let idle = idle.zip(cpu_seconds(&drives[..1])).map(|(a, b)| (b - a) / IDLE.as_secs_f64());
    let leads = drives.iter().map(|drive| Ok(drive.0.stat()?.lead_us)).collect::<Result<_>>()?;
    let measurements = [(1, 1), (1, 16), (DRIVES, 16)]
        .iter()
        .enumerate()
        .map(|(seed, &(used, depth))| together(&drives[..used], depth, args.duration, seed as u64))
        .collect::<Result<Vec<_>>>()?;
    drop(drives);
    let told = Told {
        trimtab: env!("CARGO_PKG_VERSION"),
        machine: machine(),
        profile: profile.name,
        lead_us: leads,
        idle_cpu: idle,
        measurements,
    };
    match json {
        Some(Json::StandardOutput) => return Json::StandardOutput.write(&told),
        Some(file) => file.write(&told)?,
        None => {}
    }
    Ok(print(&told)?)
}

/// Reads from all of these drives at once.
fn together(drives: &[Scratch], depth: u32, time: Nanos, seed: u64) -> Result<Told1> {
    let before = cpu_seconds(drives);
    let all: Vec<Measured> = thread::scope(|scope| {
        let load = Load { depth, time, seed };
        let threads: Vec<_> =
            drives.iter().map(|drive| scope.spawn(move || measure_first(&drive.0, load))).collect();
        let join = |thread: thread::ScopedJoinHandle<'_, Result<Measured, _>>| {
            Ok(thread.join().map_err(|_| anyhow!("a reader failed"))??)
        };
        threads.into_iter().map(join).collect::<Result<_>>()
    })
    .context("cannot measure")?;
    let cpu = before.zip(cpu_seconds(drives));
    let merged = |of: fn(&Measured) -> &LatencyHistogram| {
        let mut merged = LatencyHistogram::new();
        all.iter().for_each(|measured| merged.merge(of(measured)));
        Latencies::from(&merged.summary())
    };
    let longest = all.iter().map(|measured| measured.time).max().unwrap_or_default();
    let reads = all.iter().map(|measured| measured.reads).sum();
    let early = merged(|measured| &measured.early);
    Ok(Told1 {
        drives: drives.len(),
        depth,
        reads,
        iops: reads as f64 / longest.as_secs_f64().max(1e-9),
        model: merged(|measured| &measured.model),
        added: merged(|measured| &measured.added),
        server: merged(|measured| &measured.server),
        early_share: early.count as f64 / (reads as f64).max(1.0),
        early,
        cpu: cpu.map(|(a, b)| (b - a) / longest.as_secs_f64().max(1e-9)),
    })
}

/// Measures with the priority that servers have: how late the reader itself is on a
/// busy machine is nothing that the drive adds. For a thread that ends with it.
fn measure_first(drive: &Drive, load: Load) -> Result<Measured, Error> {
    // Not vital.
    _ = rustix::process::setpriority_process(None, -19);
    measure(drive, load)
}

/// A drive that does not outlive its use.
struct Scratch(Drive, #[expect(dead_code, reason = "holds the drive")] serve::Leash);

impl Drop for Scratch {
    fn drop(&mut self) {
        // Nowhere is left to report a failure of this; `drive list` shows it.
        _ = self.0.remove(true);
    }
}

/// Processor time that the servers have taken.
fn cpu_seconds(drives: &[Scratch]) -> Option<f64> {
    // Times are in hundredths of a second, whatever the kernel counts in (proc(5)).
    const PER_SECOND: f64 = 100.0;
    let mut ticks = 0.0;
    for drive in drives {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", drive.0.info().pid)).ok()?;
        // After the name, which may hold anything: state is field 3, times 14 and 15.
        let (_, rest) = stat.rsplit_once(") ")?;
        let mut fields = rest.split(' ').skip(11);
        ticks += fields.next()?.parse::<f64>().ok()? + fields.next()?.parse::<f64>().ok()?;
    }
    Some(ticks / PER_SECOND)
}

fn print(told: &Told) -> io::Result<()> {
    let columns = [
        "drives",
        "depth",
        "IOPS",
        "model p50",
        "added p50",
        "p99",
        "p99.9",
        "in server p50",
        "p99",
        "early",
        "CPU",
    ];
    let mut table = Table::new(&columns.map(|name| (name, Align::Right)));
    let us = |us: Option<f64>| {
        us.map_or_else(|| NONE.to_owned(), |us| Nanos((us * 1e3) as u64).to_string())
    };
    for one in &told.measurements {
        table.row([
            one.drives.to_string(),
            one.depth.to_string(),
            count(one.iops.round() as u64),
            us(one.model.p50_us),
            us(one.added.p50_us),
            us(one.added.p99_us),
            us(one.added.p999_us),
            us(one.server.p50_us),
            us(one.server.p99_us),
            percent(one.early_share),
            one.cpu.map_or_else(|| NONE.to_owned(), percent),
        ]);
    }
    let mut out = io::stdout().lock();
    let width = terminal_size::terminal_size().map_or(100, |(width, _)| width.0.into());
    let table = if out.is_terminal() { table.within(width) } else { table.to_string() };
    write!(out, "{table}")?;
    let idle = told.idle_cpu.map_or_else(|| NONE.to_owned(), percent);
    let leads: Vec<String> = told.lead_us.iter().map(|us| format!("{us:.1}")).collect();
    writeln!(out, "Answers are given {} µs before the model's, for their way.", leads.join(", "))?;
    writeln!(out, "CPU: of one core, all servers together; idle {idle} each.")?;
    writeln!(out, "{}; profile {}", told.machine, told.profile)
}
