//! Pages that are brought into memory in the background, after their read was refused.
//!
//! Without it the page cache would hold less and less of what programs with short deadlines
//! read, since a refused read brings in nothing (MittOS, dissertation §4.2.4).
//!
//! One thread gives the hints to the kernel (`POSIX_FADV_WILLNEED`, `MADV_WILLNEED`), since a
//! hint submits I/O, and blocks while the drive's queue is full. What waits for the thread is
//! bounded, as is each range: what is dropped is requested again by the next refusal.

use std::collections::VecDeque;
use std::fs::File;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::fs::Advice;
use trimtab_io::{Nanos, monotonic};

use crate::resident;

/// The most ranges that wait.
const MOST: usize = 64;
/// The longest range, bytes.
const LONGEST: u64 = 1 << 20;
/// The kernel cuts a hint to the drive's readahead size, usually 128 KiB.
const PIECE: u64 = 128 << 10;
/// The thread's name, as in `top -H`.
const NAME: &str = "trimtab-pages";
/// The thread ends after this long without work.
const IDLE: Duration = Duration::from_secs(1);
/// The longest time for which pages are waited for, to measure how long they take.
const MEASURE: Nanos = Nanos(100_000_000);

/// A range to bring in.
#[derive(Clone, Debug)]
pub(super) enum PageRange {
    /// Of a file: offset and length, bytes.
    File(Arc<File>, u64, u64),
    /// Of mapped memory: address and length, bytes. If it is unmapped meanwhile, the kernel
    /// reports that, and nothing happens.
    Mapped(usize, usize),
}

/// The process's thread, and what waits for it.
#[derive(Debug)]
struct PageFetcher {
    queue: Mutex<Queue>,
    changed: Condvar,
    /// The process whose thread it is; 0: none yet. A child process has no such thread, and may
    /// have a locked queue.
    process: AtomicU32,
    /// The moving mean of the time that mapped pages took, ns; 0: not known.
    took: AtomicU64,
}

#[derive(Debug)]
struct Queue {
    ranges: VecDeque<PageRange>,
    has_thread: bool,
}

static FETCHER: PageFetcher = PageFetcher {
    queue: Mutex::new(Queue { ranges: VecDeque::new(), has_thread: false }),
    changed: Condvar::new(),
    process: AtomicU32::new(0),
    took: AtomicU64::new(0),
};

impl PageRange {
    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::File(a, at, length), Self::File(b, of, with)) => {
                Arc::ptr_eq(a, b) && (at, length) == (of, with)
            }
            (Self::Mapped(at, length), Self::Mapped(of, with)) => (at, length) == (of, with),
            _ => false,
        }
    }

    /// Gives the hint. That it fails is no loss: the read was refused in any case.
    fn fetch(&self) {
        match self {
            Self::File(file, offset, length) => {
                for at in (0..(*length).min(LONGEST)).step_by(PIECE as usize) {
                    let piece = NonZeroU64::new(PIECE.min(length - at));
                    _ = rustix::fs::fadvise(file, offset + at, piece, Advice::WillNeed);
                }
            }
            Self::Mapped(start, length) => {
                let length = (*length).min(LONGEST as usize);
                for at in (0..length).step_by(PIECE as usize) {
                    let piece = (length - at).min(PIECE as usize);
                    let start = std::ptr::with_exposed_provenance_mut(start + at);
                    // SAFETY: this advice changes no content, whatever is mapped there.
                    _ = unsafe { libc::madvise(start, piece, libc::MADV_WILLNEED) };
                }
            }
        }
    }
}

/// Requests a range. Takes a lock that is never held during a system call, and is not taken by
/// reads that are not refused.
pub(super) fn fetch(range: PageRange) {
    let process = std::process::id();
    let owner = FETCHER.process.compare_exchange(0, process, Relaxed, Relaxed);
    if owner.is_err_and(|owner| owner != process) {
        return range.fetch();
    }
    let mut queue = lock(&FETCHER.queue);
    if queue.ranges.len() >= MOST || queue.ranges.iter().any(|queued| queued.is_same(&range)) {
        return;
    }
    queue.ranges.push_back(range);
    if queue.has_thread {
        FETCHER.changed.notify_one();
        return;
    }
    let thread = thread::Builder::new().name(NAME.to_owned()).spawn(run);
    queue.has_thread = thread.is_ok();
    if thread.is_err() {
        let last = queue.ranges.pop_back();
        drop(queue);
        if let Some(range) = last {
            range.fetch();
        }
    }
}

/// The time that mapped pages took to come in, lately; `None` if that is not known.
pub(super) fn usual_wait() -> Option<Nanos> {
    Some(FETCHER.took.load(Relaxed)).filter(|took| *took > 0).map(Nanos)
}

fn lock(queue: &Mutex<Queue>) -> MutexGuard<'_, Queue> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

fn run() {
    let mut queue = lock(&FETCHER.queue);
    loop {
        if let Some(range) = queue.ranges.pop_front() {
            drop(queue);
            let begun = monotonic();
            range.fetch();
            if let PageRange::Mapped(start, _) = range {
                measure(start, begun);
            }
            queue = lock(&FETCHER.queue);
            continue;
        }
        let waited = FETCHER.changed.wait_timeout_while(queue, IDLE, |q| q.ranges.is_empty());
        let (still, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        queue = still;
        if timeout.timed_out() && queue.ranges.is_empty() {
            queue.has_thread = false;
            return;
        }
    }
}

/// Measures how long the page at this address takes, until another range waits.
fn measure(start: usize, begun: Nanos) {
    let mut pause = Duration::from_micros(5);
    loop {
        let is_there = resident::is_page_resident(start);
        let took = monotonic().since(begun);
        if is_there.is_none() {
            return;
        }
        let has_ended = is_there == Some(true);
        if has_ended || took > MEASURE || !lock(&FETCHER.queue).ranges.is_empty() {
            note(took, has_ended);
            return;
        }
        thread::sleep(pause);
        pause = (pause * 5 / 4).min(Duration::from_millis(1));
    }
}

/// Adds a measured time to the mean; one that has not ended counts only if it is longer.
fn note(took: Nanos, has_ended: bool) {
    let before = FETCHER.took.load(Relaxed);
    if has_ended || took.0 > before {
        let mean = if before == 0 { took.0 } else { before - before / 4 + took.0 / 4 };
        FETCHER.took.store(mean.max(1), Relaxed);
    }
}
