//! `trimtab watch`.

use std::io::Write as _;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde::Serialize;
use trimtab_block::BlockDevice;
use trimtab_io::monotonic;
use trimtab_io::{DeviceId, Flags, Issuer, Nanos, Op, Request, RequestId};
use trimtab_predict::{Model, Verdict};
use trimtab_state::{LiveDrive, SizeClass};
use trimtab_tracker::{StateTracker, TrackerOptions};

use crate::console;
use crate::duration;
use crate::log;
use crate::models;
use crate::privileges::{self, keep_only};
use crate::record::{Signal, Signals};
use trimtab_report::escaped;

const EXAMPLES: &str = "\
Examples:
  sudo trimtab watch nvme0n1
  sudo trimtab watch nvme0n1 --model nvme0n1.model --interval 200ms
  sudo trimtab watch nvme0n1 nvme1n1 --count 1 --json | jq .requests
  sudo trimtab watch nvme0n1 --model linnos.model --in-kernel
  sudo trimtab watch nvme0n1 --pin /sys/fs/bpf/trimtab

It ends after the count, or with Ctrl-C. Figures include the I/O of all processes. With
--pin any process may read the same state, without a system call, if its user may search
the directories above the pins.";

/// Period of polling for signals.
const POLL: Duration = Duration::from_millis(20);
/// Number of offsets at which the model is asked about a read.
const OFFSETS: u64 = 256;

/// Which devices, and how often.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The disks, by name (nvme0n1) or path (/dev/disk/by-id/…).
    #[arg(value_name = "DEVICE", required = true)]
    devices: Vec<String>,
    /// Show how many reads this model, made by `trimtab train`, would refuse.
    #[arg(short, long, value_name = "MODEL")]
    model: Option<PathBuf>,
    /// Have the kernel decide by the model, which must be a `linnos` model, after each request
    /// and completion, and show its decisions for small and for large reads.
    #[arg(long, requires = "model")]
    in_kernel: bool,
    /// The interval between updates: 100ms, 1s.
    #[arg(short, long, value_name = "TIME", value_parser = duration::parse_positive, default_value = "1s")]
    interval: Nanos,
    /// End after this many updates.
    #[arg(short, long, value_name = "N")]
    count: Option<u64>,
    /// Pin the state in this directory of a BPF file system, for other processes to read.
    #[arg(long, value_name = "DIR")]
    pin: Option<PathBuf>,
    /// Print one line of JSON per update.
    #[arg(long)]
    json: bool,
}

/// A drive at a moment.
#[derive(Serialize)]
struct Shown<'a> {
    device: &'a str,
    /// Requests since the previous update, per second.
    per_second: f64,
    /// In flight.
    requests: u32,
    reads: u32,
    writes: u32,
    read_bytes: u64,
    write_bytes: u64,
    /// Ages of the oldest ones in flight; 0 if there is none.
    oldest_read_ns: u64,
    oldest_other_ns: u64,
    /// Latencies of the last completed reads and writes, the latest first.
    latency_ns: [u64; 4],
    pages_then: [u32; 4],
    /// Of the reads of about the last 34 ms.
    mean_read_ns: u64,
    /// Of this many 4 KiB reads, at offsets across the drive, how many the model would refuse.
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<[u64; 2]>,
    /// The kernel's decision for reads up to 64 KiB, and for larger ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    in_kernel: Option<[&'static str; 2]>,
    never_completed: u64,
    missed: u64,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let devices =
        args.devices.iter().map(|name| BlockDevice::find(name)).collect::<Result<Vec<_>, _>>()?;
    let model = args.model.as_deref().map(models::load).transpose()?;
    let models: Vec<_> = devices.iter().map(|device| of_drive(model.as_ref(), device)).collect();
    let functions = |model: &Option<&Model>| {
        model.map_or(Vec::new(), |model| model.trained.functions().to_vec())
    };
    let options = TrackerOptions {
        functions: models.iter().map(functions).collect(),
        in_kernel: args.in_kernel,
        ..TrackerOptions::default()
    };
    let signals = Signals::catch()?;
    keep_only(privileges::BPF)?;
    let mut tracker = StateTracker::load(&devices, &options)?;
    for (index, model) in models.iter().enumerate().filter(|_| args.in_kernel) {
        tracker.set_network(index, model.map(|model| &model.trained))?;
    }
    if let Some(directory) = &args.pin {
        tracker.pin(directory)?;
    }
    let drives = (0..devices.len()).map(|i| tracker.drive(i)).collect::<Result<Vec<_>, _>>()?;
    let mut sent = vec![0; drives.len()];
    let mut last = Instant::now();
    for turn in 0..args.count.unwrap_or(u64::MAX) {
        if !wait(last + Duration::from_nanos(args.interval.0), &signals) {
            break;
        }
        let seconds = last.elapsed().as_secs_f64();
        last = Instant::now();
        let mut out = console::out(args.json);
        if turn % 20 == 0 && !args.json {
            writeln!(out, "{HEADER}")?;
        }
        for (((device, drive), model), sent) in
            devices.iter().zip(&drives).zip(&models).zip(&mut sent)
        {
            let now_sent = drive.sent();
            let per_second = (now_sent - *sent) as f64 / seconds;
            *sent = now_sent;
            let Some(shown) = show(device, drive, *model, per_second) else { continue };
            if args.json {
                serde_json::to_writer(&mut out, &shown)?;
                writeln!(out)?;
            } else {
                writeln!(out, "{}", escaped(&line(&shown)))?;
            }
        }
        out.flush()?;
    }
    Ok(())
}

/// The model, unless it was trained on another drive: then the difference is logged.
fn of_drive<'a>(model: Option<&'a Model>, device: &BlockDevice) -> Option<&'a Model> {
    let model = model?;
    let Some(other) = model.other_drive(&device.identity()) else { return Some(model) };
    log::line(&format!("watch: {}: no model used: {other}", device.name));
    None
}

/// Waits. Returns false if a signal arrived.
fn wait(until: Instant, signals: &Signals) -> bool {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if signals.look() != Signal::None {
            return false;
        }
        if left.is_zero() {
            return true;
        }
        thread::sleep(left.min(POLL));
    }
}

/// A drive's row; `None` if its state was being written at each attempt.
fn show<'a>(
    device: &'a BlockDevice,
    drive: &LiveDrive,
    model: Option<&Model>,
    per_second: f64,
) -> Option<Shown<'a>> {
    let now = monotonic();
    let state = drive.state()?;
    let age = |sent: Nanos| if sent == Nanos::ZERO { 0 } else { now.since(sent).0 };
    let window = trimtab_predict::WINDOWS[1];
    let (answered, ticks) =
        (state.reads_completed[1].sum(window, now), state.read_latencies[1].sum(window, now));
    let counters = drive.counters();
    Some(Shown {
        device: &device.name,
        per_second,
        requests: state.requests,
        reads: state.whole.reads,
        writes: state.whole.writes,
        read_bytes: state.read_bytes,
        write_bytes: state.write_bytes,
        oldest_read_ns: age(state.oldest_read),
        oldest_other_ns: age(state.oldest_other),
        latency_ns: state.history.map(|answer| answer.latency.0),
        pages_then: state.history.map(|answer| answer.pages_then),
        mean_read_ns: u64::from(ticks / answered.max(1)) << 10,
        refused: model.and_then(|model| refused(device, drive, model)),
        in_kernel: in_kernel(drive),
        never_completed: counters.never_completed + counters.expired,
        missed: counters.missed + counters.table_full,
    })
}

/// The kernel's decisions, if it makes any.
fn in_kernel(drive: &LiveDrive) -> Option<[&'static str; 2]> {
    let [small, large] = SizeClass::ALL.map(|class| {
        let verdict = drive.verdict(class)?;
        Some(if verdict == Verdict::Late { "late" } else { "fast" })
    });
    Some([small?, large?])
}

/// Asks the model about reads across the drive.
fn refused(device: &BlockDevice, drive: &LiveDrive, model: &Model) -> Option<[u64; 2]> {
    let pages = device.size().ok()? / 4096;
    let mut refused = 0;
    for i in 0..OFFSETS {
        let request = Request {
            id: RequestId(i),
            device: DeviceId(0),
            arrival: Nanos::ZERO,
            op: Op::Read,
            offset: pages * i / OFFSETS * 4096,
            length: 4096,
            flags: Flags::empty(),
            deadline: None,
            issuer: Issuer::of_process(0),
        };
        let forecast = drive.forecast(&model.trained, monotonic(), &request)?;
        refused += u64::from(forecast.verdict == Verdict::Late);
    }
    Some([refused, OFFSETS])
}

const HEADER: &str = "device       requests/s  in flight: reads writes  oldest read  \
                      last answers                        mean read  refused     in the kernel";

fn line(shown: &Shown<'_>) -> String {
    let latencies = shown.latency_ns.map(|ns| Nanos(ns).to_string()).join(" ");
    let refused = shown.refused.map_or(String::new(), |[n, of]| format!("{n} of {of}"));
    let in_kernel = shown.in_kernel.map_or(String::new(), |verdicts| verdicts.join(" "));
    let line = format!(
        "{:12} {:10.0} {:17} {:6}  {:>11}  {latencies:35} {:>9}  {refused:10}  {in_kernel}",
        shown.device,
        shown.per_second,
        shown.reads,
        shown.writes,
        Nanos(shown.oldest_read_ns).to_string(),
        Nanos(shown.mean_read_ns).to_string(),
    );
    line.trim_end().to_owned()
}
