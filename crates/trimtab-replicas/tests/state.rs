//! Sets with models: the state of the drives, and what is left when its tracker is killed.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use trimtab_block::BlockDevice;
use trimtab_predict::Model;
use trimtab_read::Source;
use trimtab_replicas::{ReplicaOptions, ReplicaSet, SetOptions};
use trimtab_testdisk as disk;
use trimtab_tracker::{StateTracker, TrackerOptions};

mod drives;
#[path = "../../trimtab-emu/tests/emulated/mod.rs"]
mod emulated;
#[path = "../../trimtab-read/tests/models/mod.rs"]
mod models;
use drives::Drives;
use emulated::{Emulated, PAGES};

const PINS: &str = "TRIMTAB_TEST_PINS";
const DEVICES: &str = "TRIMTAB_TEST_DEVICES";

/// Tracks drives until it is killed.
#[test]
#[ignore = "not a test: a process of its own runs it"]
fn track() {
    let (pins, devices) = (std::env::var(PINS).unwrap(), std::env::var(DEVICES).unwrap());
    let devices: Vec<_> = devices.split(',').map(|d| BlockDevice::find(d).unwrap()).collect();
    let functions = models::model().trained.functions().to_vec();
    let functions = vec![functions; devices.len()];
    let options = TrackerOptions { functions, ..TrackerOptions::default() };
    let mut tracker = StateTracker::load(&devices, &options).unwrap();
    tracker.pin(Path::new(&pins)).unwrap();
    disk::note("tracking");
    std::thread::sleep(Duration::from_secs(300));
}

fn tracker(drives: &Drives, pins: &Path) -> Child {
    let devices: Vec<_> = drives.all.iter().map(|drive| drive.path.as_str()).collect();
    let mut child = Command::new("/proc/self/exe")
        .args(["track", "--exact", "--ignored", "--nocapture"])
        .env(PINS, pins)
        .env(DEVICES, devices.join(","))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stderr.as_mut().unwrap()).lines();
    assert!(said.any(|line| line.unwrap() == "tracking"), "the tracker did not start");
    child
}

/// Reads so many pages, and verifies them.
fn read(set: &ReplicaSet, pages: u64) {
    let mut page = [0; 4096];
    for i in 0..pages {
        let number = i * 7919 % PAGES;
        set.read_exact_at(&mut page, number << 12).unwrap();
        assert_eq!(page, [number as u8; 4096]);
    }
}

#[test]
fn killed_tracker_leaves_what_the_set_has_seen() {
    if !emulated::can_run() {
        return;
    }
    let drives = Drives::new(3);
    let model = models::stubborn(false);
    disk::with_bpf_files(0o700, |files| {
        let pins = files.join("trimtab");
        let mut tracker = tracker(&drives, &pins);
        let set = open(&drives, &model, &pins);
        read(&set, 500);
        let figures = set.figures();
        assert!(figures.without_model < 50, "the models are not used: {figures:?}");
        tracker.kill().unwrap();
        tracker.wait().unwrap();
        let begun = Instant::now();
        while set.figures().without_model < figures.without_model + 50 {
            assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", set.figures());
            read(&set, 20);
        }
        disk::note(&format!("without the tracker after {:?}", begun.elapsed()));
        // A stall is noticed all the same: reads go on from the others.
        drives.all[1].stall();
        let (before, begun) = (set.figures(), Instant::now());
        read(&set, 500);
        disk::note(&format!("500 reads beside a stalled replica in {:?}", begun.elapsed()));
        let after = set.figures();
        let extra = after.hedges + after.rescues + after.moved;
        assert!(extra > before.hedges + before.rescues + before.moved, "{after:?}");
        assert_eq!((after.errors, after.reads), (0, before.reads + 500));
        drives.all[1].heal();
    });
}

fn open(drives: &Drives, model: &Model, pins: &Path) -> ReplicaSet {
    let replica = |drive: &Emulated| {
        let source = Source::Pinned(pins.to_owned());
        ReplicaOptions::new(&drive.path).with_model(model.clone()).with_source(source)
    };
    let options = SetOptions { direct: true, ..SetOptions::default() };
    ReplicaSet::open(drives.all.iter().map(replica), &options).unwrap()
}
