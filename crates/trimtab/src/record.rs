//! `trimtab record`.

mod child;
mod ending;
mod live;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use trimtab_io::Nanos;
use trimtab_live::record::{BlockDevice, Options, Outcome, Recorder, Recording};
use trimtab_predict::Identity;
use trimtab_report::{machine, utc};
use trimtab_trace::{Clock, Format, Meta, OutputFormat, Record, Stats, Writer};

use self::child::Child;
use self::ending::Ending;
use self::live::LiveLine;
use crate::duration;
use crate::exit::BadInput;
use crate::output::must_be_a_file;

const EXAMPLES: &str = "\
Examples:
  sudo trimtab record nvme0n1 --duration 60s
  sudo trimtab record sda sdb --out both.parquet -- fio job.fio

Recording ends with the command, after the duration, or with Ctrl-C. The exit
code is 3 if requests were lost: what was recorded is kept.";

/// How often the ring is emptied. It holds a hundred times what comes
/// in meanwhile, and each look at the kernel's table costs some 200 µs.
const POLL: Duration = Duration::from_millis(40);
/// How long to wait at the end for requests on their way. What takes longer is
/// recorded as not seen to complete.
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
    /// Record for so long: 500ms, 60s, 5m, 1h.
    #[arg(short, long, value_name = "TIME", value_parser = duration::parse, conflicts_with = "command")]
    duration: Option<Nanos>,
    /// Show what recording costs, by the kernel's own statistics.
    #[arg(long)]
    overhead: bool,
    /// Size in MiB of the buffer between kernel and recorder.
    #[arg(long, value_name = "MIB", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1024))]
    buffer: u32,
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
    let options = Options {
        ring_bytes: args.buffer << 20,
        measure_overhead: args.overhead,
        ..Options::default()
    };
    if let Some(other @ ("csv" | "iolog" | "log")) = out.extension().and_then(|e| e.to_str()) {
        let why = "a recording is Parquet: end the name in .parquet, and convert it afterwards";
        return Err(BadInput(format!("{}: no .{other}: {why}", out.display())).into());
    }
    must_be_a_file(&out)?;
    let signals = Signals::catch()?;
    let recorder = Recorder::load(&devices, &options)?;
    // Before anything runs, so that a path that cannot be written costs nothing.
    let mut session = Session::new(&out)?;
    let recording = recorder.start();
    session.note(&recording, &devices);
    let child = Child::spawn(&args.command)?;
    let (outcome, child) = session.record(recording, child, args.duration, &signals)?;
    let ending = session.finish(&out, outcome)?;
    ending.print(args.json, args.overhead)?;
    Child::into_result(child)?;
    ending.into_result()
}

/// What a recording fills.
struct Session {
    writer: Writer,
    stats: Stats,
    meta: Meta,
    live: LiveLine,
    batch: Vec<Record>,
}

impl Session {
    fn new(out: &Path) -> Result<Self> {
        let notes = vec![
            ("recorded_by".to_owned(), concat!("trimtab ", env!("CARGO_PKG_VERSION")).to_owned()),
            ("machine".to_owned(), machine()),
        ];
        let meta = Meta { format: Format::Parquet, clock: Clock::Own, has_offsets: true, notes };
        Ok(Self {
            writer: Writer::create(out, OutputFormat::Parquet, &meta)?,
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
        self.meta.notes.push((key.to_owned(), value.to_owned()));
    }

    /// Records until the command ends, the time is over or a signal comes.
    fn record(
        &mut self,
        mut recording: Recording,
        mut child: Option<Child>,
        duration: Option<Nanos>,
        signals: &Signals,
    ) -> Result<(Outcome, Option<Child>)> {
        let mut signalled = false;
        let end = duration.map(|d| Instant::now() + Duration::from_nanos(d.0));
        loop {
            let left = end.map_or(POLL, |end| end.saturating_duration_since(Instant::now()));
            std::thread::sleep(left.min(POLL));
            recording.poll(&mut self.batch)?;
            self.live.show(&self.batch, &recording);
            self.take(&recording)?;
            let signal = signals.look();
            let over = match &mut child {
                // The first signal is for the command to end by, the second
                // for us.
                Some(child) => child.has_ended(signal)? || (signalled && signal != Signal::None),
                None => signal != Signal::None,
            };
            signalled |= signal != Signal::None;
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
        Ok((outcome, child))
    }

    fn take(&mut self, recording: &Recording) -> Result<()> {
        self.writer.write(&self.batch, recording.names())?;
        self.batch.iter().for_each(|record| self.stats.add(record));
        self.batch.clear();
        Ok(())
    }

    fn finish(mut self, out: &Path, outcome: Outcome) -> Result<Ending> {
        self.set_note("lost", &outcome.losses.total().to_string());
        self.set_note("empty_flushes", &outcome.empty_flushes.to_string());
        self.writer.finish()?;
        let report = self.stats.finish(&outcome.names, &self.meta);
        Ok(Ending { trace: out.to_owned(), report, outcome })
    }
}

/// `sda.parquet`, or the first of `sda-2.parquet`, … that does not exist: a
/// recording must not replace an earlier one unasked.
fn free_name(device: &str) -> PathBuf {
    let first = PathBuf::from(format!("{device}.parquet"));
    std::iter::once(first)
        .chain((2_u64..).map(|n| PathBuf::from(format!("{device}-{n}.parquet"))))
        .find(|path| !path.exists())
        .expect("some number is free")
}

/// Signals that ask for the end: Ctrl-C and SIGTERM.
pub(crate) struct Signals {
    interrupt: Arc<AtomicBool>,
    terminate: Arc<AtomicBool>,
}

/// What has come since the last look.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    None,
    Interrupt,
    Terminate,
}

impl Signals {
    pub(crate) fn catch() -> Result<Self> {
        let flag = |signal| -> Result<Arc<AtomicBool>> {
            let flag = Arc::new(AtomicBool::new(false));
            signal_hook::flag::register(signal, Arc::clone(&flag))
                .context("cannot catch signals")?;
            Ok(flag)
        };
        Ok(Self {
            interrupt: flag(signal_hook::consts::SIGINT)?,
            terminate: flag(signal_hook::consts::SIGTERM)?,
        })
    }

    pub(crate) fn look(&self) -> Signal {
        if self.terminate.swap(false, Ordering::Relaxed) {
            Signal::Terminate
        } else if self.interrupt.swap(false, Ordering::Relaxed) {
            Signal::Interrupt
        } else {
            Signal::None
        }
    }
}
