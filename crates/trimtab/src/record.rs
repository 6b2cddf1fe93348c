//! `trimtab record`.

mod child;
mod crash;
mod ending;
mod live;
mod replaced;
mod signals;
mod tolerance;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Result;
use trimtab_block::BlockDevice;
use trimtab_io::Nanos;
use trimtab_predict::Identity;
use trimtab_record::{Outcome, Recorder, RecorderOptions, Recording};
use trimtab_report::{machine, utc};
use trimtab_trace::{Clock, Format, Meta, OutputFormat, Record, Stats, Writer};

use self::child::Child;
use self::crash::Crash;
use self::ending::Ending;
use self::live::LiveLine;
use self::replaced::Replaced;
pub(crate) use self::signals::{Signal, Signals};
use self::tolerance::Tolerance;
use crate::duration;
use crate::exit::BadInput;
use crate::output::must_be_a_file;
use crate::privileges::{self, keep_only};

const EXAMPLES: &str = "\
Examples:
  sudo trimtab record nvme0n1 --duration 60s
  sudo trimtab record sda sdb --out both.parquet -- fio job.fio

Recording ends with the command, after the duration, with Ctrl-C, SIGTERM or
SIGHUP. The exit code is 3 if more was lost than is tolerated; the trace is kept.
Until the trace is complete, its records are also in a spool beside it
(FILE.spool), from which `trimtab trace recover` makes a trace after a crash.";

/// How often the ring is emptied. It holds a hundred times what arrives in that time, and each
/// read of the kernel's table costs some 200 µs.
const POLL: Duration = Duration::from_millis(40);
/// How long to wait at the end for requests in flight. Later ones are recorded without a
/// completion.
const PATIENCE: Duration = Duration::from_secs(5);

/// What to record, and how.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The disks, by name (nvme0n1) or path (/dev/disk/by-id/…).
    #[arg(value_name = "DEVICE", required = true)]
    devices: Vec<String>,
    /// The trace to write [default: the first device's name, or the first of
    /// NAME.parquet, NAME-2.parquet, … that does not exist].
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Record for this long: 500ms, 60s, 5m, 1h.
    #[arg(short, long, value_name = "TIME", value_parser = duration::parse_positive, conflicts_with = "command")]
    duration: Option<Nanos>,
    /// Show the cost of recording, from the kernel's own statistics.
    #[arg(long)]
    overhead: bool,
    /// Size in MiB of the buffer between kernel and recorder.
    #[arg(long, value_name = "MIB", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1024))]
    buffer: u32,
    /// The share of requests that may be lost before the exit code is 3: 0.1%, 0.001.
    #[arg(long, value_name = "SHARE", default_value = tolerance::DEFAULT, value_parser = Tolerance::parse)]
    tolerate_lost: Tolerance,
    /// Keep no spool beside the output. A crash then loses the recording, but half as much is
    /// written to disk.
    #[arg(long)]
    no_spool: bool,
    /// Print the summary as JSON.
    #[arg(long)]
    json: bool,
    /// Record while this runs.
    #[arg(value_name = "COMMAND", last = true)]
    command: Vec<String>,
}

pub(crate) fn run(args: Args) -> Result<()> {
    let devices =
        args.devices.iter().map(|name| BlockDevice::find(name)).collect::<Result<Vec<_>, _>>()?;
    let out = args.out.clone().unwrap_or_else(|| free_name(&devices[0].name));
    let options = RecorderOptions {
        ring_bytes: args.buffer << 20,
        measure_overhead: args.overhead,
        ..RecorderOptions::default()
    };
    if let Some(other @ ("csv" | "iolog" | "log")) = out.extension().and_then(|e| e.to_str()) {
        let why = "a recording is Parquet: end the name in .parquet, and convert it afterwards";
        return Err(BadInput(format!("{}: no .{other}: {why}", out.display())).into());
    }
    must_be_a_file(&out)?;
    let signals = Signals::catch_all()?;
    let recorder = Recorder::load(&devices, &options)?;
    // Before anything runs, so that an unwritable path costs nothing.
    let mut session = Session::new(&out, &devices, !args.no_spool)?;
    let mut recording = recorder.start();
    session.note(&recording, &devices);
    let child = Child::spawn(&args.command)?;
    // The command keeps its privileges, being started already; the spool's thread starts
    // later.
    keep_only(privileges::RECORD)?;
    session.crash.attach(&mut recording, &session.meta);
    let recorded = session.record(recording, child, args.duration, &signals);
    let (outcome, child, ended_by) = session.crash.explain(recorded)?;
    let ending = session.finish(&out, outcome)?;
    let printed = ending.print(args.json, args.overhead);
    // A terminal that is gone cannot show the summary; that is no failure.
    if ended_by != Signal::HangUp {
        printed?;
    }
    Child::into_result(child)?;
    ending.into_result(args.tolerate_lost)
}

/// The outputs of a recording.
struct Session {
    writer: Writer,
    stats: Stats,
    meta: Meta,
    live: LiveLine,
    crash: Crash,
    replaced: Replaced,
    batch: Vec<Record>,
}

impl Session {
    fn new(out: &Path, devices: &[BlockDevice], spool: bool) -> Result<Self> {
        let notes = vec![
            ("recorded_by".to_owned(), concat!("trimtab ", env!("CARGO_PKG_VERSION")).to_owned()),
            ("machine".to_owned(), machine()),
        ];
        let meta = Meta { format: Format::Parquet, clock: Clock::Own, has_offsets: true, notes };
        Ok(Self {
            writer: Writer::create(out, OutputFormat::Parquet, &meta)?,
            crash: Crash::begin(out, spool)?,
            replaced: Replaced::new(devices),
            stats: Stats::new(),
            meta,
            live: LiveLine::new(),
            batch: Vec::new(),
        })
    }

    fn note(&mut self, recording: &Recording, devices: &[BlockDevice]) {
        let names: Vec<_> = devices.iter().map(|device| device.name.as_str()).collect();
        let started = recording.started_unix();
        self.set_note("devices", &names.join(" "));
        for device in devices {
            if let Some(note) = device.identity().to_note() {
                self.set_note(&Identity::note_key(&device.name), &note);
            }
        }
        self.set_note("started", &utc(started));
        self.set_note("started_unix_ns", &started.0.to_string());
    }

    fn set_note(&mut self, key: &str, value: &str) {
        self.writer.set_note(key, value);
        self.crash.set_note(key, value);
        self.meta.notes.push((key.to_owned(), value.to_owned()));
    }

    /// Records until the command ends, the time is over or a signal arrives. Returns the first
    /// signal, if there was one.
    fn record(
        &mut self,
        mut recording: Recording,
        mut child: Option<Child>,
        duration: Option<Nanos>,
        signals: &Signals,
    ) -> Result<(Outcome, Option<Child>, Signal)> {
        let mut first_signal = Signal::None;
        let end = duration.map(|d| Instant::now() + Duration::from_nanos(d.0));
        loop {
            let left = end.map_or(POLL, |end| end.saturating_duration_since(Instant::now()));
            std::thread::sleep(left.min(POLL));
            recording.poll(&mut self.batch)?;
            self.live.show(&self.batch, &recording);
            self.take(&recording)?;
            self.crash.watch(recording.losses().total());
            if let Some(names) = self.replaced.look() {
                self.set_note("replaced", &names);
            }
            let signal = signals.look();
            let over = match &mut child {
                // The first signal asks the command to end, the second this process.
                Some(child) => {
                    child.has_ended(signal)?
                        || (first_signal != Signal::None && signal != Signal::None)
                }
                None => signal != Signal::None,
            };
            if first_signal == Signal::None {
                first_signal = signal;
            }
            if over || end.is_some_and(|end| Instant::now() >= end) {
                break;
            }
        }
        self.live.wipe();
        let outcome = recording.stop(PATIENCE, |rest, names| {
            self.writer.write(rest, names)?;
            rest.iter().for_each(|record| self.stats.add(record));
            anyhow::Ok(())
        })?;
        Ok((outcome, child, first_signal))
    }

    fn take(&mut self, recording: &Recording) -> Result<()> {
        self.writer.write(&self.batch, recording.names())?;
        self.batch.iter().for_each(|record| self.stats.add(record));
        self.batch.clear();
        Ok(())
    }

    fn finish(mut self, out: &Path, outcome: Outcome) -> Result<Ending> {
        for (key, value) in ending::loss_notes(&outcome.losses) {
            self.set_note(key, &value.to_string());
        }
        self.set_note("empty_flushes", &outcome.empty_flushes.to_string());
        self.crash.explain(self.writer.finish().map_err(Into::into))?;
        self.crash.discard();
        let report = self.stats.finish(&outcome.names, &self.meta);
        Ok(Ending { trace: out.to_owned(), report, outcome })
    }
}

/// `sda.parquet`, or the first of `sda-2.parquet`, … that does not exist: a recording must not
/// replace an earlier one unasked.
fn free_name(device: &str) -> PathBuf {
    free_beside(Path::new(&format!("{device}.parquet")))
}

/// The path, or the first of `NAME-2.parquet`, … that does not exist.
pub(crate) fn free_beside(first: &Path) -> PathBuf {
    let stem = first.file_stem().unwrap_or_default().to_string_lossy();
    let ending = first.extension().map(|e| format!(".{}", e.to_string_lossy())).unwrap_or_default();
    std::iter::once(first.to_owned())
        .chain((2_u64..).map(|n| first.with_file_name(format!("{stem}-{n}{ending}"))))
        .find(|path| !path.exists())
        .expect("some number is free")
}
