//! A drive that stalls is refused, and read from again once it has recovered.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use trimtab_block::BlockDevice;
use trimtab_io::Nanos;
use trimtab_io::monotonic;
use trimtab_predict::Recorded;
use trimtab_read::{ReadError, ReadOptions, Reader, Source, Urgency};
use trimtab_testdisk as disk;
use trimtab_tracker::{StateTracker, TrackerOptions};

#[path = "../../trimtab-emu/tests/emulated/mod.rs"]
mod emulated;
mod models;
use emulated::{Emulated, PAGES};
use models::{learnt_from, recorded};

/// Many threads, because those that read when a stall begins are blocked until it ends.
const THREADS: u64 = 96;
/// Between a thread's reads: longer than it takes to detect a stall, so that most threads are
/// not reading then.
const PAUSE: Duration = Duration::from_millis(150);
/// The threshold of late. It must exceed the delays of a busy machine.
const LATE: Nanos = Nanos::from_millis(100);
/// Reads must resume within this time after the stall.
const BACK: Duration = Duration::from_millis(100);
/// The machine may be busy with other work: the best of this many rounds counts.
const ROUNDS: usize = 10;

/// A synthetic recording of such a drive: as many reads as the test makes, fast ones with some
/// delayed by a busy machine, and every two seconds a stall of half a second, at whose end all
/// its reads complete.
fn invented() -> Vec<Recorded> {
    const MS: u64 = 1_000_000;
    let gap = u64::try_from(PAUSE.as_nanos()).unwrap() / THREADS;
    let read = |i: u64| {
        let random = i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let arrival = gap * i + random % gap;
        let into = arrival % (2000 * MS);
        let stalled = if into > 1500 * MS { 2000 * MS - into } else { 0 };
        let busy = if random.is_multiple_of(8) { random % (40 * MS) } else { 0 };
        let complete = arrival + stalled + busy + MS / 10;
        recorded(Nanos(arrival), page_of(i % THREADS, i / THREADS) << 12, Nanos(complete))
    };
    (0..16_000).map(read).collect()
}

/// The page that a thread reads next.
const fn page_of(thread: u64, i: u64) -> u64 {
    (i * THREADS + thread) * 7919 % PAGES
}

/// The time until the next multiple of the pause after the first time.
fn until_next(first: Instant) -> Duration {
    let now = Instant::now();
    let since = now.duration_since(first).as_nanos();
    let next = first + PAUSE * (since / PAUSE.as_nanos()) as u32 + PAUSE;
    if now < first { first - now } else { next - now }
}

/// Threads that read, and verify the data.
#[derive(Default)]
struct Load {
    over: AtomicBool,
    /// When the drive last recovered.
    healed: AtomicU64,
    /// Successful reads of all threads that started after that time, without those that were
    /// blocked until then.
    read: AtomicU64,
    refused: AtomicU64,
}

impl Load {
    fn run(&self, reader: &Reader, thread: u64) {
        let mut buffer = disk::aligned(4096);
        let page = disk::window(&mut buffer, 4096);
        // Each at independent times: otherwise the blocked threads would read in step from
        // then on, and all of them meet the next stall.
        let first = Instant::now() + PAUSE * thread as u32 / THREADS as u32;
        for i in 0.. {
            thread::sleep(until_next(first));
            if self.over.load(Relaxed) {
                return;
            }
            let (number, begun) = (page_of(thread, i), monotonic());
            match reader.read_exact_at(page, number << 12, Urgency::LatencyCritical) {
                Ok(()) => {
                    assert_eq!(page, [number as u8; 4096]);
                    let is_new = begun.0 >= self.healed.load(Relaxed);
                    self.read.fetch_add(is_new.into(), Relaxed);
                }
                Err(ReadError::Refused(_)) => _ = self.refused.fetch_add(1, Relaxed),
                Err(e) => panic!("{e}"),
            }
        }
    }

    /// The time until, for twenty milliseconds, more is read than refused. `None` if that
    /// takes over ten seconds.
    fn until_read_again(&self) -> Option<Duration> {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(10) {
            let before = [&self.read, &self.refused].map(|count| count.load(Relaxed));
            let at = begun.elapsed();
            thread::sleep(Duration::from_millis(20));
            let after = [&self.read, &self.refused].map(|count| count.load(Relaxed));
            if after[0] - before[0] > (after[1] - before[1]).max(3) {
                return Some(at);
            }
        }
        None
    }
}

#[test]
fn stalled_drive_is_refused_and_used_again_after_recovery() {
    if !emulated::can_run() {
        return;
    }
    let emulated = Emulated::new();
    let model = learnt_from(&invented(), LATE);
    let functions = vec![model.trained.functions().to_vec()];
    let device = BlockDevice::find(&emulated.path).unwrap();
    let keeping = TrackerOptions { functions, ..TrackerOptions::default() };
    let tracker = StateTracker::load(&[device], &keeping).unwrap();
    let options = ReadOptions {
        direct: true,
        source: Source::Given(tracker.drive(0).unwrap()),
        publish: None,
        ..ReadOptions::with_model(model)
    };
    let reader = Reader::open(&emulated.path, &options).unwrap();
    let load = Load::default();
    let rounds = thread::scope(|scope| {
        for thread in 0..THREADS {
            let (reader, load) = (&reader, &load);
            scope.spawn(move || load.run(reader, thread));
        }
        let rounds = stall_and_heal(&emulated, &load);
        load.over.store(true, Relaxed);
        // In any case, no thread must be left waiting.
        emulated.heal();
        rounds
    });
    let figures = reader.figures();
    disk::note(&format!("back after {rounds:?}; {figures:?}"));
    assert!(figures.probed > 0 && figures.refused > 100, "{figures:?}");
    let best = rounds.into_iter().flatten().min();
    assert!(best.is_some_and(|best| best <= BACK), "{best:?}");
}

/// Stalls the drive until most reads are refused, and releases it, until it is used again in
/// time. Returns the time of each round.
fn stall_and_heal(emulated: &Emulated, load: &Load) -> Vec<Option<Duration>> {
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        thread::sleep(Duration::from_millis(200));
        let refused = load.refused.load(Relaxed);
        emulated.stall();
        let begun = Instant::now();
        while load.refused.load(Relaxed) < refused + 100 && begun.elapsed().as_secs() < 10 {
            thread::sleep(Duration::from_millis(5));
        }
        thread::sleep(Duration::from_millis(300));
        emulated.heal();
        load.healed.store(monotonic().0, Relaxed);
        rounds.push(load.until_read_again());
        if rounds.last().is_some_and(|round| round.is_some_and(|round| round <= BACK)) {
            break;
        }
    }
    rounds
}
