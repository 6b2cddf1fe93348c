//! What choosing among replicas costs: a read of a set beside a plain one, busy and after a wait.
//!
//! ```text
//! cargo run --release -p trimtab-replicas --example set_cost -- [RUNS]
//! ```
//!
//! As `read_cost` of trimtab-read, and with the same kind of drives: loop devices in memory,
//! models with forests as large as `trimtab train` makes them, whose state the kernel tracks. The
//! models predict every read fast, so nothing is moved or hedged on their account. Needs root.
//! Medians of single calls, in turn with plain reads, and the spread of the runs' medians; ns.

#![allow(clippy::print_stdout)]

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::time::{Duration, Instant};

use trimtab_block::BlockDevice;
use trimtab_predict::Model;
use trimtab_read::Source;
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
        let without =
            ReplicaSet::open(disks.each_ref().map(|d| ReplicaOptions::new(&d.path)), &options)?;
        compare(&format!("{named}, no model"), runs, &files, &without);
        let with = |(number, disk): (usize, &LoopDisk)| {
            let source = Source::Given(tracker.drive(number)?);
            let options = ReplicaOptions::new(&disk.path).with_source(source);
            Ok::<_, Box<dyn std::error::Error>>(options.with_model(Model::clone(&fast)))
        };
        let replicas = disks.iter().enumerate().map(with).collect::<Result<Vec<_>, _>>()?;
        let set = ReplicaSet::open(replicas, &options)?;
        compare(&format!("{named}, models"), runs, &files, &set);
        let figures = set.figures();
        let share = figures.without_model as f64 / figures.reads as f64;
        if share > 0.01 {
            return Err(format!("{share} of the reads were not forecast by a model").into());
        }
    }
    Ok(())
}

/// In turn with plain reads, so that both see the same machine; at other offsets, so that
/// neither finds the other's data in the processor's caches.
fn compare(what: &str, runs: usize, files: &[File; 3], set: &ReplicaSet) {
    let mut buffer = disk::aligned(4096);
    let page = disk::window(&mut buffer, 4096);
    let mut read = |i: u64| {
        let at = place(i / 2 + i % 2 * (PAGES / 2));
        if i % 2 == 0 {
            files[(at >> 20) as usize % 3].read_exact_at(page, at).expect("the disk reads");
        } else {
            set.read_exact_at(page, at).expect("a replica reads");
        }
    };
    for (when, calls, wait) in [("", CALLS, None), (", after a wait", FEWER_CALLS, Some(WAIT))] {
        let mut medians: [Vec<u64>; 3] = Default::default();
        for _ in 0..runs {
            let times: Vec<u64> = (0..2 * calls).map(|i| timed(wait, || read(i))).collect();
            let of = |odd: usize| median(times.iter().copied().skip(odd).step_by(2).collect());
            let (plain, chosen) = (of(0), of(1));
            for (all, one) in medians.iter_mut().zip([plain, chosen, chosen.saturating_sub(plain)])
            {
                all.push(one);
            }
        }
        for (name, medians) in ["plain", "set", "difference"].iter().zip(&mut medians) {
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
