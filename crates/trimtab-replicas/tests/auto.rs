//! Automatic deadlines of sets.

use std::thread;
use std::time::Duration;

use trimtab_read::{AutoOptions, Urgency};
use trimtab_replicas::{OpenError, ReadError, ReplicaOptions, ReplicaSet, SetOptions};

mod drives;
#[path = "../../trimtab-emu/tests/emulated/mod.rs"]
mod emulated;
use drives::Drives;
use emulated::PAGES;

/// Refusals that the budget permits beyond the share of reads (`trimtab_read::auto`).
const BURST: u64 = trimtab_read::auto::BURST as u64;

#[test]
fn deadlines_follow_the_set_and_reads_beyond_them_are_bounded() {
    if !emulated::can_run() {
        return;
    }
    let drives = Drives::new(2);
    let most = Duration::from_secs(5);
    let auto = AutoOptions { most, ..AutoOptions::default() };
    let set = drives.open(&SetOptions { auto, ..SetOptions::default() });
    assert_eq!(set.auto_deadline(), most);
    let read = |number: u64| {
        let mut page = [0; 4096];
        let read = set.read_at_urgency(&mut page, (number % PAGES) << 12, Urgency::Auto);
        match read {
            Ok(bytes) => assert_eq!((bytes, page), (4096, [(number % PAGES) as u8; 4096])),
            Err(ReadError::TimedOut(within)) => {
                assert!(within < most, "{within:?}");
                set.failed_over(Duration::from_millis(1));
            }
            Err(error @ ReadError::Io(_)) => panic!("{error}"),
        }
    };
    thread::scope(|scope| {
        for thread in 0..4 {
            let read = &read;
            scope.spawn(move || (0..300).for_each(|i| read(i * 7919 + thread * 104_729)));
        }
    });
    let deadline = set.auto_deadline();
    assert!(deadline < most && deadline >= auto.failover * 9 / 10, "{deadline:?}");
    let figures = set.figures();
    assert_eq!((figures.reads, figures.errors), (1200, 0), "{figures:?}");
    let permitted = (1200.0 * auto.most_refused) as u64 + BURST;
    assert!(figures.timed_out <= permitted, "{figures:?}");
    // With no replica that answers, a read ends at its deadline, which nobody has set.
    drives.all.iter().for_each(|drive| drive.stall());
    let late = set.read_at_urgency(&mut [0; 4096], 0, Urgency::Auto).unwrap_err();
    assert!(matches!(late, ReadError::TimedOut(within) if within <= most), "{late}");
    drives.all.iter().for_each(|drive| drive.heal());
    let mut page = [0; 4096];
    assert_eq!(set.read_at_urgency(&mut page, 4096, Urgency::None).unwrap(), 4096);
    assert_eq!(page, [1; 4096]);
}

#[test]
fn bounds_are_checked() {
    let auto = AutoOptions { most: Duration::ZERO, ..AutoOptions::default() };
    let directory = tempfile::tempdir().unwrap();
    let paths = ["a", "b"].map(|name| directory.path().join(name));
    paths.iter().for_each(|path| std::fs::write(path, [0; 512]).unwrap());
    let options = SetOptions { auto, ..SetOptions::default() };
    let error = ReplicaSet::open(paths.map(ReplicaOptions::new), &options).unwrap_err();
    assert!(matches!(error, OpenError::Auto(_)), "{error}");
    assert!(error.to_string().contains("most must be positive"), "{error}");
}
