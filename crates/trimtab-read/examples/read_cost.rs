//! The cost of a decision: of a refusal from call to return, and what an admitted read takes
//! beyond a plain one.
//!
//! ```text
//! cargo run --release -p trimtab-read --example read_cost -- [RUNS]
//! ```
//!
//! Measured with nothing between the calls, and also after a wait, which is the common case:
//! the processor has been idle, and the data of a decision have left its nearest caches.
//!
//! The drive is a loop device in memory, the model has forests as large as `trimtab train`
//! makes them, and the kernel tracks the drive's state. Needs root. Times are of single calls,
//! by a clock that takes some 30 ns itself: medians, and the spread of the runs' medians.

#![allow(clippy::print_stdout)]

use std::fs::File;
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileExt as _;
use std::time::{Duration, Instant};

use trimtab_block::BlockDevice;
use trimtab_predict::Model;
use trimtab_read::{ReadOptions, Reader, Urgency};
use trimtab_state::LiveDrive;
use trimtab_testdisk::{self as disk, LoopDisk};
use trimtab_tracker::{StateTracker, TrackerOptions};

#[path = "../tests/models/mod.rs"]
mod reading;

const CALLS: u64 = 40_000;
/// After a wait.
const FEWER_CALLS: u64 = 4_000;
const WAIT: Duration = Duration::from_micros(50);
const PAGES: u64 = 4096;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runs = std::env::args().nth(1).map_or(Ok(9), |runs| runs.parse())?;
    if let Some(why) = disk::missing(disk::REAL_DISKS) {
        return Err(why.into());
    }
    let (late, fast) =
        (reading::stubborn_of_full_size(true), reading::stubborn_of_full_size(false));
    let disk = LoopDisk::new(16);
    let functions = vec![late.trained.functions().to_vec()];
    let keeping = TrackerOptions { functions, ..TrackerOptions::default() };
    let tracker = StateTracker::load(&[BlockDevice::find(&disk.path)?], &keeping)?;
    let drive = tracker.drive(0)?;
    let bench = Bench { disk: &disk, drive: &drive };
    println!("ns, {runs} runs of {CALLS} calls, {FEWER_CALLS} after a wait");
    bench.clock(runs);
    bench.refusals("refusal, O_DIRECT", runs, &late, true)?;
    bench.refusals("refusal, not in the page cache", runs, &late, false)?;
    bench.decisions(runs, &fast)?;
    let critical = Urgency::LatencyCritical;
    bench.reads("admitted, O_DIRECT", runs, &fast, (true, critical))?;
    bench.reads("admitted, in the page cache", runs, &fast, (false, critical))?;
    // A deadline that no read here misses.
    let deadline = Urgency::Deadline(Duration::from_secs(10));
    bench.reads("with a deadline, O_DIRECT", runs, &fast, (true, deadline))?;
    bench.reads("with a deadline, cached", runs, &fast, (false, deadline))?;
    Ok(())
}

struct Bench<'a> {
    disk: &'a LoopDisk,
    drive: &'a LiveDrive,
}

impl Bench<'_> {
    fn open(&self, model: &Model, direct: bool) -> Result<Reader, trimtab_read::Error> {
        let strictly = reading::strictly(model.clone(), self.drive);
        Reader::open(&self.disk.path, &ReadOptions { direct, ..strictly })
    }

    fn clock(&self, runs: usize) {
        show("two readings of the clock", runs, || median(time(|_| ())));
    }

    fn refusals(
        &self,
        what: &str,
        runs: usize,
        model: &Model,
        direct: bool,
    ) -> Result<(), Box<dyn std::error::Error>> {
        let reader = self.open(model, direct)?;
        rustix::fs::fadvise(reader.as_fd(), 0, None, rustix::fs::Advice::DontNeed)?;
        let mut buffer = disk::aligned(4096);
        let page = disk::window(&mut buffer, 4096);
        let mut refuse = |i| {
            let refused = reader.read_at(page, place(i), Urgency::LatencyCritical);
            _ = std::hint::black_box(refused);
        };
        show(what, runs, || median(time(&mut refuse)));
        show("  after a wait", runs, || median(time_after_waits(&mut refuse)));
        let figures = reader.figures();
        let share = figures.refused as f64 / figures.with_deadline as f64;
        if share < 0.99 {
            return Err(format!("only {share} of the reads were refused").into());
        }
        Ok(())
    }

    /// Admission and completion, without a read between.
    fn decisions(&self, runs: usize, model: &Model) -> Result<(), Box<dyn std::error::Error>> {
        let reader = self.open(model, true)?;
        let decide = |i| {
            if let Ok(pass) = reader.admit(4096, place(i), Urgency::LatencyCritical) {
                pass.finish();
            }
        };
        show("decision to admit, and its end", runs, || median(time(decide)));
        show("  after a wait", runs, || median(time_after_waits(decide)));
        Ok(())
    }

    /// In turn with plain reads, so that both see the same machine; at other offsets, so that
    /// neither finds the other's data in the processor's caches.
    fn reads(
        &self,
        what: &str,
        runs: usize,
        model: &Model,
        (direct, urgency): (bool, Urgency),
    ) -> Result<(), Box<dyn std::error::Error>> {
        let reader = self.open(model, direct)?;
        let file = if direct { self.disk.open_direct() } else { File::open(&self.disk.path)? };
        let mut buffer = disk::aligned(4096);
        let page = disk::window(&mut buffer, 4096);
        let mut plain = Vec::new();
        show(what, runs, || {
            let times = time(|i| {
                let place = place(i / 2 + i % 2 * (PAGES / 2));
                if i % 2 == 0 {
                    file.read_exact_at(page, place).expect("the disk reads");
                } else {
                    let read = reader.read_exact_at(page, place, urgency);
                    read.expect("it is admitted");
                }
            });
            let of = |odd| times.iter().copied().skip(odd).step_by(2).collect();
            plain.push(median(of(0)));
            median(of(1))
        });
        let mut each = plain.into_iter();
        show("  a plain one", runs, || each.next().unwrap_or_default());
        Ok(())
    }
}

/// Reads are spread over the disk.
const fn place(i: u64) -> u64 {
    (i * 1021 % PAGES) << 12
}

/// How long each call takes, ns.
fn time(mut call: impl FnMut(u64)) -> Vec<u64> {
    (0..CALLS).map(|i| timed(|| call(i))).collect()
}

/// The same, with an idle processor before each call.
fn time_after_waits(mut call: impl FnMut(u64)) -> Vec<u64> {
    let timed = |i| {
        std::thread::sleep(WAIT);
        timed(|| call(i))
    };
    (0..FEWER_CALLS).map(timed).collect()
}

fn timed(call: impl FnOnce()) -> u64 {
    let begun = Instant::now();
    call();
    begun.elapsed().as_nanos() as u64
}

fn median(mut times: Vec<u64>) -> u64 {
    times.sort_unstable();
    times[times.len() / 2]
}

fn show(what: &str, runs: usize, run: impl FnMut() -> u64) {
    let mut medians: Vec<u64> = std::iter::repeat_with(run).take(runs).collect();
    medians.sort_unstable();
    let (least, most) = (medians[0], medians[runs - 1]);
    println!("  {what:32} {:6}  {least}–{most}", medians[runs / 2]);
}
