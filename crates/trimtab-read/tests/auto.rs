//! Automatic deadlines of a reader.

use std::fs;
use std::thread;
use std::time::Duration;

use trimtab_read::{AutoOptions, Error, ReadOptions, Reader, Urgency};

fn options(auto: AutoOptions) -> ReadOptions {
    ReadOptions { publish: None, auto, ..ReadOptions::default() }
}

#[test]
fn deadline_follows_the_reads_of_all_threads() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    fs::write(&path, [7; 8 * 4096]).unwrap();
    let most = Duration::from_secs(30);
    let auto = AutoOptions { most, ..AutoOptions::default() };
    let reader = Reader::open(&path, &options(auto)).unwrap();
    assert_eq!(reader.auto_deadline(), most);
    thread::scope(|scope| {
        for thread in 0..4 {
            let reader = &reader;
            scope.spawn(move || {
                for i in 0..500 {
                    let mut page = [0; 4096];
                    let read =
                        reader.read_exact_at(&mut page, (i + thread) % 8 * 4096, Urgency::Auto);
                    match read {
                        Ok(()) => assert_eq!(page, [7; 4096]),
                        // On a busy machine a read may take longer than the failover.
                        Err(_) => reader.failed_over(Duration::from_micros(300)),
                    }
                }
            });
        }
    });
    assert_eq!(reader.figures().with_deadline, 2000);
    // Reads from memory take less than failovers.
    let deadline = reader.auto_deadline();
    assert!(deadline >= auto.failover * 9 / 10 && deadline < most, "{deadline:?}");
    for _ in 0..200 {
        reader.failed_over(Duration::from_millis(50));
    }
    let token = reader.admit(4096, 0, Urgency::Auto).unwrap();
    assert!(token.auto_deadline().is_some());
    token.finish();
    for _ in 0..64 {
        _ = reader.read_at(&mut [0; 512], 0, Urgency::Auto);
    }
    assert!(reader.auto_deadline() > Duration::from_millis(20), "{:?}", reader.auto_deadline());
    // The end of a file is no failure of the drive.
    let mut beyond = [0; 2 * 4096];
    assert!(reader.read_exact_at(&mut beyond, 7 * 4096, Urgency::Auto).is_err());
}

#[test]
fn wrong_options_are_errors() {
    let auto = AutoOptions { share: 2.0, ..AutoOptions::default() };
    let error = Reader::open("/proc/version", &options(auto)).unwrap_err();
    assert!(matches!(error, Error::Option(_)), "{error}");
}
