//! Requests in flight whose completion is unseen or delayed, or that share a home bucket.

use std::time::{Duration, Instant};

use super::harness::*;
use trimtab_testdisk::LoopDisk;
use trimtab_tracker::{InjectedEvent, TrackerOptions};

#[test]
fn counts_recover_from_unseen_completions() {
    let Some(_alone) = real_disks() else { return };
    let disk = LoopDisk::new(64);
    let mut tracker = keep(&disk, logged());
    let drive = tracker.drive(0).unwrap();
    read(&disk, 10);
    tracker.without_completions(|| read(&disk, 1000)).unwrap();
    // The kernel has far fewer request structures: most have been reused, by which lost
    // completions are detected.
    let counters = drive.counters();
    assert!(counters.never_completed > 100, "{counters:?}");
    assert!(state_of(&drive).requests < 1000);
    // The others are reaped by comparing an idle drive with the kernel's count.
    assert_equal(&tracker, &drive);
    assert_empty(&drive);
    read(&disk, 10);
    assert_equal(&tracker, &drive);
}

#[test]
fn requests_beyond_the_age_limit_are_reaped() {
    let Some(_alone) = real_disks() else { return };
    let disk = LoopDisk::new(64);
    let mut tracker = keep(&disk, TrackerOptions { age_limit: Duration::ZERO, ..logged() });
    let drive = tracker.drive(0).unwrap();
    tracker.without_completions(|| read(&disk, 10)).unwrap();
    assert!(drive.counters().expired > 0);
    assert_equal(&tracker, &drive);
}

/// A request that the driver returned is not at the driver, but will be again: during error
/// recovery seconds may pass without events.
#[test]
fn requeued_requests_stay_in_flight() {
    let Some(_alone) = real_disks() else { return };
    let disk = LoopDisk::new(64);
    let age_limit = Duration::from_secs(2);
    let tracker = keep(&disk, TrackerOptions { age_limit, ..logged() });
    let drive = tracker.drive(0).unwrap();
    // The read is fictitious, so the programs count it in flight for 100 ms; on a busy machine
    // more time may pass in between.
    let in_time = (0..10).any(|_| {
        let before = drive.counters();
        tracker.inject_event(0, InjectedEvent::Arrived, 1);
        tracker.inject_event(0, InjectedEvent::Requeued, 1);
        drive.counters() == before
    });
    assert!(in_time, "the read was given up before");
    let begun = Instant::now();
    wait_until_idle(&drive);
    assert!(begun.elapsed() > age_limit / 2, "{:?}", begun.elapsed());
    let counters = drive.counters();
    assert_eq!(counters.expired, 1, "{counters:?}");
    assert_equal(&tracker, &drive);
    assert_empty(&drive);

    // There was only one: further unseen completions are reaped when the drive is idle.
    tracker.inject_event(0, InjectedEvent::Arrived, 1);
    let begun = Instant::now();
    wait_until_idle(&drive);
    assert!(begun.elapsed() < age_limit, "{:?}", begun.elapsed());
    assert_eq!(drive.counters().expired, 1);
    assert_equal(&tracker, &drive);
}

/// Requests that share a home bucket of the table.
#[test]
fn displaced_requests_are_found() {
    let Some(_alone) = real_disks() else { return };
    let disk = LoopDisk::new(64);
    let tracker = keep(&disk, logged());
    let drive = tracker.drive(0).unwrap();
    let keys = 1000 * 256 + 1..1000 * 256 + 200;
    let count = keys.clone().count() as u64;
    // As above: they might be reaped.
    let in_time = (0..10).any(|_| {
        let before = (drive.sent(), drive.counters());
        keys.clone().for_each(|key| tracker.inject_event(0, InjectedEvent::Arrived, key));
        let all = u64::from(state_of(&drive).requests);
        // The first are in their home bucket and free it for the others.
        keys.clone().for_each(|key| tracker.inject_event(0, InjectedEvent::Answered, key));
        keys.clone().rev().for_each(|key| tracker.inject_event(0, InjectedEvent::Arrived, key));
        keys.clone().for_each(|key| tracker.inject_event(0, InjectedEvent::Answered, key));
        let none = state_of(&drive).requests;
        (all, none) == (count, 0)
            && (drive.sent(), drive.counters()) == (before.0 + 2 * count, before.1)
    });
    assert!(in_time, "{:?}", drive.counters());
    assert_equal(&tracker, &drive);
    assert_empty(&drive);
}
