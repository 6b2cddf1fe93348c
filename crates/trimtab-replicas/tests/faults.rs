//! Sets of emulated drives that stall, fail, and come back.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use trimtab_io::monotonic;
use trimtab_replicas::{ReadError, ReplicaSet, SetOptions};
use trimtab_testdisk as disk;

mod drives;
#[path = "../../trimtab-emu/tests/emulated/mod.rs"]
mod emulated;
use drives::Drives;
use emulated::PAGES;

/// A drive must be used again within this time; more than a replica needs (1 s), because a
/// machine may be busy. The time that it took is noted.
const BACK: Duration = Duration::from_secs(20);

/// The page that a thread reads next.
const fn page_of(thread: u64, i: u64) -> u64 {
    (i * 7919 + thread * 104_729) % PAGES
}

/// Threads that read and verify, until told to stop.
fn with_load<T>(set: &ReplicaSet, threads: u64, work: impl FnOnce() -> T) -> T {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        for thread in 0..threads {
            let over = &over;
            scope.spawn(move || {
                let mut page = [0; 4096];
                for i in 0.. {
                    if over.load(Relaxed) {
                        return;
                    }
                    let number = page_of(thread, i);
                    set.read_exact_at(&mut page, number << 12).unwrap();
                    assert_eq!(page, [number as u8; 4096]);
                    thread::sleep(Duration::from_micros(500));
                }
            });
        }
        let done = work();
        over.store(true, Relaxed);
        done
    })
}

/// Waits until something is so; how long that took.
fn until(what: &str, mut is_so: impl FnMut() -> bool) -> Duration {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < BACK, "not within {BACK:?}: {what}");
        thread::sleep(Duration::from_millis(2));
    }
    begun.elapsed()
}

#[test]
fn reads_go_on_without_a_replica_that_fails_or_stalls_and_it_is_used_again() {
    if !emulated::can_run() {
        return;
    }
    let drives = Drives::new(3);
    let set = drives.open(&SetOptions::default());
    with_load(&set, 3, || {
        let served = |number: usize| set.figures().replicas[number].served;
        let is_served = |number: usize| {
            let before = served(number);
            until("it serves reads", || served(number) > before + 20)
        };
        (0..3).for_each(|number| _ = is_served(number));
        // One that fails.
        drives.all[0].fail();
        until("it is down", || set.figures().replicas[0].is_down);
        let before = served(0);
        is_served(1);
        assert_eq!(served(0), before, "one that fails serves nothing");
        drives.all[0].heal();
        disk::note(&format!("after errors back after {:?}", is_served(0)));
        // One that answers nothing: at first its reads are hedged, later it is down.
        drives.all[1].stall();
        until("it is down", || set.figures().replicas[1].is_down);
        is_served(0);
        is_served(2);
        drives.all[1].heal();
        disk::note(&format!("after a stall back after {:?}", is_served(1)));
        // Two at once.
        drives.all[0].fail();
        drives.all[2].stall();
        until("they are down", || {
            let figures = set.figures();
            figures.replicas[0].is_down && figures.replicas[2].is_down
        });
        is_served(1);
        drives.all[0].heal();
        drives.all[2].heal();
        disk::note(&format!("after both back after {:?} {:?}", is_served(0), is_served(2)));
    });
    let figures = set.figures();
    disk::note(&format!("{figures:?}"));
    assert_eq!((figures.errors, figures.timed_out), (0, 0), "{figures:?}");
    let extra = figures.hedges + figures.rescues + figures.probes;
    assert!(figures.extra > 0 && extra > 0, "{figures:?}");
}

/// The property that a user waits for: a drive that dies and comes back is read from within a
/// second. Of several times, since the machine may be busy in one.
#[test]
fn drive_that_comes_back_is_used_within_a_second() {
    const TIMES: usize = 5;
    if !emulated::can_run() {
        return;
    }
    let drives = Drives::new(2);
    let set = drives.open(&SetOptions::default());
    let mut took = with_load(&set, 2, || {
        let served = || set.figures().replicas[1].served;
        let once = |_| {
            drives.all[1].fail();
            until("it is down", || set.figures().replicas[1].is_down);
            drives.all[1].heal();
            let before = served();
            until("it serves reads", || served() > before)
        };
        (0..TIMES).map(once).collect::<Vec<_>>()
    });
    took.sort_unstable();
    disk::note(&format!("back after {took:?}"));
    assert!(took[TIMES / 2] < Duration::from_secs(1), "{took:?}");
    let figures = set.figures();
    assert_eq!((figures.errors, figures.timed_out), (0, 0), "{figures:?}");
    assert!(figures.replicas[1].errors >= TIMES as u64, "{figures:?}");
}

#[test]
fn deadline_holds_and_the_buffer_is_not_touched_after_it() {
    if !emulated::can_run() {
        return;
    }
    let drives = Drives::new(2);
    let set = drives.open(&SetOptions::default());
    let mut page = [0; 4096];
    for number in 0..PAGES {
        set.read_exact_at(&mut page, number << 12).unwrap();
        assert_eq!(page, [number as u8; 4096]);
    }
    drives.all.iter().for_each(|drive| drive.stall());
    let within = Duration::from_millis(20);
    let mut buffers = vec![[0xee; 4096]; 8];
    for (number, buffer) in (0..).zip(&mut buffers) {
        let begun = monotonic();
        let late = set.read_at_within(buffer, number << 12, Some(within)).unwrap_err();
        assert!(matches!(late, ReadError::TimedOut(time) if time == within), "{late}");
        let took = monotonic().since(begun);
        assert!(u128::from(took.0) >= within.as_nanos(), "{took}");
        assert_eq!(late.to_string(), "no replica has answered within 20.0 ms");
    }
    let figures = set.figures();
    assert_eq!((figures.timed_out, figures.errors), (8, 0), "{figures:?}");
    // Every replica was asked in time.
    assert!(figures.rescues > 0, "{figures:?}");
    drives.all.iter().for_each(|drive| drive.heal());
    for number in 100..PAGES {
        set.read_exact_at(&mut page, number << 12).unwrap();
        assert_eq!(page, [number as u8; 4096]);
    }
    assert!(buffers.iter().all(|buffer| *buffer == [0xee; 4096]), "a buffer was written to");

    // One replica is enough: it is asked in time.
    drives.all[0].stall();
    for number in 0..50 {
        let number = page_of(0, number);
        let within = Some(Duration::from_secs(4));
        let read = set.read_at_within(&mut page, number << 12, within);
        assert_eq!(read.unwrap(), 4096);
        assert_eq!(page, [number as u8; 4096]);
    }
    drives.all[0].heal();
    // A thread that ends with a request in flight.
    drives.all[0].stall();
    thread::scope(|scope| {
        for thread in 0..4 {
            let set = &set;
            scope.spawn(move || {
                let number = page_of(thread, 3);
                let mut page = [0; 4096];
                let within = Some(Duration::from_secs(4));
                let read = set.read_at_within(&mut page, number << 12, within);
                assert_eq!((read.unwrap(), page), (4096, [number as u8; 4096]));
            });
        }
    });
    drives.all[0].heal();
}
