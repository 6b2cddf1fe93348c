//! What choosing among replicas costs: a read of a set beside a plain one, busy and after a wait.
//!
//! ```text
//! cargo run --release -p trimtab-replicas --example set_cost -- [RUNS]
//! ```
//!
//! As `read_cost` of trimtab-read, and with the same kind of drives: loop devices in memory,
//! models with forests as large as `trimtab train` makes them, whose state the kernel tracks. The
//! models predict every read fast, so nothing is moved or hedged on their account. Needs root.
//! Medians of single calls and the spread of the runs' medians, ns: in turn `pread(2)` (plain), a
//! read with a deadline by a `Reader` without a model (ring: through an io_uring and a buffer, but
//! nothing is chosen), and a read of the set.

#![allow(clippy::print_stdout)]

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::time::{Duration, Instant};

use trimtab_block::BlockDevice;
use trimtab_predict::Model;
use trimtab_read::{ReadOptions, Reader, Source, Urgency};
use trimtab_replicas::{ReplicaOptions, ReplicaSet, SetOptions};
use trimtab_testdisk::{self as disk, LoopDisk};
use trimtab_tracker::{StateTracker, TrackerOptions};

#[path = "../../trimtab-read/tests/models/mod.rs"]
mod reading;

const CALLS: u64 = 20_000;
/// After a wait.
const FEWER_CALLS: u64 = 2_000;
const WAIT: Duration = Duration::from_micros(50);
const MIB: u64 = 16;
const PAGES: u64 = MIB << 8;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runs = std::env::args().nth(1).map_or(Ok(9), |runs| runs.parse())?;
    if let Some(why) = disk::missing(disk::REAL_DISKS) {
        return Err(why.into());
    }
    let fast = reading::stubborn_of_full_size(false);
    let disks = [(); 3].map(|()| LoopDisk::new(MIB));
    let devices = disks.each_ref().map(|disk| BlockDevice::find(&disk.path));
    let devices = devices.into_iter().collect::<Result<Vec<_>, _>>()?;
    let functions = vec![fast.trained.functions().to_vec(); 3];
    let keeping = TrackerOptions { functions, ..TrackerOptions::default() };
    let tracker = StateTracker::load(&devices, &keeping)?;
    println!("ns, {runs} runs of {CALLS} calls, {FEWER_CALLS} after a wait; three replicas");
    for direct in [false, true] {
        let options = SetOptions { direct, ..SetOptions::default() };
        let named = if direct { "O_DIRECT" } else { "cached" };
        let files = disks.each_ref().map(|disk| {
            if direct { disk.open_direct() } else { File::open(&disk.path).expect("it opens") }
        });
        let plain = ReadOptions { direct, publish: None, ..ReadOptions::default() };
        let readers = disks.iter().map(|disk| Reader::open(&disk.path, &plain));
        let readers = readers.collect::<Result<Vec<_>, _>>()?;
        let without = disks.iter().map(|disk| ReplicaOptions::new(&disk.path));
        let without = ReplicaSet::open(without, &options)?;
        compare(&format!("{named}, no model"), runs, &files, &readers, &without);
        let with = |(number, disk): (usize, &LoopDisk)| {
            let source = Source::Given(tracker.drive(number)?);
            let options = ReplicaOptions::new(&disk.path).with_source(source);
            Ok::<_, Box<dyn std::error::Error>>(options.with_model(Model::clone(&fast)))
        };
        let replicas = disks.iter().enumerate().map(with).collect::<Result<Vec<_>, _>>()?;
        let set = ReplicaSet::open(replicas, &options)?;
        compare(&format!("{named}, models"), runs, &files, &readers, &set);
        let figures = set.figures();
        let share = figures.without_model as f64 / figures.reads as f64;
        if share > 0.01 {
            return Err(format!("{share} of the reads were not forecast by a model").into());
        }
    }
    Ok(())
}

/// In turn, so that all see the same machine; at other offsets, so that none finds another's data
/// in the processor's caches.
fn compare(what: &str, runs: usize, files: &[File; 3], readers: &[Reader], set: &ReplicaSet) {
    // A deadline that no read here misses.
    let deadline = Urgency::Deadline(Duration::from_secs(10));
    let mut buffer = disk::aligned(4096);
    let page = disk::window(&mut buffer, 4096);
    let mut read = |i: u64| {
        let at = place(i / 3 + i % 3 * (PAGES / 3));
        let number = (at >> 20) as usize % 3;
        match i % 3 {
            0 => files[number].read_exact_at(page, at).expect("the disk reads"),
            1 => readers[number].read_exact_at(page, at, deadline).expect("the disk reads"),
            _ => set.read_exact_at(page, at).expect("a replica reads"),
        }
    };
    for (when, calls, wait) in [("", CALLS, None), (", after a wait", FEWER_CALLS, Some(WAIT))] {
        let mut medians: [Vec<u64>; 4] = Default::default();
        for _ in 0..runs {
            let times: Vec<u64> = (0..3 * calls).map(|i| timed(wait, || read(i))).collect();
            let of = |way: usize| median(times.iter().copied().skip(way).step_by(3).collect());
            let [plain, ring, chosen] = [0, 1, 2].map(of);
            let all = [plain, ring, chosen, chosen.saturating_sub(plain)];
            medians.iter_mut().zip(all).for_each(|(medians, one)| medians.push(one));
        }
        for (name, medians) in ["plain", "ring", "set", "set - plain"].iter().zip(&mut medians) {
            medians.sort_unstable();
            let (least, most) = (medians[0], medians[runs - 1]);
            let what = format!("{what}{when}: {name}");
            println!("  {what:44} {:6}  {least}–{most}", medians[runs / 2]);
        }
    }
}

/// Reads are spread over the disk.
const fn place(i: u64) -> u64 {
    (i * 1021 % PAGES) << 12
}

fn timed(wait: Option<Duration>, call: impl FnOnce()) -> u64 {
    if let Some(wait) = wait {
        std::thread::sleep(wait);
    }
    let begun = Instant::now();
    call();
    begun.elapsed().as_nanos() as u64
}

fn median(mut times: Vec<u64>) -> u64 {
    times.sort_unstable();
    times[times.len() / 2]
}
