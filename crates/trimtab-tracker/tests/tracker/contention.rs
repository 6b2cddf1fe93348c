//! Many drives, and many threads on few of them: events meet at a drive's lock.

use std::os::unix::fs::FileExt as _;
use std::thread;
use std::time::{Duration, Instant};

use super::harness::*;
use rustix::thread::{CpuSet, sched_setaffinity};
use trimtab_block::BlockDevice;
use trimtab_predict::units::UnitFunction;
use trimtab_state::LiveDrive;
use trimtab_testdisk::{self as disk, LoopDisk};
use trimtab_tracker::{StateTracker, TrackerOptions};

/// Drives, and threads for each.
const LOADS: [(usize, usize); 5] = [(1, 1), (1, 4), (1, 32), (4, 8), (8, 4)];
/// The queue of a drive's deferred events overflows if the lock's holder loses its processor
/// long enough, as in a virtual machine on a busy host. Such a round is repeated.
const ROUNDS: u32 = 10;

fn disks(count: usize) -> Vec<LoopDisk> {
    (0..count).map(|_| LoopDisk::new(1)).collect()
}

fn track(disks: &[LoopDisk], options: &TrackerOptions) -> (StateTracker, Vec<LiveDrive>) {
    let devices: Vec<_> = disks.iter().map(|d| BlockDevice::find(&d.path).unwrap()).collect();
    let tracker = StateTracker::load(&devices, options).unwrap();
    let drives = (0..disks.len()).map(|i| tracker.drive(i).unwrap()).collect();
    (tracker, drives)
}

/// Reads pages of each disk for a while, past the page cache, by this number of threads for
/// each. The threads of each disk are distributed over the processors, and pinned.
fn read_by_threads(disks: &[LoopDisk], threads: usize, time: Duration) {
    let processors = thread::available_parallelism().unwrap().get();
    let until = Instant::now() + time;
    thread::scope(|scope| {
        for number in 0..disks.len() * threads {
            let file = disks[number % disks.len()].open_direct();
            let processor = number / disks.len() % processors;
            scope.spawn(move || {
                let mut own = CpuSet::new();
                own.set(processor);
                // This process may not be allowed on all processors.
                _ = sched_setaffinity(None, &own);
                let mut buffer = disk::aligned(4096);
                let mut page = number as u64;
                while Instant::now() < until {
                    page = (page * 5 + 3) % 256;
                    file.read_exact_at(disk::window(&mut buffer, 4096), page * 4096).unwrap();
                }
            });
        }
    });
}

/// Repeats a round until it misses no event; `round` returns the number missed.
fn until_none_is_missed(what: &str, mut round: impl FnMut() -> u64) {
    for number in 1..=ROUNDS {
        let missed = round();
        if missed == 0 {
            return;
        }
        disk::note(&format!("{what}, round {number}: {missed} events missed, and found out"));
    }
    panic!("{what}: events were missed in each of {ROUNDS} rounds");
}

fn missed(drives: &[LiveDrive]) -> u64 {
    drives.iter().map(|drive| drive.counters().missed).sum()
}

/// More drives than a bucket of the device table, or any power of two of it, holds; each has
/// its own numbers and units.
#[test]
fn each_of_twenty_drives_has_its_own_counts() {
    let Some(_alone) = real_disks() else { return };
    let (disks, untracked) = (disks(20), LoopDisk::new(1));
    let units = |i| vec![UnitFunction::Stripe { shift: 12, units: 2 + i as u32 }];
    let functions = (0..disks.len()).map(units).collect();
    let options = TrackerOptions { functions, ..TrackerOptions::default() };
    let (_tracker, drives) = track(&disks, &options);
    let pages = |i: usize| 10 + 7 * i as u64;
    let before: Vec<_> = drives.iter().map(LiveDrive::sent).collect();
    thread::scope(|scope| {
        for (i, disk) in disks.iter().enumerate() {
            scope.spawn(move || read(disk, pages(i)));
        }
        scope.spawn(|| read(&untracked, 100));
    });
    for (i, drive) in drives.iter().enumerate() {
        wait_until_idle(drive);
        assert_eq!(drive.sent() - before[i], pages(i), "drive {i}");
        assert_eq!(drive.functions(), units(i), "drive {i}");
        assert_eq!(drive.counters().table_full, 0, "drive {i}");
        assert!(drive.units(0).iter().all(|unit| unit.reads == 0), "drive {i}");
    }
    assert_eq!(missed(&drives), 0);
}

#[test]
fn contended_state_equals_the_log() {
    let Some(_alone) = real_disks() else { return };
    for (count, threads) in [(1, 32), (4, 8)] {
        let disks = disks(count);
        until_none_is_missed(&format!("{threads} threads on each of {count} drives"), || {
            let options = TrackerOptions { functions: vec![functions(); count], ..logged() };
            let (tracker, drives) = track(&disks, &options);
            read_by_threads(&disks, threads, Duration::from_millis(700));
            for (i, drive) in drives.iter().enumerate() {
                let steps = assert_equal_of(&tracker, i, drive);
                assert!(steps.len() > 100, "{} steps", steps.len());
                assert_empty(drive);
                assert_eq!(drive.counters().table_full, 0);
            }
            missed(&drives)
        });
    }
}

/// The figures of docs/measurements.md: the cost of an event, and the share of events that
/// find the lock taken.
#[test]
fn contended_drives_miss_no_event() {
    let Some(_alone) = real_disks() else { return };
    for (count, threads) in LOADS {
        let disks = disks(count);
        let what = format!("{threads} threads on each of {count} drives");
        until_none_is_missed(&what, || {
            let options = TrackerOptions { measure_overhead: true, ..TrackerOptions::default() };
            let (tracker, drives) = track(&disks, &options);
            let begun = Instant::now();
            read_by_threads(&disks, threads, Duration::from_secs(1));
            let seconds = begun.elapsed().as_secs_f64();
            for drive in &drives {
                wait_until_idle(drive);
                assert_eq!(drive.in_flight(), [0, 0]);
                assert_eq!(drive.counters().table_full, 0);
            }
            disk::note(&format!("{what}: {}", figures(&tracker, &drives, seconds)));
            missed(&drives)
        });
    }
}

/// An event is a request's start or its completion.
fn figures(tracker: &StateTracker, drives: &[LiveDrive], seconds: f64) -> String {
    let overhead = tracker.overhead().unwrap();
    let mean = |name: &str| {
        let handler = overhead.handlers.iter().find(|handler| handler.name == name);
        handler.map_or(0.0, |handler| handler.run_ns as f64 / handler.runs.max(1) as f64)
    };
    let events: u64 = drives.iter().map(|drive| 2 * drive.sent()).sum();
    let deferred: u64 = drives.iter().map(|drive| drive.counters().deferred).sum();
    let share = deferred as f64 / events as f64;
    // For one drive. The share of events that find the lock taken by another processor is the
    // share of time for which all others hold it.
    let per_second = events as f64 / seconds / drives.len() as f64;
    let processors = thread::available_parallelism().unwrap().get() as f64;
    let held_s = share / (per_second * (1.0 - 1.0 / processors)).max(1.0);
    format!(
        "{:.0} events/s, on_start {:.0} ns, on_issue {:.0} ns, on_complete {:.0} ns, {:.0} deferred \
         of a million, lock held for {:.0} ns by that",
        events as f64 / seconds,
        mean("on_start"),
        mean("on_issue"),
        mean("on_complete"),
        share * 1e6,
        held_s * 1e9,
    )
}
