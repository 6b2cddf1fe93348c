//! The pinned state of a drive, read by other processes.

use std::os::fd::AsFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::thread;

use super::harness::state_of;
use libbpf_rs::{MapCore as _, MapFlags, MapHandle};
use rustix::mm::{self, MprotectFlags, ProtFlags, mmap, mprotect, munmap};
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use trimtab_block::BlockDevice;
use trimtab_io::monotonic;
use trimtab_predict::units::UnitFunction;
use trimtab_state::LiveDrive;
use trimtab_testdisk::{self as disk, Feature, LoopDisk};
use trimtab_tracker::{StateTracker, TrackerOptions};

#[test]
fn other_processes_read_the_pinned_state() {
    if !disk::requires(disk::REAL_DISKS) {
        return;
    }
    let (disk, unwatched) = (LoopDisk::new(16), LoopDisk::new(16));
    let device = BlockDevice::find(&disk.path).unwrap();
    let functions = vec![UnitFunction::Stripe { shift: 12, units: 6 }];
    let options =
        TrackerOptions { functions: vec![functions.clone()], ..TrackerOptions::default() };
    disk::with_bpf_files(0o755, |files| {
        let pins = files.join("trimtab");
        let why = |device| LiveDrive::open(&pins, device).err().unwrap().to_string();
        assert!(why(&device).contains("are the drives tracked"), "{}", why(&device));

        let mut tracker = StateTracker::load(std::slice::from_ref(&device), &options).unwrap();
        tracker.pin(&pins).unwrap();
        let theirs = LiveDrive::open(&pins, &device).unwrap();
        assert_no_way_to_write(&pins.join("devices"));
        assert!(theirs.is_fresh(monotonic()));
        assert_eq!(theirs.functions(), functions);
        disk::run("dd", &[&format!("if={}", disk.path), "of=/dev/null", "bs=4k", "count=100"]);
        assert!(theirs.sent() > 0);
        assert_eq!(theirs.sent(), tracker.drive(0).unwrap().sent());
        let other = BlockDevice::find(&unwatched.path).unwrap();
        assert!(why(&other).contains("is not tracked by the state tracker"), "{}", why(&other));

        // One tracker per directory.
        let mut second = StateTracker::load(std::slice::from_ref(&device), &options).unwrap();
        let refused = second.pin(&pins).err().unwrap().to_string();
        assert!(refused.contains("another process tracks drives"), "{refused}");
        drop(second);
        assert!(theirs.is_fresh(monotonic()));

        drop(tracker);
        assert!(!theirs.is_fresh(monotonic()));
        assert!(!pins.exists(), "pins are left behind");
    });
}

#[test]
fn unmounted_pins_are_restored() {
    if !disk::requires(disk::REAL_DISKS) {
        return;
    }
    let disk = LoopDisk::new(16);
    let device = BlockDevice::find(&disk.path).unwrap();
    disk::with_bpf_files(0o711, |files| {
        let pins = files.join("trimtab");
        let mut tracker =
            StateTracker::load(std::slice::from_ref(&device), &TrackerOptions::default()).unwrap();
        assert!(!tracker.pin_again().unwrap(), "nothing was pinned");
        tracker.pin(&pins).unwrap();
        assert!(!tracker.pin_again().unwrap());
        let before = LiveDrive::open(&pins, &device).unwrap();

        unmount(files, UnmountFlags::DETACH).unwrap();
        assert!(LiveDrive::open(&pins, &device).is_err());
        assert!(before.is_fresh(monotonic()), "open mappings stay valid");
        assert!(tracker.pin_again().unwrap());
        assert!(!tracker.pin_again().unwrap());
        assert!(LiveDrive::open(&pins, &device).unwrap().is_fresh(monotonic()));
        let mode = std::fs::metadata(files).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o711, "the directory's mode is kept");

        // Removes only the file.
        std::fs::remove_file(pins.join("devices")).unwrap();
        assert!(tracker.pin_again().unwrap());
        assert!(LiveDrive::open(&pins, &device).is_ok());
        drop(tracker);
        assert!(!pins.exists(), "pins are left behind");
    });
}

#[test]
fn state_of_a_replaced_device_is_stale() {
    if !disk::requires(disk::REAL_DISKS) {
        return;
    }
    let mut disk = LoopDisk::new(16);
    let device = BlockDevice::find(&disk.path).unwrap();
    let tracker =
        StateTracker::load(std::slice::from_ref(&device), &TrackerOptions::default()).unwrap();
    let drive = tracker.drive(0).unwrap();
    assert!(drive.is_fresh(monotonic()) && !device.is_replaced());
    if !disk.attach_anew() {
        return disk::skip(Feature::Quiet, "another process has taken the loop device");
    }
    assert!(device.is_replaced());
    assert!(!BlockDevice::find(&disk.path).unwrap().is_replaced());
    for _ in 0..1000 {
        if !drive.is_fresh(monotonic()) {
            return;
        }
        thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("the state of another device counts as fresh");
}

/// Switches this thread alone to an unprivileged user.
fn become_unprivileged() {
    let (user, group) = (Uid::from_raw(65_534), Gid::from_raw(65_534));
    set_thread_groups(&[]).unwrap();
    set_thread_res_gid(group, group, group).unwrap();
    set_thread_res_uid(user, user, user).unwrap();
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    assert!(status.contains("CapEff:\t0000000000000000"), "{status}");
}

/// The running kernel's version.
fn kernel() -> (u32, u32) {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse().unwrap());
    (numbers.next().unwrap(), numbers.next().unwrap())
}

/// Tracks a disk, and pins its state.
fn with_pinned(run: impl FnOnce(StateTracker, &Path, &LoopDisk, &BlockDevice) + Send) {
    let disk = LoopDisk::new(16);
    let device = BlockDevice::find(&disk.path).unwrap();
    disk::with_bpf_files(0o755, |files| {
        let pins = files.join("trimtab");
        let mut tracker =
            StateTracker::load(std::slice::from_ref(&device), &TrackerOptions::default()).unwrap();
        tracker.pin(&pins).unwrap();
        run(tracker, &pins, &disk, &device);
    });
}

fn read_all(disk: &LoopDisk) {
    disk::run("dd", &[&format!("if={}", disk.path), "of=/dev/null", "bs=64k"]);
}

/// Any user can read the pinned state, and none can write it.
#[test]
fn any_user_reads_and_none_writes() {
    if !disk::requires(disk::REAL_DISKS) {
        return;
    }
    if kernel() < (5, 19) {
        return disk::skip(Feature::Kernel, "needs Linux 5.19");
    }
    with_pinned(|tracker, pins, disk, device| {
        let ours = tracker.drive(0).unwrap();
        let theirs = thread::scope(|scope| {
            let them = scope.spawn(|| {
                become_unprivileged();
                let theirs = LiveDrive::open(pins, device).unwrap();
                assert!(theirs.is_fresh(monotonic()));
                assert_no_way_to_write(&pins.join("devices"));
                theirs
            });
            them.join().unwrap()
        });
        read_all(disk);
        assert!(theirs.sent() > 0);
        assert_eq!(theirs.state(), ours.state());
    });
}

/// The readable memory reveals nothing about single requests: no kernel addresses, from which
/// its memory layout could be derived, and no offsets of other users.
#[test]
fn pinned_memory_holds_figures_only() {
    if !disk::requires(disk::REAL_DISKS) {
        return;
    }
    with_pinned(|mut tracker, pins, disk, _| {
        let names = std::fs::read_dir(pins).unwrap().map(|entry| entry.unwrap().file_name());
        assert_eq!(names.collect::<Vec<_>>(), ["devices"]);
        let map = MapHandle::from_pinned_path(pins.join("devices")).unwrap();
        let drive = tracker.drive(0).unwrap();
        // Makes the programs count requests in flight.
        tracker
            .without_completions(|| {
                read_all(disk);
                assert!(state_of(&drive).requests > 0);
                let value = map.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY).unwrap().unwrap();
                let words =
                    value.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap()));
                // Addresses, and distances between the kernel's memory and the programs', have
                // the highest bits set; times, their sums, bytes and counts do not.
                let large: Vec<_> = words.clone().filter(|word| word >> 56 > 0).collect();
                assert!(large.is_empty(), "{large:x?}");
                // Without unit functions, everything beyond the drive's own page is zero.
                assert_eq!(words.skip(4096 / 8).filter(|&word| word > 0).count(), 0);
            })
            .unwrap();
    });
}

/// Asserts that no process, not even root's, can write the open map by a call or a mapping.
fn assert_no_way_to_write(pin: &Path) {
    let map = MapHandle::from_pinned_path(pin).unwrap();
    let value = vec![0; map.value_size() as usize];
    let key = 0_u32.to_ne_bytes();
    assert!(map.update(&key, &value, MapFlags::ANY).is_err());
    let mapped = |protection| {
        // SAFETY: a new mapping at an address that the kernel chooses.
        unsafe {
            mmap(std::ptr::null_mut(), 4096, protection, mm::MapFlags::SHARED, map.as_fd(), 0)
        }
    };
    assert!(mapped(ProtFlags::READ | ProtFlags::WRITE).is_err());
    let readable = mapped(ProtFlags::READ).unwrap();
    // SAFETY: our own mapping, without references into it.
    unsafe {
        let writable = mprotect(readable, 4096, MprotectFlags::READ | MprotectFlags::WRITE);
        assert!(writable.is_err());
        munmap(readable, 4096).unwrap();
    }
}
