use std::fs;

use trimtab_predict::{HeuristicLimits, Identity, Label, LabelRule, Provenance, Trained};
use trimtab_testdisk::{self as disk, Feature, LoopDisk};

use super::*;

/// A publisher of some memory in a file.
fn publisher(expect: Expect, devices: &[BlockDevice]) -> Publisher {
    let file = tempfile::tempfile().unwrap();
    file.set_len((DRIVES * size_of::<Drive>()) as u64).unwrap();
    let words = WritableMapping::new(&file, DRIVES).unwrap();
    Publisher::new(words, expect, Nanos::from_millis(2), devices)
}

fn published(publisher: &Publisher, slot: usize) -> [u64; 3] {
    let drive = publisher.words.read(slot);
    [drive.wait_ns, drive.reason, drive.published_ns]
}

#[test]
fn drive_that_vanished_is_published_as_not_tracked() {
    if !disk::requires(&[Feature::Root, Feature::Loop]) {
        return;
    }
    let mut drive = LoopDisk::new(1);
    let device = BlockDevice::find(&drive.path).unwrap();
    let mut publisher = publisher(Expect::Assumed(Nanos(7)), std::slice::from_ref(&device));
    publisher.publish(Nanos::from_secs(1));
    assert_eq!(published(&publisher, 0), [7, Reason::InTime as u64, 1_000_000_000]);
    assert_eq!(publisher.slot(&device), Some(0), "it has one slot");
    if !drive.attach_anew() {
        return disk::skip(Feature::Quiet, "another process has taken the loop device");
    }
    publisher.publish(Nanos::from_secs(2));
    assert_eq!(published(&publisher, 0), [0, Reason::NotTracked as u64, 2_000_000_000]);
    assert!(publisher.notes().iter().any(|note| note.contains("is gone")));
    // What has its name now is another drive.
    let device = BlockDevice::find(&drive.path).unwrap();
    assert_eq!(publisher.slot(&device), Some(1));
}

#[test]
fn drive_that_nothing_tracks_is_published_as_such() {
    if !disk::requires(&[Feature::Root, Feature::Loop]) {
        return;
    }
    let drive = LoopDisk::new(1);
    let device = BlockDevice::find(&drive.path).unwrap();
    let pins = tempfile::tempdir().unwrap();
    fs::write(pins.path().join("devices"), "no map").unwrap();
    let expect = Expect::State { pins: pins.path().into(), model: None };
    let mut publisher = publisher(expect, &[]);
    assert_eq!(publisher.slot(&device), Some(0));
    publisher.publish(Nanos::from_secs(1));
    assert_eq!(published(&publisher, 0)[1], Reason::NotTracked as u64);
    assert!(publisher.notes()[0].contains("is not tracked"));
}

#[test]
fn tracker_of_its_own_tells_the_wait() {
    if !disk::requires(disk::REAL_DISKS) {
        return;
    }
    let drive = LoopDisk::new(1);
    let device = BlockDevice::find(&drive.path).unwrap();
    let pins = tempfile::tempdir().unwrap();
    let expect = Expect::State { pins: pins.path().into(), model: None };
    let mut publisher = publisher(expect, &[device]);
    publisher.publish(monotonic());
    // Idle drives are in time.
    assert_eq!(published(&publisher, 0)[..2], [0, Reason::InTime as u64]);
    assert!(publisher.notes().is_empty());
}

#[test]
fn slots_are_limited() {
    if !disk::requires(&[Feature::Root, Feature::Loop]) {
        return;
    }
    let drive = LoopDisk::new(1);
    let mut device = BlockDevice::find(&drive.path).unwrap();
    let mut publisher = publisher(Expect::Assumed(Nanos(7)), &[]);
    for number in 0..=DRIVES as u32 {
        device.number = (300, number);
        let expected = (number < DRIVES as u32).then_some(number);
        assert_eq!(publisher.slot(&device), expected);
    }
}

/// A model that tells late reads from fast ones by the requests in flight.
fn by_queue(label_us: u64) -> Model {
    let limits = HeuristicLimits { slow: Nanos::from_micros(label_us), high: 9, median: 2, low: 1 };
    let training = Provenance {
        trace: "trace".to_owned(),
        fingerprint: String::new(),
        reads: 1,
        slow: 1,
        until: Nanos(0),
        inflection_percentile: None,
        false_submit_rate: None,
        cost: None,
        seed: 1,
        fit: None,
    };
    let label = Label::Threshold { latency: limits.slow };
    Model::new(Trained::HeurSim(limits), LabelRule::Knee, label, training)
}

#[test]
fn model_decides_if_it_is_of_the_drive_and_its_label_settles_it() {
    if !disk::requires(disk::REAL_DISKS) {
        return;
    }
    let drive = LoopDisk::new(1);
    let device = BlockDevice::find(&drive.path).unwrap();
    let pins = tempfile::tempdir().unwrap();
    let by = |model: Model| {
        let expect = Expect::State { pins: pins.path().into(), model: Some(Arc::new(model)) };
        let mut publisher = publisher(expect, std::slice::from_ref(&device));
        publisher.publish(monotonic());
        (published(&publisher, 0)[..2].to_vec(), publisher.notes())
    };
    // The drive is idle. Faster than 1 ms is within the limit of 2 ms, faster than 3 ms may not
    // be.
    assert_eq!(by(by_queue(1000)).0, [0, Reason::InTime as u64]);
    assert_eq!(by(by_queue(3000)).0, [0, Reason::Unsure as u64]);
    let mut other = by_queue(1000);
    other.card.drive = Some(Identity { bytes: Some(1), ..Identity::default() });
    let (published, notes) = by(other);
    assert_eq!(published, [0, Reason::NoModel as u64]);
    assert!(notes[0].contains("no model used"), "{notes:?}");
}
