//! Requests in flight whose end is not seen, is long in coming, or that have no place of
//! their own.

use std::time::{Duration, Instant};

use super::harness::*;
use trimtab_testdisk::LoopDisk;
use trimtab_tracker::{InjectedEvent, TrackerOptions};

#[test]
fn counts_recover_from_answers_that_went_unseen() {
    let Some(_alone) = real_disks() else { return };
    let disk = LoopDisk::new(64);
    let mut tracker = keep(&disk, logged());
    let drive = tracker.drive(0).unwrap();
    read(&disk, 10);
    tracker.without_completions(|| read(&disk, 1000)).unwrap();
    // The kernel has far fewer structures than that: most have been used again, which
    // is how it is noticed.
    let counters = drive.counters();
    assert!(counters.never_completed > 100, "{counters:?}");
    assert!(state_of(&drive).requests < 1000);
    // With the others a drive that rests is compared with the kernel's own count.
    assert_equal(&tracker, &drive);
    assert_empty(&drive);
    read(&disk, 10);
    assert_equal(&tracker, &drive);
}

#[test]
fn what_is_too_old_is_given_up() {
    let Some(_alone) = real_disks() else { return };
    let disk = LoopDisk::new(64);
    let mut tracker = keep(&disk, TrackerOptions { age_limit: Duration::ZERO, ..logged() });
    let drive = tracker.drive(0).unwrap();
    tracker.without_completions(|| read(&disk, 10)).unwrap();
    assert!(drive.counters().expired > 0);
    assert_equal(&tracker, &drive);
}

/// What the driver has given back is not with it, and will be again: during the recovery
/// from an error seconds may pass in which nothing happens.
#[test]
fn what_is_requeued_stays_in_flight() {
    let Some(_alone) = real_disks() else { return };
    let disk = LoopDisk::new(64);
    let age_limit = Duration::from_secs(2);
    let tracker = keep(&disk, TrackerOptions { age_limit, ..logged() });
    let drive = tracker.drive(0).unwrap();
    // The kernel knows of no such read. So it is in flight for 100 ms as far as the
    // programs know; on a busy machine more of these may pass in between.
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

    // That was the only one: others that end unseen are given up when the drive rests.
    tracker.inject_event(0, InjectedEvent::Arrived, 1);
    let begun = Instant::now();
    wait_until_idle(&drive);
    assert!(begun.elapsed() < age_limit, "{:?}", begun.elapsed());
    assert_eq!(drive.counters().expired, 1);
    assert_equal(&tracker, &drive);
}

/// Requests that have the same place in the table.
#[test]
fn requests_may_live_elsewhere() {
    let Some(_alone) = real_disks() else { return };
    let disk = LoopDisk::new(64);
    let tracker = keep(&disk, logged());
    let drive = tracker.drive(0).unwrap();
    let keys = 1000 * 256 + 1..1000 * 256 + 200;
    let count = keys.clone().count() as u64;
    // As above: they might be given up.
    let in_time = (0..10).any(|_| {
        let before = (drive.sent(), drive.counters());
        keys.clone().for_each(|key| tracker.inject_event(0, InjectedEvent::Arrived, key));
        let all = u64::from(state_of(&drive).requests);
        // The first are at home and leave it to the others.
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
