//! The state of a drive, read by whoever is let.

use std::path::Path;

use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use trimtab_live::record::BlockDevice;
use trimtab_live::state::{self, Keeper, LiveDrive, Options};
use trimtab_predict::units::UnitFunction;
use trimtab_testdisk::{self as disk, LoopDisk};

/// Runs something in a thread that has a BPF file system of its own: it is gone with
/// the thread, however this ends.
fn with_bpf_files(run: impl FnOnce(&Path) + Send) {
    let directory = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // SAFETY: only this thread and those it begins see other mounts; no file
            // descriptors are unshared.
            unsafe { unshare_unsafe(UnshareFlags::NEWNS) }.unwrap();
            mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).unwrap();
            mount("bpf", directory.path(), "bpf", MountFlags::empty(), None).unwrap();
            run(directory.path());
        });
        thread.join().unwrap();
    });
}

#[test]
fn others_read_what_is_pinned() {
    if let Some(why) = disk::missing() {
        disk::say(&format!("skipped the test of pinned state: {why}"));
        return;
    }
    let (disk, unwatched) = (LoopDisk::new(16), LoopDisk::new(16));
    let device = BlockDevice::find(&disk.path).unwrap();
    let functions = vec![UnitFunction::Stripe { shift: 12, units: 6 }];
    let options = Options { functions: vec![functions.clone()], ..Options::default() };
    with_bpf_files(|files| {
        let pins = files.join("trimtab");
        let why = |device| LiveDrive::open(&pins, device).err().unwrap().to_string();
        assert!(why(&device).contains("is it kept and pinned there?"), "{}", why(&device));

        let mut keeper = Keeper::load(std::slice::from_ref(&device), &options).unwrap();
        keeper.pin(&pins).unwrap();
        let theirs = LiveDrive::open(&pins, &device).unwrap();
        assert!(theirs.is_fresh(state::now()));
        assert_eq!(theirs.functions(), functions);
        disk::run("dd", &[&format!("if={}", disk.path), "of=/dev/null", "bs=4k", "count=100"]);
        assert!(theirs.sent() > 0);
        assert_eq!(theirs.sent(), keeper.drive(0).unwrap().sent());
        let other = BlockDevice::find(&unwatched.path).unwrap();
        assert!(why(&other).contains("is not watched by the keeper"), "{}", why(&other));

        // One keeper at a place.
        let mut second = Keeper::load(std::slice::from_ref(&device), &options).unwrap();
        let refused = second.pin(&pins).err().unwrap().to_string();
        assert!(refused.contains("another process keeps the state"), "{refused}");
        drop(second);
        assert!(theirs.is_fresh(state::now()));

        drop(keeper);
        assert!(!theirs.is_fresh(state::now()));
        assert!(!pins.exists(), "pins are left behind");
    });
}
