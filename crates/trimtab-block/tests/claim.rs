//! A claim excludes other users until it is dropped.

use std::fs::{self, File};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use trimtab_block::claim::{Claim, ClaimError, Holder};
use trimtab_testdisk::{self as testdisk, Feature, LoopDisk};

fn can_run() -> bool {
    testdisk::requires(&[Feature::Root, Feature::Loop, Feature::Program("mkfs.ext4")])
}

fn holder(result: Result<Claim, ClaimError>) -> Holder {
    match result {
        Err(ClaimError::InUse { by, .. }) => by.holder,
        other => panic!("{other:?}"),
    }
}

#[test]
fn claimed_device_cannot_be_mounted() {
    if !can_run() {
        return;
    }
    let disk = LoopDisk::new(32);
    testdisk::run("mkfs.ext4", &["-q", "-F", &disk.path]);
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path().to_str().unwrap();
    let mount = || Command::new("mount").args([&disk.path, at]).output().unwrap().status.success();
    let claim = Claim::exclusive(disk.path.as_ref()).unwrap();
    assert!(!mount(), "was mounted though it is claimed");
    // A duplicate of its file keeps the claim.
    let file = claim.file().try_clone().unwrap();
    drop(claim);
    assert!(!mount(), "was mounted though it can be written to");
    drop(file);
    assert!(mount(), "is still claimed");
    let holder = holder(Claim::exclusive(disk.path.as_ref()));
    testdisk::run("umount", &[at]);
    assert!(matches!(&holder, Holder::Mount { kind, .. } if kind == "ext4"), "{holder:?}");
    Claim::exclusive(disk.path.as_ref()).unwrap();
}

#[test]
fn device_below_claimed_loop_device_cannot_be_mounted() {
    if !can_run() {
        return;
    }
    let disk = LoopDisk::new(32);
    testdisk::run("mkfs.ext4", &["-q", "-F", &disk.path]);
    let output = Command::new("losetup").args(["--find", "--show", &disk.path]).output().unwrap();
    let above = String::from_utf8(output.stdout).unwrap().trim().to_owned();
    let directory = tempfile::tempdir().unwrap();
    let claim = Claim::exclusive(above.as_ref());
    let mount = Command::new("mount").arg(&disk.path).arg(directory.path()).output().unwrap();
    testdisk::run("losetup", &["--detach", &above]);
    drop(claim.unwrap());
    assert!(!mount.status.success(), "was mounted though what is above it is claimed");
}

#[test]
fn file_can_be_claimed_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    File::create(&path).unwrap().set_len(1 << 20).unwrap();
    let linked = directory.path().join("linked");
    fs::hard_link(&path, &linked).unwrap();
    let claim = Claim::of(File::options().read(true).write(true).open(&path).unwrap(), &path);
    let claim = claim.unwrap();
    let again = File::options().read(true).write(true).open(&linked).unwrap();
    assert!(matches!(holder(Claim::of(again, &linked)), Holder::Unseen | Holder::Process { .. }));
    drop(claim);
    let again = File::options().read(true).write(true).open(&linked).unwrap();
    Claim::of(again, &linked).unwrap();
}

/// A process that another thread starts has a copy of the file that is locked, for a moment.
#[test]
fn file_can_be_claimed_again_while_processes_start() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    File::create(&path).unwrap().set_len(1 << 20).unwrap();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                assert!(Command::new("true").status().unwrap().success());
            }
        });
        let claimed = (0..100).try_for_each(|_| {
            let file = File::options().read(true).write(true).open(&path).unwrap();
            Claim::of(file, &path).map(drop)
        });
        done.store(true, Ordering::Relaxed);
        claimed.unwrap();
    });
}

#[test]
fn special_files_are_refused_without_blocking() {
    let directory = tempfile::tempdir().unwrap();
    let pipe = directory.path().join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status();
    assert!(made.is_ok_and(|status| status.success()));
    for path in [pipe.as_path(), directory.path(), "/dev/null".as_ref()] {
        let error = Claim::exclusive(path).unwrap_err();
        assert!(matches!(error, ClaimError::NoStorage(_)), "{error}");
    }
    let error = Claim::exclusive(&directory.path().join("nothing")).unwrap_err();
    assert!(matches!(error, ClaimError::Open { .. }), "{error}");
}
