//! A deadline holds even if the drive stalls, and a stalled drive blocks only a few threads.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use trimtab_block::BlockDevice;
use trimtab_io::monotonic;
use trimtab_predict::Model;
use trimtab_read::{ReadError, ReadOptions, Reader, RefusalCause, Source, Urgency};
use trimtab_testdisk as disk;
use trimtab_tracker::{StateTracker, TrackerOptions};

#[path = "../../trimtab-emu/tests/emulated/mod.rs"]
mod emulated;
mod models;
use emulated::{Emulated, PAGES};
use models::{model, stubborn};

const THREADS: u64 = 48;
const WITHIN: Duration = Duration::from_millis(20);
const DEADLINE: Urgency = Urgency::Deadline(WITHIN);
const STALL: Duration = Duration::from_secs(1);
/// The longest scheduling delay on a busy machine; a stall is longer.
const MARGIN: Duration = Duration::from_millis(400);
/// The documented bound.
const BOUND: usize = 4;
/// The time in which a drive recovers after faults are cleared; a hang takes longer.
const PATIENCE: Duration = Duration::from_secs(20);

/// A drive, used by one test at a time. `None`, with a note, if there can be none.
fn drive() -> Option<(Emulated, MutexGuard<'static, ()>)> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    if !emulated::can_run() {
        return None;
    }
    let guard = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    Some((Emulated::new(), guard))
}

/// Past the page cache, unpublished, without a model.
fn plain() -> ReadOptions {
    let nowhere = Source::Pinned("/nowhere".into());
    ReadOptions { direct: true, publish: None, source: nowhere, ..ReadOptions::default() }
}

fn keep(emulated: &Emulated, model: &Model) -> StateTracker {
    let functions = vec![model.trained.functions().to_vec()];
    let device = BlockDevice::find(&emulated.path).unwrap();
    StateTracker::load(&[device], &TrackerOptions { functions, ..TrackerOptions::default() })
        .unwrap()
}

fn with_model(tracker: &StateTracker, model: Model) -> ReadOptions {
    ReadOptions {
        source: Source::Given(tracker.drive(0).unwrap()),
        model: Some(model.into()),
        ..plain()
    }
}

/// Threads that read in a loop, and verify the data.
struct Storm {
    urgency: Urgency,
    over: AtomicBool,
    /// The start of each thread's read; 0: none.
    begun: Vec<AtomicU64>,
    read: AtomicU64,
    refused: AtomicU64,
    timed_out: AtomicU64,
}

impl Storm {
    fn new(urgency: Urgency) -> Self {
        let begun = (0..THREADS).map(|_| AtomicU64::new(0)).collect();
        let [read, refused, timed_out] = [const { AtomicU64::new(0) }; 3];
        Self { urgency, over: AtomicBool::new(false), begun, read, refused, timed_out }
    }

    fn thread(&self, reader: &Reader, thread: u64) {
        let mut buffer = disk::aligned(4096);
        let page = disk::window(&mut buffer, 4096);
        for i in 0.. {
            if self.over.load(Relaxed) {
                return;
            }
            let number = (i * THREADS + thread) * 7919 % PAGES;
            let begun = &self.begun[thread as usize];
            begun.store(monotonic().0, Relaxed);
            let came = reader.read_exact_at(page, number << 12, self.urgency);
            begun.store(0, Relaxed);
            let count = match came {
                Ok(()) => {
                    assert_eq!(page, [number as u8; 4096]);
                    &self.read
                }
                Err(ReadError::Refused(_)) => &self.refused,
                Err(ReadError::TimedOut(_)) => &self.timed_out,
                Err(ReadError::Io(e)) => panic!("{e}"),
            };
            count.fetch_add(1, Relaxed);
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// The number of threads that have waited longer than this at the moment.
    fn blocked(&self, longest: Duration) -> usize {
        let now = monotonic();
        let is_late = |begun: &&AtomicU64| {
            let begun = begun.load(Relaxed);
            begun != 0 && u128::from(now.0.saturating_sub(begun)) > longest.as_nanos()
        };
        self.begun.iter().filter(is_late).count()
    }

    /// The largest number of threads blocked for longer than this at any moment of a stall.
    /// Afterwards the drive must be read from again.
    fn most_blocked(&self, emulated: &Emulated, readers: &[Reader], longest: Duration) -> usize {
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let reader = &readers[thread as usize % readers.len()];
                scope.spawn(move || self.thread(reader, thread));
            }
            thread::sleep(Duration::from_millis(100));
            emulated.stall();
            let (stalled, mut most) = (Instant::now(), 0);
            while stalled.elapsed() < STALL {
                most = most.max(self.blocked(longest));
                thread::sleep(Duration::from_millis(5));
            }
            emulated.heal();
            let before = self.read.load(Relaxed);
            let healed = Instant::now();
            while self.read.load(Relaxed) < before + THREADS && healed.elapsed() < PATIENCE {
                thread::sleep(Duration::from_millis(5));
            }
            self.over.store(true, Relaxed);
            let read = self.read.load(Relaxed) - before;
            assert!(read >= THREADS, "{read} reads after the stall: {:?}", readers[0].figures());
            most
        })
    }
}

/// Threads with a deadline, while the drive stalls for a second.
fn assert_deadline_holds(what: &str, emulated: &Emulated, reader: Reader) {
    let storm = Storm::new(DEADLINE);
    let readers = [reader];
    let most = storm.most_blocked(emulated, &readers, WITHIN + MARGIN);
    let figures = readers[0].figures();
    disk::note(&format!("{what}: at most {most} of {THREADS} threads beyond it; {figures:?}"));
    assert!(most <= BOUND, "{what}: {most} threads were blocked");
    assert_eq!(figures.timed_out, storm.timed_out.into_inner());
    assert_eq!(figures.refused, storm.refused.into_inner());
    assert!(figures.timed_out > 0 && figures.bounded <= figures.refused, "{figures:?}");
}

#[test]
fn deadline_holds_without_a_model() {
    let Some((emulated, _guard)) = drive() else { return };
    assert_deadline_holds("no model", &emulated, Reader::open(&emulated.path, &plain()).unwrap());
}

#[test]
fn deadline_holds_with_a_model_and_without_its_tracker() {
    let Some((emulated, _guard)) = drive() else { return };
    let model = model();
    let tracker = keep(&emulated, &model);
    let options = with_model(&tracker, model);
    let open = || Reader::open(&emulated.path, &options).unwrap();
    assert_deadline_holds("a model", &emulated, open());
    let orphan = open();
    drop(tracker);
    assert_deadline_holds("no tracker", &emulated, orphan);
}

/// If the process may not use io_uring.
#[test]
fn deadline_holds_without_io_uring() {
    let Some((emulated, _guard)) = drive() else { return };
    thread::scope(|scope| {
        // Threads inherit the filter.
        scope.spawn(|| {
            forbid_io_uring();
            assert!(io_uring::IoUring::new(1).is_err());
            let reader = Reader::open(&emulated.path, &plain()).unwrap();
            assert_deadline_holds("helpers", &emulated, reader);
        });
    });
}

/// A filter of system calls for this thread and those that it starts.
fn forbid_io_uring() {
    const fn instruction(code: u32, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
        libc::sock_filter { code: code as u16, jt, jf, k }
    }
    let number = libc::SYS_io_uring_setup as u32;
    let mut filter = [
        instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, number),
        instruction(libc::BPF_RET, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        instruction(libc::BPF_RET, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the program outlives the calls, and has the stated number of instructions.
    let result = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1_u64, 0_u64, 0_u64, 0_u64);
        libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program)
    };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

/// The refusal cap would send half of the reads, samples a tenth, probes some: no more than
/// four threads wait for a stalled drive, of two readers together.
#[test]
fn waiting_threads_never_exceed_the_bound_for_any_cap() {
    let Some((emulated, _guard)) = drive() else { return };
    let late = stubborn(true);
    let tracker = keep(&emulated, &late);
    let options =
        ReadOptions { most_refused: 0.5, sample_every: 10, ..with_model(&tracker, late.clone()) };
    let readers = [(); 2].map(|()| Reader::open(&emulated.path, &options).unwrap());
    let storm = Storm::new(Urgency::LatencyCritical);
    let most = storm.most_blocked(&emulated, &readers, MARGIN);
    let figures = readers[0].figures();
    disk::note(&format!("at most {most} of {THREADS} threads wait; {figures:?}"));
    assert!((1..=BOUND).contains(&most), "{most} threads were blocked");
    assert!(figures.bounded > 100, "{figures:?}");
    let sent = figures.probed + figures.sampled + figures.over_cap;
    let known = figures.refused + figures.failed_open.unsure + sent;
    assert_eq!((figures.with_deadline, figures.forced_samples), (known, sent), "{figures:?}");
}

/// An abandoned read with a deadline: its buffer is returned to the caller and reused for
/// something else.
#[test]
fn late_completion_does_not_touch_the_callers_buffer() {
    const CANARY: u8 = 0xc5;
    let Some((emulated, _guard)) = drive() else { return };
    let reader = Reader::open(&emulated.path, &plain()).unwrap();
    let mut buffers = [(); 4].map(|()| disk::aligned(1 << 16));
    let mut reads = buffers.each_mut().map(|buffer| disk::window(buffer, 1 << 16));
    emulated.stall();
    for (buffer, number) in reads.iter_mut().zip(1..) {
        let error = reader.read_at(buffer, number << 16, DEADLINE).unwrap_err();
        assert!(matches!(error, ReadError::TimedOut(within) if within == WITHIN), "{error}");
        assert_eq!(std::io::Error::from(error).raw_os_error(), Some(libc::ETIMEDOUT));
        buffer.fill(CANARY);
    }
    emulated.heal();
    // The reads complete, and their data are dropped.
    let mut page = disk::aligned(4096);
    let page = disk::window(&mut page, 4096);
    for number in 0..100 {
        reader.read_exact_at(page, number << 12, Urgency::None).unwrap();
        assert_eq!(page, [number as u8; 4096]);
    }
    thread::sleep(Duration::from_millis(100));
    assert!(reads.iter().all(|buffer| buffer.iter().all(|byte| *byte == CANARY)));
    // The next reads of this thread return the right data.
    for (buffer, number) in reads.iter_mut().zip(20..) {
        let patient = Urgency::Deadline(PATIENCE);
        reader.read_exact_at(buffer, number << 16, patient).unwrap();
        let right = |(i, page): (usize, &[u8])| page == [(number as usize * 16 + i) as u8; 4096];
        assert!(buffer.chunks(4096).enumerate().all(right));
    }
    assert_eq!(reader.figures().timed_out, 4);
}

#[test]
fn read_without_deadline_waits() {
    let Some((emulated, _guard)) = drive() else { return };
    let options = ReadOptions { most_abandoned: 1, ..plain() };
    let reader = Reader::open(&emulated.path, &options).unwrap();
    emulated.stall();
    let mut unread = [0; 4096];
    assert!(matches!(reader.read_at(&mut unread, 4096, DEADLINE), Err(ReadError::TimedOut(_))));
    // After an abandoned read, a second one with a deadline is refused; this one is not.
    thread::scope(|scope| {
        let waits = scope.spawn(|| {
            let mut buffer = disk::aligned(4096);
            let page = disk::window(&mut buffer, 4096);
            reader.read_exact_at(page, 9 << 12, Urgency::None).unwrap();
            assert_eq!(page, [9; 4096]);
        });
        thread::sleep(Duration::from_millis(300));
        assert!(!waits.is_finished());
        let error = reader.read_at(&mut unread, 4096, DEADLINE).unwrap_err();
        let ReadError::Refused(refusal) = error else { panic!("{error}") };
        assert_eq!(refusal.cause, RefusalCause::Outstanding);
        emulated.heal();
        waits.join().unwrap();
    });
    assert_eq!(unread, [0; 4096]);
    let figures = reader.figures();
    assert_eq!((figures.timed_out, figures.bounded, figures.refused), (1, 1, 1), "{figures:?}");
}

/// Reads abandoned by threads and readers that have ended count until the drive has completed
/// them, and no longer.
#[test]
fn reads_of_ended_threads_count_until_completed() {
    let Some((emulated, _guard)) = drive() else { return };
    let options = ReadOptions { most_abandoned: 3, ..plain() };
    emulated.stall();
    let reader = Reader::open(&emulated.path, &options).unwrap();
    thread::scope(|scope| {
        for number in 0..3 {
            let reader = &reader;
            scope.spawn(move || {
                let mut page = [0; 4096];
                let late = reader.read_at(&mut page, number << 12, DEADLINE);
                assert!(matches!(late, Err(ReadError::TimedOut(_))));
            });
        }
    });
    drop(reader);
    let reader = Reader::open(&emulated.path, &options).unwrap();
    let mut page = [0; 4096];
    let begun = Instant::now();
    for _ in 0..100 {
        let read = reader.read_at(&mut page, 0, Urgency::Deadline(PATIENCE));
        assert!(matches!(read, Err(ReadError::Refused(_))), "{read:?}");
    }
    assert!(begun.elapsed() < PATIENCE, "refusals do not wait");
    emulated.heal();
    let healed = Instant::now();
    while reader.read_at(&mut page, 7 << 12, Urgency::Deadline(PATIENCE)).is_err() {
        assert!(healed.elapsed() < PATIENCE, "{:?}", reader.figures());
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(page, [7; 4096]);
}

/// Through the page cache: cached data are read while the drive stalls, other reads time out.
#[test]
fn deadline_holds_through_the_page_cache() {
    let Some((emulated, _guard)) = drive() else { return };
    let reader = Reader::open(&emulated.path, &ReadOptions { direct: false, ..plain() }).unwrap();
    rustix::fs::fadvise(&reader, 0, None, rustix::fs::Advice::Random).unwrap();
    let mut page = [0; 4096];
    let patient = Urgency::Deadline(PATIENCE);
    reader.read_exact_at(&mut page, 3 << 12, patient).unwrap();
    assert_eq!(page, [3; 4096]);
    emulated.stall();
    for number in [1000, 1100, 1200] {
        let error = reader.read_at(&mut page, number << 12, DEADLINE).unwrap_err();
        assert!(matches!(error, ReadError::TimedOut(_)), "{error}");
        reader.read_exact_at(&mut page, 3 << 12, DEADLINE).unwrap();
        assert_eq!(page, [3; 4096]);
    }
    emulated.heal();
    for number in 1000..1300 {
        reader.read_exact_at(&mut page, number << 12, patient).unwrap();
        assert_eq!(page, [number as u8; 4096]);
    }
    assert_eq!(reader.figures().timed_out, 3);
}

/// Longer than the library's buffer: made in pieces, with one deadline.
#[test]
fn long_read_is_complete_or_late() {
    let Some((emulated, _guard)) = drive() else { return };
    let reader = Reader::open(&emulated.path, &plain()).unwrap();
    let length = 3 << 20;
    let mut buffer = disk::aligned(length);
    let long = disk::window(&mut buffer, length);
    assert_eq!(reader.read_at(long, 4096, Urgency::Deadline(PATIENCE)).unwrap(), length);
    assert!(long.chunks(4096).enumerate().all(|(i, page)| page == [(i + 1) as u8; 4096]));
    emulated.stall();
    let late = reader.read_at(long, 0, DEADLINE);
    assert!(matches!(late, Err(ReadError::TimedOut(_))), "{late:?}");
    emulated.heal();
}
