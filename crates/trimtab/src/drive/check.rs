//! `trimtab drive check`.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use serde::Serialize;
use trimtab_device::DriveProfile;
use trimtab_emu::{
    Drive, Error, Fill, Latencies, Load, Measurement, PathCounts, PathStat, RunDirectory, Spec,
    measure,
};
use trimtab_io::{LatencyHistogram, Nanos};
use trimtab_report::{Align, Table, count, escaped, machine};

use super::serve;
use crate::background::LifetimeGuard;
use crate::console;
use crate::json::Json;
use crate::progress::{Progress, during};
use crate::units::{NONE, percent};
use crate::{duration, processor_time, profile};

const HELP: &str = "\
Examples:
  sudo trimtab drive check
  sudo trimtab drive check --duration 30s --json check.json
  sudo trimtab drive check --profile disk-7200 --duration 30s

Makes scratch drives, reads 4 KiB at random with direct I/O, and removes the drives: one
drive at depths 1 to 32 with at most 30,000 reads a second (--rate), then one and three
drives at full speed. `added` is the latency beyond the model as a program sees it. Three
parts of it are measured at the block layer's tracepoints: `to server` (loop device, FUSE and
their wake-ups), `in server`, and `back`; answers are early by `compensated`. The rest is the
reading program's: system calls and wake-ups. `early` is the share of reads that completed in
the block layer before the model's time. `saturated` is the share of reads in moments in which
half of them were more than 30 µs late: the machine is too slow there, and latencies are the
machine's, not the drive's. Percentiles that too few reads support are left out.";

/// How to measure.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// How long each measurement takes.
    #[arg(long, value_name = "TIME", value_parser = duration::parse_positive, default_value = "5s")]
    duration: Nanos,
    /// The most reads per second when depths are compared.
    #[arg(long, value_name = "N", default_value_t = 30_000, value_parser = clap::value_parser!(u32).range(1..))]
    rate: u32,
    /// The emulated drive's profile: a name or a file.
    #[arg(long, value_name = "PROFILE", default_value = "consumer-a")]
    profile: String,
    /// Write the figures as JSON, to a file that appears once complete, or with - to standard
    /// output in place of the table.
    #[arg(long, value_name = "OUT")]
    json: Option<PathBuf>,
}

/// Reads in flight, for the comparison of depths.
const DEPTHS: [u32; 6] = [1, 2, 4, 8, 16, 32];
/// Drives that are measured together.
const DRIVES: usize = 3;
/// Large enough for half a million reads at distinct offsets.
const CAPACITY: u64 = 4 << 30;
/// Reads before each measurement, for this long, are not counted.
const WARM_UP: Nanos = Nanos::from_secs(1);
/// Wait after each measurement, so that the drives have seen the last reads complete.
const SETTLE: Duration = Duration::from_millis(200);
/// How long an idle server is observed.
const IDLE: Duration = Duration::from_secs(2);

/// The whole report.
#[derive(Debug, Serialize)]
struct CheckReport {
    trimtab: &'static str,
    machine: String,
    profile: String,
    /// Share of one core that a server used while idle.
    idle_cpu: Option<f64>,
    measurements: Vec<MeasurementReport>,
}

/// One measurement.
#[derive(Debug, Serialize)]
struct MeasurementReport {
    drives: usize,
    depth: u32,
    /// The most reads sent per second.
    rate: Option<u32>,
    reads: u64,
    iops: f64,
    /// Latency according to the model.
    model: Latencies,
    /// Latency beyond the model, as a program sees it.
    added: Latencies,
    /// The part of it that arises in the server.
    server: Latencies,
    /// From the block layer to the server, and back, with the compensation; of the drive with the
    /// longest path. `None` if the tracepoints showed no read.
    path: Option<PathStat>,
    /// Share of reads that completed too early, of those whose issue and completion the block
    /// layer's tracepoints showed; `None` if they showed none.
    early_share: Option<f64>,
    /// The same, for reads in moments in which the machine was saturated.
    saturated_share: Option<f64>,
    /// How much earlier than the model the drives answered at the end, µs.
    lead_us: Vec<f64>,
    /// Share of one core that all servers used together.
    cpu: Option<f64>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let json = args.json.as_deref().map(|out| Json::create(out, &[])).transpose()?;
    let profile = profile::find_any(&args.profile)?.with_capacity(CAPACITY)?;
    let mut progress = Progress::new();
    let drives = during("making scratch drives", || make_drives(&profile))?;
    let idle = during("watching an idle server", || {
        let before = cpu_seconds(&drives[..1]);
        thread::sleep(IDLE);
        before.zip(cpu_seconds(&drives[..1])).map(|(a, b)| (b - a) / IDLE.as_secs_f64())
    });
    let paced = DEPTHS.map(|depth| (1, depth, Some(args.rate)));
    let unlimited = [(1, 1, None), (1, 16, None), (DRIVES, 16, None)];
    let all = [&paced[..], &unlimited].concat();
    let time = args.duration;
    let mut measurements = Vec::with_capacity(all.len());
    for (&(used, depth, per_second), seed) in all.iter().zip(0..) {
        progress.show(|_| measuring(measurements.len() + 1, all.len(), used, depth));
        measurements.push(together(&drives[..used], Load { depth, per_second, time, seed })?);
    }
    drop(progress);
    drop(drives);
    let report = CheckReport {
        trimtab: env!("CARGO_PKG_VERSION"),
        machine: machine(),
        profile: profile.name().to_owned(),
        idle_cpu: idle,
        measurements,
    };
    match json {
        Some(Json::StandardOutput) => return Json::StandardOutput.write(&report),
        Some(file) => file.write(&report)?,
        None => {}
    }
    Ok(print(&report)?)
}

fn make_drives(profile: &DriveProfile) -> Result<Vec<Scratch>> {
    let home = RunDirectory::from_environment();
    let make = |number| {
        let mut spec = Spec::new(format!("check-{}-{number}", std::process::id()), profile.clone());
        spec.seed = 1 + number as u64;
        if matches!(profile, DriveProfile::Flash(_)) {
            // Everything is mapped, so that each read goes to the flash.
            spec.fill = Fill { share: 1.0, overwrites: 0.0 };
        }
        let name = spec.name.clone();
        let guard = serve::with_guard(&spec)?;
        Ok(Scratch(Drive::find(&home, &name)?, guard))
    };
    (0..DRIVES).map(make).collect()
}

/// Progress line for the current measurement. It is shown while the measurement lasts; nothing
/// else runs then, so one line before each is enough.
fn measuring(number: usize, of: usize, drives: usize, depth: u32) -> String {
    let plural = if drives == 1 { "" } else { "s" };
    format!("measurement {number} of {of}: {drives} drive{plural}, {depth} in flight")
}

/// Reads from all of these drives at once.
fn together(drives: &[Scratch], load: Load) -> Result<MeasurementReport> {
    // The latency compensation adapts to this depth first, as it would in use.
    let warm_up = Load { time: WARM_UP.min(load.time), seed: !load.seed, ..load };
    read_all(drives, warm_up)?;
    let stats = || drives.iter().map(|drive| Ok(drive.0.stat()?)).collect::<Result<Vec<_>>>();
    let before = cpu_seconds(drives);
    let all = read_all(drives, load)?;
    let cpu = before.zip(cpu_seconds(drives));
    // The block layer's figures arrive some milliseconds later.
    thread::sleep(SETTLE);
    let now = stats()?;
    let paths: Vec<PathStat> = now.iter().filter_map(|stat| stat.logged_path).collect();
    let counts = paths.iter().map(|&path| PathCounts::between(None, Some(path)));
    let counts = counts.fold(PathCounts::default(), |all, one| all.plus(&one));
    let longest_path = paths
        .into_iter()
        .max_by(|a, b| a.beyond.p50_us.unwrap_or(0.0).total_cmp(&b.beyond.p50_us.unwrap_or(0.0)));
    let merged = |of: fn(&Measurement) -> &LatencyHistogram| {
        let mut merged = LatencyHistogram::new();
        all.iter().for_each(|measured| merged.merge(of(measured)));
        Latencies::from(&merged.summary())
    };
    let longest = all.iter().map(|measured| measured.time).max().unwrap_or_default();
    let reads = all.iter().map(|measured| measured.reads).sum();
    Ok(MeasurementReport {
        drives: drives.len(),
        depth: load.depth,
        rate: load.per_second,
        reads,
        iops: reads as f64 / longest.as_secs_f64().max(1e-9),
        model: merged(|measured| &measured.model),
        added: merged(|measured| &measured.added),
        server: merged(|measured| &measured.server),
        path: longest_path,
        early_share: counts.early_share(),
        saturated_share: counts.saturated_share(),
        lead_us: now.iter().map(|stat| stat.compensation_us).collect(),
        cpu: cpu.map(|(a, b)| (b - a) / longest.as_secs_f64().max(1e-9)),
    })
}

fn read_all(drives: &[Scratch], load: Load) -> Result<Vec<Measurement>> {
    thread::scope(|scope| {
        let threads: Vec<_> =
            drives.iter().map(|drive| scope.spawn(move || measure_first(&drive.0, load))).collect();
        let join = |thread: thread::ScopedJoinHandle<'_, Result<Measurement, _>>| {
            Ok(thread.join().map_err(|_| anyhow!("a reader failed"))??)
        };
        threads.into_iter().map(join).collect::<Result<_>>()
    })
    .context("cannot measure")
}

/// Measures at the servers' priority, so that the reader's own scheduling delay on a busy
/// machine is not charged to the drive. The calling thread keeps that priority, so it should
/// end afterwards.
fn measure_first(drive: &Drive, load: Load) -> Result<Measurement, Error> {
    // Not essential.
    _ = rustix::process::setpriority_process(None, -19);
    measure(drive, load)
}

/// A drive that is removed when this is dropped.
struct Scratch(Drive, #[expect(dead_code, reason = "holds the drive")] LifetimeGuard);

impl Drop for Scratch {
    fn drop(&mut self) {
        // The failure cannot be reported here; `drive list` shows it.
        _ = self.0.remove(true);
    }
}

/// Processor time that the servers have used, s.
fn cpu_seconds(drives: &[Scratch]) -> Option<f64> {
    drives.iter().map(|drive| processor_time::of(drive.0.info().pid)).sum()
}

fn print(report: &CheckReport) -> io::Result<()> {
    let columns = [
        "drives",
        "depth",
        "rate",
        "IOPS",
        "model p50",
        "added p50",
        "p99",
        "p99.9",
        "to server",
        "in server",
        "back",
        "compensated",
        "early",
        "saturated",
        "CPU",
    ];
    let mut table = Table::new(&columns.map(|name| (name, Align::Right)));
    let us = |us: Option<f64>| {
        us.map_or_else(|| NONE.to_owned(), |us| Nanos((us * 1e3) as u64).to_string())
    };
    let share = |share: Option<f64>| share.map_or_else(|| NONE.to_owned(), percent);
    for one in &report.measurements {
        let part = |of: fn(&PathStat) -> Option<f64>| us(one.path.as_ref().and_then(of));
        table.row([
            one.drives.to_string(),
            one.depth.to_string(),
            one.rate.map_or_else(|| "any".to_owned(), |rate| count(rate.into())),
            count(one.iops.round() as u64),
            us(one.model.p50_us),
            us(one.added.p50_us),
            us(one.added.p99_us),
            us(one.added.p999_us),
            part(|path| path.to_server.p50_us),
            us(one.server.p50_us),
            part(|path| path.from_server.p50_us),
            part(|path| path.compensation.p50_us),
            share(one.early_share),
            share(one.saturated_share),
            share(one.cpu),
        ]);
    }
    let mut out = console::out(false);
    let width = terminal_size::terminal_size().map_or(100, |(width, _)| width.0.into());
    let table = if console::out_is_terminal() { table.within(width) } else { table.to_string() };
    write!(out, "{table}")?;
    let idle = share(report.idle_cpu);
    writeln!(out, "To server, in server, back and compensated are medians.")?;
    writeln!(out, "CPU: of one core, all servers together; idle {idle} each.")?;
    writeln!(out, "{}; profile {}", report.machine, escaped(&report.profile))
}
