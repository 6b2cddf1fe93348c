//! Plain reads beside reads of a replica set, on drives that are written to in bursts.
//!
//! ```text
//! trimtab drive create a --profile femu --size 1G --fill 1 --overwrites 3   # b and c as well
//! cargo run --release -p trimtab-replicas --example replica_trial -- \
//!     --overwrite /dev/loop0 /dev/loop1 /dev/loop2
//! ```
//!
//! The first 64 MiB of each device are overwritten with the same pages, each with its number in
//! it, and the rest with noise: bursts of 64 KiB writes at random places, 400 ms long with 800 ms
//! between them in the mean, independently for each device. Threads read random pages past the
//! page cache, one after the other, and verify each. `late` are reads that failed at their
//! deadline, `overdue` those that returned more than 1 ms after it, and in parentheses those of them
//! whose thread waited for a processor meanwhile (`/proc/thread-self/schedstat`). Plain reads go to the set's primary replicas
//! by `pread(2)`. The ways to read take turns, several rounds of them, so that they meet the same
//! kind of noise.
//!
//! Models: `--models A,B,C` (made by `trimtab record` and `trimtab train` under the same load, for
//! instance by `trimtab record … -- replica_trial --only plain …`), with a tracker running
//! (`trimtab agent`, `trimtab watch --pin`).

#![allow(clippy::print_stdout)]

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use trimtab_block::DirectBuffer;
use trimtab_io::{LatencyHistogram, Nanos, SplitMix64, monotonic};
use trimtab_predict::Model;
use trimtab_read::Source;
use trimtab_replicas::{ReadError, ReplicaOptions, ReplicaSet, SetFigures, SetOptions};

type Failed = Box<dyn std::error::Error + Send + Sync>;

const PAGE: u64 = 4096;
const PAGES: u64 = (64 << 20) / PAGE;
const NOISE: usize = 64 << 10;
const BURST: Duration = Duration::from_millis(400);
const PAUSE: Duration = Duration::from_millis(800);

const USAGE: &str = "usage: replica_trial --overwrite [--seconds N] [--rounds N] [--threads N] \
    [--deadline-us N] [--noise-mib-s N] [--models A,B,C] [--pins DIR] \
    [--only WAY] DEVICE DEVICE [DEVICE ...]";

struct Args {
    time: Duration,
    rounds: u32,
    threads: u64,
    deadline: Duration,
    /// Bytes per second of each device, in bursts.
    noise: u64,
    models: Vec<PathBuf>,
    pins: Option<PathBuf>,
    /// The only way to read; all, if it is empty.
    only: String,
    devices: Vec<PathBuf>,
}

fn main() -> Result<(), Failed> {
    let args = Args::parse()?;
    for device in &args.devices {
        write_pages(device)?;
    }
    let mut ways = vec![("plain", Way::Plain)];
    ways.push(("set, no model", Way::Set(open(&args, None, false)?, false)));
    ways.push((
        "set, no model, deadline",
        Way::Set(open(&args, Some(args.deadline), false)?, true),
    ));
    if !args.models.is_empty() {
        ways.push(("set", Way::Set(open(&args, None, true)?, false)));
        ways.push(("set, deadline", Way::Set(open(&args, Some(args.deadline), true)?, true)));
    }
    ways.retain(|(name, _)| args.only.is_empty() || *name == args.only);
    let mut all: Vec<_> = ways.iter().map(|_| Outcome::default()).collect();
    for round in 0..args.rounds {
        for ((_, way), outcome) in ways.iter().zip(&mut all) {
            outcome.add(measure(&args, way, u64::from(round))?);
        }
    }
    println!(
        "{} devices, {} threads, {} rounds of {:?}, noise {} MiB/s, deadline {:?}",
        args.devices.len(),
        args.threads,
        args.rounds,
        args.time,
        args.noise >> 20,
        args.deadline
    );
    println!(
        "{:24} {:>8} {:>9} {:>9} {:>9} {:>9} {:>9}  late, overdue",
        "", "reads", "mean", "p50", "p99", "p99.9", "max"
    );
    for ((name, way), Outcome { reads, timed_out, overdue, starved }) in ways.iter().zip(&all) {
        let at = |share| reads.quantile(share).unwrap_or_default().to_string();
        let mean = reads.mean().unwrap_or_default().to_string();
        let max = reads.max().unwrap_or_default().to_string();
        println!(
            "{name:24} {:>8} {mean:>9} {:>9} {:>9} {:>9} {max:>9}  {timed_out}, {overdue} ({starved})",
            reads.count(),
            at(0.5),
            at(0.99),
            at(0.999),
        );
        if let Way::Set(set, _) = way {
            show(&set.figures());
        }
    }
    Ok(())
}

fn show(figures: &SetFigures) {
    let share = |part: u64| 100.0 * part as f64 / figures.reads.max(1) as f64;
    let served: Vec<_> = figures.replicas.iter().map(|replica| replica.served).collect();
    println!(
        "  served by {served:?}, moved {:.1}%, extra {:.2}% (hedges {:.2}%, rescues {:.2}%, probes \
         {:.2}%)",
        share(figures.moved),
        share(figures.extra),
        share(figures.hedges),
        share(figures.rescues),
        share(figures.probes)
    );
    println!(
        "  gained {:.0} ± {:.0} µs per moved read ({} pairs), without a model {:.1}%, errors {}",
        figures.gain.mean_ns / 1e3,
        figures.gain.error_ns / 1e3,
        figures.gain.pairs,
        share(figures.without_model),
        figures.errors
    );
}

impl Args {
    fn parse() -> Result<Self, Failed> {
        let mut args = Self {
            time: Duration::from_secs(10),
            rounds: 3,
            threads: 3,
            deadline: Duration::from_millis(5),
            noise: 45 << 20,
            models: Vec::new(),
            pins: None,
            only: String::new(),
            devices: Vec::new(),
        };
        let mut may_overwrite = false;
        let mut words = std::env::args().skip(1);
        while let Some(word) = words.next() {
            let mut number = || -> Result<u64, Failed> {
                let value = words.next().ok_or(USAGE)?;
                Ok(value.parse().map_err(|e| format!("{word} {value}: {e}"))?)
            };
            match &*word {
                "--overwrite" => may_overwrite = true,
                "--seconds" => args.time = Duration::from_secs(number()?),
                "--rounds" => args.rounds = number()? as u32,
                "--threads" => args.threads = number()?,
                "--deadline-us" => args.deadline = Duration::from_micros(number()?),
                "--noise-mib-s" => args.noise = number()? << 20,
                "--only" => args.only = words.next().ok_or(USAGE)?,
                "--pins" => args.pins = Some(words.next().ok_or(USAGE)?.into()),
                "--models" => {
                    let models = words.next().ok_or(USAGE)?;
                    args.models = models.split(',').map(PathBuf::from).collect();
                }
                device if !device.starts_with('-') => args.devices.push(device.into()),
                _ => return Err(USAGE.into()),
            }
        }
        let has_models = args.models.is_empty() || args.models.len() == args.devices.len();
        if !may_overwrite || args.devices.len() < 2 || !has_models {
            return Err(USAGE.into());
        }
        Ok(args)
    }
}

fn open_direct(path: &PathBuf) -> io::Result<File> {
    const O_DIRECT: i32 = rustix::fs::OFlags::DIRECT.bits() as i32;
    File::options().read(true).write(true).custom_flags(O_DIRECT).open(path)
}

fn write_pages(path: &PathBuf) -> Result<(), Failed> {
    const BYTES: usize = 1 << 20;
    let file = open_direct(path)?;
    let mut buffer = DirectBuffer::new(BYTES)?;
    for first in (0..PAGES).step_by(BYTES / PAGE as usize) {
        for (page, number) in buffer.content(BYTES).chunks_mut(PAGE as usize).zip(first..) {
            page.chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&number.to_le_bytes()));
        }
        file.write_all_at(buffer.content(BYTES), first * PAGE)?;
    }
    Ok(file.sync_all()?)
}

fn open(args: &Args, deadline: Option<Duration>, models: bool) -> Result<ReplicaSet, Failed> {
    let replica = |(number, device): (usize, &PathBuf)| -> Result<ReplicaOptions, Failed> {
        let mut options = ReplicaOptions::new(device);
        if models {
            options = options.with_model(Model::load(&args.models[number])?);
        }
        if let Some(pins) = &args.pins {
            options = options.with_source(Source::Pinned(pins.clone()));
        }
        Ok(options)
    };
    let replicas = args.devices.iter().enumerate().map(replica).collect::<Result<Vec<_>, _>>()?;
    let options = SetOptions { direct: true, deadline, ..SetOptions::default() };
    Ok(ReplicaSet::open(replicas, &options)?)
}

enum Way {
    Plain,
    /// And whether it has a deadline.
    Set(ReplicaSet, bool),
}

#[derive(Default)]
struct Outcome {
    reads: LatencyHistogram,
    timed_out: u64,
    overdue: u64,
    starved: u64,
}

impl Outcome {
    fn add(&mut self, other: Self) {
        self.reads.merge(&other.reads);
        self.timed_out += other.timed_out;
        self.overdue += other.overdue;
        self.starved += other.starved;
    }
}

/// One way to read, for its time, beside the noise.
fn measure(args: &Args, way: &Way, seed: u64) -> Result<Outcome, Failed> {
    let files = args.devices.iter().map(open_direct).collect::<io::Result<Vec<_>>>()?;
    let files = &Arc::new(files);
    let over = &AtomicBool::new(false);
    thread::scope(|scope| {
        let noises: Vec<_> = (0..files.len())
            .map(|number| {
                let files = Arc::clone(files);
                let random = SplitMix64::new(seed << 8 | number as u64);
                scope.spawn(move || make_noise(&files[number], args.noise, random, over))
            })
            .collect();
        // The drives' buffers fill.
        thread::sleep(Duration::from_millis(500));
        let readers: Vec<_> = (0..args.threads)
            .map(|thread| {
                let random = SplitMix64::new(!(seed << 8 | thread));
                scope.spawn(move || read(files, way, random, args.time, args.deadline))
            })
            .collect();
        let mut all = Outcome::default();
        let mut failed = None;
        for reader in readers {
            match reader.join().map_err(|_| "a reader panicked")? {
                Ok(outcome) => all.add(outcome),
                Err(error) => failed = Some(error),
            }
        }
        over.store(true, Relaxed);
        for noise in noises {
            noise.join().map_err(|_| "a writer panicked")??;
        }
        failed.map_or(Ok(all), Err)
    })
}

fn read(
    files: &[File],
    way: &Way,
    mut random: SplitMix64,
    time: Duration,
    deadline: Duration,
) -> Result<Outcome, Failed> {
    let until = Instant::now() + time;
    let mut outcome = Outcome::default();
    let mut delay = run_delay();
    let mut buffer = DirectBuffer::new(PAGE as usize)?;
    while Instant::now() < until {
        let number = random.next() % PAGES;
        let (page, offset) = (buffer.content(PAGE as usize), number * PAGE);
        let begun = monotonic();
        let read = match way {
            // Each MiB has a primary replica, as in a set.
            Way::Plain => {
                Ok(files[(offset >> 20) as usize % files.len()].read_exact_at(page, offset)?)
            }
            Way::Set(set, _) => set.read_exact_at(page, offset),
        };
        let took = monotonic().since(begun);
        outcome.reads.record(took);
        if outcome.reads.count().is_multiple_of(64) {
            delay = run_delay();
        }
        let least = Nanos(deadline.as_nanos() as u64) + Nanos::from_millis(1);
        if matches!(way, Way::Set(_, true)) && took > least {
            let waited = Nanos(run_delay().saturating_sub(delay));
            outcome.overdue += 1;
            outcome.starved += u64::from(waited + waited > took.since(least));
        }
        match read {
            Ok(()) if page.chunks_exact(8).all(|word| word == number.to_le_bytes()) => {}
            Ok(()) => return Err(format!("wrong data in page {number}").into()),
            Err(ReadError::TimedOut(_)) => outcome.timed_out += 1,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(outcome)
}

/// How long this thread has waited for a processor so far, ns; 0 if that is not known.
fn run_delay() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').nth(1).and_then(|delay| delay.parse().ok()).unwrap_or_default()
}

/// Writes in bursts, behind the pages that are read.
fn make_noise(file: &File, rate: u64, mut random: SplitMix64, over: &AtomicBool) -> io::Result<()> {
    if rate == 0 {
        return Ok(());
    }
    let mut buffer = DirectBuffer::new(NOISE)?;
    let first = PAGES * PAGE / NOISE as u64;
    let end = rustix::fs::seek(file, rustix::fs::SeekFrom::End(0))? / NOISE as u64;
    let gap = Duration::from_secs_f64(NOISE as f64 / rate as f64);
    let about = |mean: Duration, random: &mut SplitMix64| {
        let uniform = (random.next() >> 11) as f64 / (1_u64 << 53) as f64;
        mean.mul_f64(-(1.0 - uniform).ln())
    };
    let mut next = Instant::now() + about(PAUSE / 4, &mut random);
    while !over.load(Relaxed) {
        let burst_ends = next + about(BURST, &mut random);
        while next < burst_ends && !over.load(Relaxed) {
            thread::sleep(next.saturating_duration_since(Instant::now()));
            let place = first + random.next() % (end - first);
            file.write_all_at(buffer.content(NOISE), place * NOISE as u64)?;
            next += gap;
        }
        next = burst_ends + about(PAUSE, &mut random);
        while Instant::now() < next && !over.load(Relaxed) {
            let left = next.saturating_duration_since(Instant::now());
            thread::sleep(left.min(Duration::from_millis(20)));
        }
    }
    Ok(())
}
