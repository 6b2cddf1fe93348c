//! The strategies that a set's own is compared with.

use std::os::unix::fs::FileExt as _;
use std::thread;
use std::time::Duration;

use trimtab_block::BlockDevice;
use trimtab_io::Nanos;
use trimtab_predict::{Label, LabelRule, Model, Provenance, QueueTimes, Trained};
use trimtab_read::Source;
use trimtab_replicas::{OpenError, ReplicaOptions, ReplicaSet, SetOptions, SetStrategy};
use trimtab_testdisk as disk;
use trimtab_tracker::{StateTracker, TrackerOptions};

mod drives;
#[path = "../../trimtab-emu/tests/emulated/mod.rs"]
mod emulated;
use drives::Drives;
use emulated::PAGES;

/// Reads so many pages, and verifies them. In a thread, which has the drives open until its end.
fn read(set: &ReplicaSet, pages: u64) {
    let read = || {
        let mut page = [0; 4096];
        for i in 0..pages {
            let number = i * 7919 % PAGES;
            set.read_exact_at(&mut page, number << 12).unwrap();
            assert_eq!(page, [number as u8; 4096]);
        }
    };
    thread::scope(|scope| scope.spawn(read).join().unwrap());
}

fn served(set: &ReplicaSet) -> Vec<u64> {
    set.figures().replicas.iter().map(|replica| replica.served).collect()
}

#[test]
fn base_stays_and_hedge_sends_once_more() {
    if !emulated::can_run() {
        return;
    }
    let drives = Drives::new(3);
    let strategy = SetStrategy::Base;
    let base = drives.open(&SetOptions { strategy, ..SetOptions::default() });
    read(&base, 300);
    // Longer than the 100 ms after which the set's own strategy asks another replica.
    let stall = Duration::from_millis(300);
    drives.all.iter().for_each(|drive| drive.stall_for(stall));
    read(&base, 300);
    let figures = base.figures();
    assert_eq!((figures.moved, figures.extra, figures.reads), (0, 0, 600), "{figures:?}");
    let strategy = SetStrategy::Hedge { after: Duration::from_millis(20) };
    let hedge = drives.open(&SetOptions { strategy, ..SetOptions::default() });
    read(&hedge, 300);
    let before = hedge.figures();
    drives.all[1].stall_for(Duration::from_millis(400));
    read(&hedge, 300);
    let after = hedge.figures();
    assert!(after.hedges > before.hedges, "{after:?}");
    assert_eq!((after.moved, after.rescues, after.errors), (0, 0, 0), "{after:?}");
    drives.all[1].heal();
}

/// A model by which a request takes a millisecond.
fn queue() -> Model {
    let times = QueueTimes {
        read_ns: 1_000_000,
        read_page_ns: 0,
        write_ns: 1_000_000,
        write_page_ns: 0,
        parallel: 1,
        deadline_ns: 5_000_000,
    };
    let provenance = Provenance::untrained("none".to_owned());
    let label = Label::Threshold { latency: Nanos(times.deadline_ns) };
    Model::new(Trained::MittState(times), LabelRule::P95, label, provenance)
}

#[test]
fn mitt_leaves_a_drive_that_others_keep_busy() {
    const OTHERS: u64 = 10;
    if !emulated::can_run() {
        return;
    }
    let drives = Drives::new(3);
    let devices: Vec<_> =
        drives.all.iter().map(|drive| BlockDevice::find(&drive.path).unwrap()).collect();
    let tracker = StateTracker::load(&devices, &TrackerOptions::default()).unwrap();
    let replica = |(number, drive): (usize, &emulated::Emulated)| {
        let source = Source::Given(tracker.drive(number).unwrap());
        ReplicaOptions::new(&drive.path).with_model(queue()).with_source(source)
    };
    let strategy = SetStrategy::Mitt { deadline: Duration::from_millis(5) };
    let options = SetOptions { strategy, direct: true, ..SetOptions::default() };
    let set = ReplicaSet::open(drives.all.iter().enumerate().map(replica), &options).unwrap();
    read(&set, 300);
    let idle = set.figures();
    assert!(idle.moved < 30 && idle.without_model == 0, "{idle:?}");
    // Ten reads of other programs wait there: ten milliseconds.
    drives.all[1].stall();
    thread::scope(|scope| {
        for number in 0..OTHERS {
            let path = &drives.all[1].path;
            scope.spawn(move || {
                let file = std::fs::File::open(path).unwrap();
                file.read_exact_at(&mut [0; 512], number << 20).unwrap();
            });
        }
        thread::sleep(Duration::from_millis(300));
        let before = served(&set);
        read(&set, 300);
        let after = served(&set);
        drives.all[1].heal();
        assert_eq!(after[1], before[1], "{:?}", set.figures());
    });
    let figures = set.figures();
    assert!(figures.moved > idle.moved + 50, "{figures:?}");
    assert_eq!((figures.hedges, figures.rescues, figures.errors), (0, 0, 0), "{figures:?}");
    drop(set);
    disk::note(&format!("{figures:?}"));
}

#[test]
fn times_of_zero_are_refused() {
    let places = ["a", "b"];
    for strategy in [
        SetStrategy::Hedge { after: Duration::ZERO },
        SetStrategy::Mitt { deadline: Duration::ZERO },
    ] {
        let options = SetOptions { strategy, ..SetOptions::default() };
        let error = ReplicaSet::open(places.map(ReplicaOptions::new), &options).unwrap_err();
        assert!(matches!(error, OpenError::Option(_)), "{error}");
    }
}
