//! The kernel's state of a drive equals that of the user-space tracker after the same steps.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::harness::*;
use trimtab_block::BlockDevice;
use trimtab_bpf::Arrival;
use trimtab_io::monotonic;
use trimtab_io::{Nanos, Op};
use trimtab_testdisk::{self as disk, Feature, LoopDisk};
use trimtab_tracker::{Act, StateTracker, Step, TrackerOptions};

#[test]
fn kernel_state_equals_user_space_tracker() {
    let Some(_alone) = real_disks() else { return };
    let disk = LoopDisk::new(64);
    let tracker = keep(&disk, logged());
    let drive = tracker.drive(0).unwrap();
    load(&disk);
    let steps = assert_equal(&tracker, &drive);
    assert_empty(&drive);
    let counters = drive.counters();
    assert_eq!(counters.table_full, 0, "{counters:?}");
    // If the lock's holder loses its processor for hundreds of requests (an emulated
    // processor, say), some events are missed; never many.
    assert!(counters.missed <= steps.len() as u64 / 50, "{counters:?} of {}", steps.len());
    if counters.missed > 0 {
        disk::note(&format!("{} events missed, and found out", counters.missed));
    }
    let sent = |op| {
        let is = |step: &&Step| matches!(step.act, Act::Sent(extent) if extent.op == op);
        steps.iter().filter(is).count()
    };
    for (op, least) in [(Op::Read, 1000), (Op::Write, 500), (Op::Flush, 10), (Op::Discard, 1)] {
        assert!(sent(op) >= least, "{} {}", sent(op), op.plural());
    }
    assert_eq!(drive.sent(), Op::ALL.map(sent).into_iter().sum::<usize>() as u64);
}

/// Also for snapshots in between: each equals the user-space state after some step.
#[test]
fn snapshots_under_load_match_some_step() {
    let Some(_alone) = real_disks() else { return };
    let disk = LoopDisk::new(64);
    let tracker = keep(&disk, logged());
    let drive = tracker.drive(0).unwrap();
    let over = AtomicBool::new(false);
    let looks = thread::scope(|scope| {
        let looking = scope.spawn(|| {
            let mut looks = Vec::new();
            let mut offset = 0_u64;
            while !over.load(Ordering::Relaxed) {
                offset = (offset + 4096 * 7919) % (64 << 20);
                let length = offset % 7 * 12288;
                looks.push(((offset, length), drive.snapshot(offset, length)));
                thread::sleep(Duration::from_micros(500));
            }
            looks
        });
        load(&disk);
        over.store(true, Ordering::Relaxed);
        looking.join().unwrap()
    });
    let (steps, _) = settled(&tracker, &drive);
    let whole: Vec<_> = looks.iter().filter(|(_, look)| look.is_consistent).collect();
    let busy = whole.iter().filter(|(_, look)| look.drive.requests > 1).count();
    disk::note(&format!("{} looks, {} whole, {busy} while busy", looks.len(), whole.len()));
    assert!(busy > 0);

    let mut told = Told::new();
    let (mut next, mut candidates) = (0, Vec::new());
    // The state is empty before the first step.
    let mut confirm = |told: &Told, until: Nanos| {
        while next < whole.len() && whole[next].1.changed <= until {
            candidates.push(next);
            next += 1;
        }
        candidates.retain(|&i: &usize| {
            let ((offset, length), look) = whole[i];
            look.drive != *told.watch.state() || look.units() != told.units(*offset, *length)
        });
        // A snapshot is confirmed by a step not later than itself.
        if let Some(&i) = candidates.iter().find(|&&i| whole[i].1.changed < until) {
            panic!("matches no step: {:?}", whole[i]);
        }
    };
    let first = steps[0].now;
    confirm(&told, first);
    for (i, step) in steps.iter().enumerate() {
        told.tell(step);
        confirm(&told, steps.get(i + 1).map_or(Nanos::MAX, |next| next.now));
    }
}

#[test]
fn merged_requests_grow() {
    let Some(_alone) = real_disks() else { return };
    let disk = LoopDisk::new(64);
    disk.set_queue("scheduler", "mq-deadline");
    // A request that is first seen at its issue has its final size.
    let options = TrackerOptions { arrival: Arrival::IoStart, ..logged() };
    let tracker = match StateTracker::load(&[BlockDevice::find(&disk.path).unwrap()], &options) {
        Ok(tracker) => tracker,
        Err(why) => return disk::skip(Feature::Kernel, &why.to_string()),
    };
    let drive = tracker.drive(0).unwrap();
    mergeable_load(&disk);
    let steps = assert_equal(&tracker, &drive);
    assert_empty(&drive);
    assert!(steps.iter().any(|step| matches!(step.act, Act::Grown(_))), "nothing was merged");
}

/// On kernels without `block_io_start`.
#[test]
fn sent_can_be_counted_from_issue() {
    let Some(_alone) = real_disks() else { return };
    let disk = LoopDisk::new(64);
    disk.set_queue("scheduler", "mq-deadline");
    let tracker = keep(&disk, TrackerOptions { arrival: Arrival::GetRq, ..logged() });
    let drive = tracker.drive(0).unwrap();
    load(&disk);
    mergeable_load(&disk);
    let steps = assert_equal(&tracker, &drive);
    assert_empty(&drive);
    assert!(!steps.iter().any(|step| matches!(step.act, Act::Grown(_))));
}

#[test]
fn functions_can_change_under_load() {
    let Some(_alone) = real_disks() else { return };
    let disk = LoopDisk::new(64);
    let tracker = keep(&disk, TrackerOptions::default());
    let mut drive = tracker.drive(0).unwrap();
    assert!(drive.is_fresh(monotonic()));
    thread::scope(|scope| {
        let load = scope.spawn(|| load(&disk));
        while !load.is_finished() {
            tracker.set_functions(0, &functions()).unwrap();
            assert!(!drive.is_fresh(monotonic()) || drive.functions() == functions());
            drive.refresh_patiently().unwrap();
            assert_eq!(drive.functions(), functions());
            thread::sleep(Duration::from_millis(20));
        }
    });
    wait_until_idle(&drive);
    assert_empty(&drive);
}

#[test]
fn state_without_tracker_is_stale() {
    let Some(_alone) = real_disks() else { return };
    let disk = LoopDisk::new(16);
    let tracker = keep(&disk, logged());
    let drive = tracker.drive(0).unwrap();
    read(&disk, 5);
    assert!(drive.is_fresh(monotonic()));
    drop(tracker);
    assert!(!drive.is_fresh(monotonic()));
    // Its state no longer changes.
    let sent = drive.sent();
    read(&disk, 5);
    assert_eq!(drive.sent(), sent);
}

#[test]
fn several_drives_are_distinguished() {
    let Some(_alone) = real_disks() else { return };
    let disks = [LoopDisk::new(16), LoopDisk::new(16)];
    let unwatched = LoopDisk::new(16);
    let devices: Vec<_> = disks.iter().map(|d| BlockDevice::find(&d.path).unwrap()).collect();
    let tracker = StateTracker::load(&devices, &TrackerOptions::default()).unwrap();
    let sent = |i| tracker.drive(i).unwrap().sent();
    let before = [sent(0), sent(1)];
    read(&disks[0], 30);
    read(&disks[1], 20);
    read(&unwatched, 10);
    assert_eq!([sent(0) - before[0], sent(1) - before[1]], [30, 20]);
}
