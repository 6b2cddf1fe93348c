//! The cost of tracking a drive's state: per request, from the kernel's own statistics,
//! without and with the network that decides in the kernel, and the cost of reading the state.
//!
//! ```text
//! cargo run --release -p trimtab-tracker --example state_cost -- [RUNS [ROW]]
//! ```
//!
//! With the name of a row, only that row is measured.
//!
//! The load is that of docs/measurements/recording.md: 60,000 requests of 4 KiB per second,
//! 70% of them reads, at depth 32, on a loop device in memory; in the rows marked 64 KiB,
//! 10,000 of that size. Needs root and fio.

#![allow(clippy::print_stdout)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use trimtab_block::BlockDevice;
use trimtab_bpf::Handler;
use trimtab_io::monotonic;
use trimtab_io::{DeviceId, Flags, Issuer, Nanos, Op, Request, RequestId};
use trimtab_learn::integer::LinnOs;
use trimtab_predict::units::UnitFunction;
use trimtab_predict::{DIGITS, Trained};
use trimtab_state::{LiveDrive, SizeClass};
use trimtab_testdisk::{self as disk, LoopDisk};
use trimtab_tracker::{StateTracker, TrackerOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runs = std::env::args().nth(1).map_or(Ok(9), |runs| runs.parse())?;
    let only = std::env::args().nth(2);
    if let Some(why) = disk::missing(disk::REAL_DISKS) {
        return Err(why.into());
    }
    let parity = |bits| UnitFunction::Parity { masks: (12..12 + bits).map(|b| 9 << b).collect() };
    let (page, stripe) =
        (UnitFunction::Page { shift: 13 }, UnitFunction::Stripe { shift: 12, units: 60 });
    let units = |bits| vec![page.clone(), stripe.clone(), parity(bits)];
    let mut loads = [
        Load::new("no units", Vec::new(), false),
        Load::new("no units, deciding in the kernel", Vec::new(), true),
        Load::new("4096, 60 and 64 units", units(6), false),
        Load::new("4096, 60 and 4096 units", units(12), false),
        Load::new("4096, 60 and 4096 units, deciding in the kernel", units(12), true),
        Load::new("no units, 64 KiB", Vec::new(), false).large(),
        Load::new("4096, 60 and 4096 units, 64 KiB in 8, 16 and 16 pieces", units(12), false)
            .large(),
    ];
    // In turn, because other load on the machine varies.
    for _ in 0..runs {
        for load in loads.iter_mut().filter(|load| load.is_wanted(&only)) {
            load.measure()?;
        }
    }
    for load in loads.into_iter().filter(|load| load.is_wanted(&only)) {
        println!("{}, {runs} runs", load.what);
        print(load.rows);
    }
    if only.is_some() {
        return Ok(());
    }
    println!("the network by itself, {runs} runs");
    print(network_alone(runs)?);
    Ok(())
}

/// The measurements, by name.
type Rows = Vec<(String, Vec<f64>)>;

fn add(rows: &mut Rows, name: &str, value: f64) {
    match rows.iter_mut().find(|row| row.0 == name) {
        Some((_, values)) => values.push(value),
        None => rows.push((name.to_owned(), vec![value])),
    }
}

/// Median and spread.
fn print(rows: Rows) {
    for (name, mut values) in rows {
        values.sort_by(f64::total_cmp);
        let (least, most) = (values[0], values[values.len() - 1]);
        println!("  {name:28} {:8.0}  {least:.0}–{most:.0}", values[values.len() / 2]);
    }
}

/// A network with the largest allowed number of weights of three decimals up to 32.767. Its
/// decisions do not matter.
fn network() -> Trained {
    let mut state = 1_u64;
    let mut weight = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 48) as u16 as i16
    };
    let mut weights = |n: usize| (0..n).map(|_| weight().max(-i16::MAX)).collect::<Vec<_>>();
    let network = LinnOs::new(&weights(DIGITS * 256), &[1000; 256], &weights(512), [0; 2]);
    Trained::Linnos(Arc::new(network.expect("no such weights overflow")))
}

/// Nanoseconds of the network alone: a program evaluates it for unchanged digits, for other
/// digits of the queue, and for 28 other digits of the history.
fn network_alone(runs: usize) -> Result<Rows, Box<dyn std::error::Error>> {
    const ASKED: u8 = 200;
    let mut rows = Rows::new();
    for _ in 0..runs {
        let mut means = [0.0; 3];
        for (case, mean) in means.iter_mut().enumerate() {
            let disk = LoopDisk::new(16);
            let options = TrackerOptions {
                in_kernel: true,
                log_bits: 4,
                measure_overhead: true,
                ..TrackerOptions::default()
            };
            let tracker = StateTracker::load(&[BlockDevice::find(&disk.path)?], &options)?;
            tracker.set_network(0, Some(&network()))?;
            for i in 0..ASKED {
                let digit = 1 + i % 9;
                let digits = match case {
                    0 => [1; DIGITS],
                    1 => std::array::from_fn(|place| if place < 3 { digit } else { 1 }),
                    _ => [digit; DIGITS],
                };
                black_box(tracker.query_network(0, &digits, [digits[0], 2, 3]));
            }
            let overhead = tracker.overhead()?;
            let ask = overhead.handlers.iter().find(|handler| handler.name == "ask");
            *mean = ask.map_or(0.0, |ask| ask.run_ns as f64 / ask.runs as f64);
        }
        let [asking, queue, all] = means;
        add(&mut rows, "asking alone", asking);
        add(&mut rows, "a decision, of one class", (queue - asking) / 2.0);
        add(&mut rows, "sums, all digits changed", all - queue);
    }
    Ok(rows)
}

/// Parameters of a measurement.
struct Load {
    what: &'static str,
    functions: Vec<UnitFunction>,
    decides: bool,
    requests: Requests,
    rows: Rows,
}

/// The requests to the drive: the size, and how many reads and writes per second.
struct Requests {
    size: &'static str,
    rates: [u32; 2],
}

impl Load {
    const fn new(what: &'static str, functions: Vec<UnitFunction>, decides: bool) -> Self {
        let requests = Requests { size: "4k", rates: [42_000, 18_000] };
        Self { what, functions, decides, requests, rows: Rows::new() }
    }

    fn large(self) -> Self {
        Self { requests: Requests { size: "64k", rates: [7_000, 3_000] }, ..self }
    }

    fn is_wanted(&self, only: &Option<String>) -> bool {
        only.as_ref().is_none_or(|only| only == self.what)
    }

    /// Runs the load once.
    fn measure(&mut self) -> Result<(), Box<dyn std::error::Error>> {
        let disk = LoopDisk::new(64);
        let device = BlockDevice::find(&disk.path)?;
        let options = TrackerOptions {
            measure_overhead: true,
            in_kernel: self.decides,
            functions: vec![self.functions.clone()],
            ..TrackerOptions::default()
        };
        let tracker = StateTracker::load(&[device], &options)?;
        if self.decides {
            tracker.set_network(0, Some(&network()))?;
        }
        self.requests.make(&disk);
        let drive = tracker.drive(0)?;
        let (counters, sent) = (drive.counters(), drive.sent());
        let overhead = tracker.overhead()?;
        let handlers = |h: &&Handler| h.runs > 0 && h.name.starts_with("on_");
        let (mut all, mut runs, mut measuring) = (0, 0, 0.0);
        for handler in overhead.handlers.iter().filter(handlers) {
            let mean = handler.run_ns as f64 / handler.runs as f64;
            add(&mut self.rows, &handler.name, mean);
            all += handler.run_ns;
            runs += handler.runs;
            // For requests of one bio, as these are, it does nothing: its time is that of
            // measuring, and of four loads.
            if handler.name == "on_issue" {
                measuring = mean;
            }
        }
        let of_a_million = |n: u64| n as f64 * 1e6 / sent as f64;
        let rows = &mut self.rows;
        add(rows, "all, per request", all as f64 / sent as f64);
        let work = all as f64 - runs as f64 * measuring;
        add(rows, "less the measuring, about", work / sent as f64);
        add(rows, "requests per second", sent as f64 / 2.0);
        add(rows, "deferred, of a million", of_a_million(counters.deferred));
        add(rows, "missed", counters.missed as f64);
        add(rows, "unseen, of a million", of_a_million(counters.never_completed));
        let [look, features, large, verdict] = read(&drive);
        add(rows, "a look", look);
        add(rows, "a look and our features", features);
        add(rows, "  of a read of 64 KiB", large);
        if self.decides {
            add(rows, "a verdict", verdict);
        }
        Ok(())
    }
}

impl Requests {
    fn make(&self, disk: &LoopDisk) {
        let file = format!("--filename={}", disk.path);
        let size = format!("--bs={}", self.size);
        let rate = format!("--rate_iops={},{}", self.rates[0], self.rates[1]);
        let what = ["--name=load", &file, "--rw=randrw", "--rwmixread=70", &size, "--direct=1"];
        let how = ["--ioengine=libaio", "--iodepth=32", &rate, "--time_based"];
        disk::run("fio", &[&what[..], &how, &["--runtime=2", "--output=/dev/null"]].concat());
    }
}

/// Nanoseconds for a snapshot of the state, for one with the features, for both with a large
/// read, and for a verdict.
fn read(drive: &LiveDrive) -> [f64; 4] {
    const LOOKS: u64 = 200_000;
    let time = |f: &dyn Fn(u64)| {
        let begun = Instant::now();
        (0..LOOKS).for_each(f);
        begun.elapsed().as_nanos() as f64 / LOOKS as f64
    };
    let now = monotonic();
    let request = |i: u64, length| Request {
        id: RequestId(i),
        device: DeviceId(0),
        arrival: Nanos::ZERO,
        op: Op::Read,
        offset: (i % 64) << 12,
        length,
        flags: Flags::empty(),
        deadline: None,
        issuer: Issuer::of_process(0),
    };
    let look_at = |request: &Request| drive.snapshot(request.offset, request.length);
    let look = |i| _ = black_box(look_at(&request(i, 4096)));
    let features_of = |request| _ = black_box(look_at(&request).features(now, &request));
    let features = |i| features_of(request(i, 4096));
    let large = |i| features_of(request(i, 65536));
    let verdict = |i: u64| _ = black_box(drive.verdict(SizeClass::of(i << 10)));
    [time(&look), time(&features), time(&large), time(&verdict)]
}
