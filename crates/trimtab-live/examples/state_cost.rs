//! What it costs to keep the state of a drive, per request and by the kernel's own
//! statistics, and what it costs to read it.
//!
//! ```text
//! cargo run --release -p trimtab-live --example state_cost -- [RUNS]
//! ```
//!
//! The load is that of docs/measurements.md, "Recording": 60,000 requests of 4 KiB
//! per second, 70% of them reads, at depth 32, on a loop device in memory. Needs
//! root and fio.

#![allow(clippy::print_stdout)]

use std::hint::black_box;
use std::time::Instant;

use trimtab_io::{DeviceId, Flags, Nanos, Op, Request, RequestId};
use trimtab_live::record::BlockDevice;
use trimtab_live::state::{self, Keeper, LiveDrive, Options};
use trimtab_predict::units::UnitFunction;
use trimtab_testdisk::{self as disk, LoopDisk};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runs = std::env::args().nth(1).map_or(Ok(9), |runs| runs.parse())?;
    if let Some(why) = disk::missing() {
        return Err(why.into());
    }
    let parity = |bits| UnitFunction::Parity { masks: (12..12 + bits).map(|b| 9 << b).collect() };
    let (page, stripe) =
        (UnitFunction::Page { shift: 13 }, UnitFunction::Stripe { shift: 12, units: 60 });
    let loads = [
        ("no units", Vec::new()),
        ("4096, 60 and 64 units", vec![page.clone(), stripe.clone(), parity(6)]),
        ("4096, 60 and 4096 units", vec![page, stripe, parity(12)]),
    ];
    for (what, functions) in loads {
        println!("{what}, {runs} runs");
        measure(runs, &functions)?;
    }
    Ok(())
}

/// Runs the load so often, and prints each handler's median and spread.
fn measure(runs: usize, functions: &[UnitFunction]) -> Result<(), Box<dyn std::error::Error>> {
    let mut rows: Vec<(String, Vec<f64>)> = Vec::new();
    let mut add = |name: &str, value| match rows.iter_mut().find(|row| row.0 == name) {
        Some((_, values)) => values.push(value),
        None => rows.push((name.to_owned(), vec![value])),
    };
    for _ in 0..runs {
        let disk = LoopDisk::new(64);
        let device = BlockDevice::find(&disk.path)?;
        let options = Options {
            measure_overhead: true,
            functions: vec![functions.to_vec()],
            ..Options::default()
        };
        let keeper = Keeper::load(&[device], &options)?;
        load(&disk);
        let drive = keeper.drive(0)?;
        let (counters, sent) = (drive.counters(), drive.sent());
        let overhead = keeper.overhead()?;
        for handler in overhead.handlers.iter().filter(|handler| handler.runs > 0) {
            add(&handler.name, handler.run_ns as f64 / handler.runs as f64);
        }
        let all = overhead.ns_per_request(sent).unwrap_or(0.0);
        add("all, per request", all);
        add("requests per second", sent as f64 / 2.0);
        add("deferred, of a million", counters.deferred as f64 * 1e6 / sent as f64);
        add("missed", counters.missed as f64);
        add("unseen, of a million", counters.never_completed as f64 * 1e6 / sent as f64);
        let [look, features] = read(&drive);
        add("a look", look);
        add("a look and our features", features);
    }
    for (name, mut values) in rows {
        values.sort_by(f64::total_cmp);
        let (least, most) = (values[0], values[values.len() - 1]);
        println!("  {name:28} {:8.0}  {least:.0}–{most:.0}", values[values.len() / 2]);
    }
    Ok(())
}

fn load(disk: &LoopDisk) {
    let file = format!("--filename={}", disk.path);
    let what = ["--name=load", &file, "--rw=randrw", "--rwmixread=70", "--bs=4k", "--direct=1"];
    let how = ["--ioengine=libaio", "--iodepth=32", "--rate_iops=42000,18000", "--time_based"];
    disk::run("fio", &[&what[..], &how, &["--runtime=2", "--output=/dev/null"]].concat());
}

/// Nanoseconds for a look at the state, and for one with the features.
fn read(drive: &LiveDrive) -> [f64; 2] {
    const LOOKS: u64 = 200_000;
    let time = |f: &dyn Fn(u64)| {
        let begun = Instant::now();
        (0..LOOKS).for_each(f);
        begun.elapsed().as_nanos() as f64 / LOOKS as f64
    };
    let now = state::now();
    let request = |i: u64| Request {
        id: RequestId(i),
        device: DeviceId(0),
        arrival: Nanos::ZERO,
        op: Op::Read,
        offset: (i % 64) << 12,
        length: 4096,
        flags: Flags::empty(),
        deadline: None,
    };
    let look = |i| _ = black_box(drive.look(request(i).offset));
    let features = |i| _ = black_box(drive.look(request(i).offset).features(now, &request(i)));
    [time(&look), time(&features)]
}
