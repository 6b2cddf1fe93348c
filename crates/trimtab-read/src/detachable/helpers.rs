//! Threads that read for others, without io_uring.
//!
//! An abandoned read keeps its helper, as it would keep its ring, until the drive completes
//! it. Each drive has its own few helpers, so a drive that completes nothing does not occupy
//! those of other drives.

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use trimtab_io::Nanos;

use super::{Ask, Came, Left, copy};
use trimtab_block::DirectBuffer;
use trimtab_io::monotonic;

/// The most helpers per drive. Further concurrent reads wait for one.
pub(crate) const MOST: usize = 16;
/// The threads' name, as in `top -H`.
const NAME: &str = "trimtab-reads";
/// A helper ends after this long without work.
const IDLE: Duration = Duration::from_secs(1);

/// The helpers of a drive.
#[derive(Debug, Default)]
pub(crate) struct Helpers {
    pool: Mutex<Pool>,
    /// A helper has become idle.
    freed: Condvar,
    /// Helpers whose reads were abandoned.
    stuck: AtomicUsize,
}

#[derive(Debug, Default)]
struct Pool {
    idle: Vec<Arc<Helper>>,
    /// All helpers, idle or at work.
    all: usize,
}

/// Shared by a helper and its caller.
#[derive(Debug)]
struct Helper {
    job: Mutex<Job>,
    changed: Condvar,
    /// Used by the helper while it reads, then by its caller.
    buffer: Mutex<DirectBuffer>,
}

#[derive(Debug)]
enum Job {
    None,
    Requested(Arc<File>, u64, usize),
    Begun,
    Done(io::Result<usize>),
    /// Its caller has abandoned the read.
    Left(Arc<Ended>),
}

/// An abandoned read.
#[derive(Debug, Default)]
struct Ended(AtomicBool);

impl Left for Ended {
    fn has_ended(&self) -> bool {
        self.0.load(Relaxed)
    }
}

impl Helpers {
    /// Whether all helpers wait for a drive that does not complete reads.
    pub(crate) fn are_stuck(&self) -> bool {
        self.stuck.load(Relaxed) >= MOST
    }

    /// See [`super::read`].
    pub(super) fn read(self: &Arc<Self>, ask: &Ask<'_>, into: &mut [MaybeUninit<u8>]) -> Came {
        let helper = match self.helper(ask.until) {
            Ok(Some(helper)) => helper,
            Ok(None) => return Came::Late(None),
            Err(e) => return Came::Read(Err(e)),
        };
        let mut job = lock(&helper.job);
        *job = Job::Requested(Arc::clone(ask.file), ask.offset, into.len());
        helper.changed.notify_all();
        while !matches!(*job, Job::Done(_)) {
            let left = ask.until.since(monotonic());
            if left == Nanos::ZERO {
                break;
            }
            let waited = helper.changed.wait_timeout(job, Duration::from_nanos(left.0));
            job = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let state = std::mem::replace(&mut *job, Job::None);
        if let Job::Begun = state {
            let ended = Arc::new(Ended::default());
            *job = Job::Left(Arc::clone(&ended));
            self.stuck.fetch_add(1, Relaxed);
            return Came::Late(Some(ended));
        }
        drop(job);
        let came = match state {
            Job::Done(Ok(bytes)) => Came::Read(Ok(copy(lock(&helper.buffer).content(bytes), into))),
            Job::Done(Err(e)) => Came::Read(Err(e)),
            // It was not started, and will not be.
            _ => Came::Late(None),
        };
        self.free(helper);
        came
    }

    /// An idle helper, or a new one; `None` if there is none until the deadline.
    fn helper(self: &Arc<Self>, until: Nanos) -> io::Result<Option<Arc<Helper>>> {
        let mut pool = lock(&self.pool);
        loop {
            if let Some(helper) = pool.idle.pop() {
                return Ok(Some(helper));
            }
            if pool.all < MOST {
                match self.start() {
                    Ok(helper) => {
                        pool.all += 1;
                        return Ok(Some(helper));
                    }
                    Err(e) if pool.all == 0 => return Err(e),
                    Err(_) => {}
                }
            }
            let left = until.since(monotonic());
            if left == Nanos::ZERO {
                return Ok(None);
            }
            let waited = self.freed.wait_timeout(pool, Duration::from_nanos(left.0));
            pool = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn start(self: &Arc<Self>) -> io::Result<Arc<Helper>> {
        let buffer = Mutex::new(DirectBuffer::new(1)?);
        let helper = Helper { job: Mutex::new(Job::None), changed: Condvar::new(), buffer };
        let (helper, all) = (Arc::new(helper), Arc::clone(self));
        let ours = Arc::clone(&helper);
        thread::Builder::new().name(NAME.to_owned()).spawn(move || all.work(&ours))?;
        Ok(helper)
    }

    /// A helper's loop.
    fn work(&self, helper: &Arc<Helper>) {
        while let Some((file, offset, length)) = self.next(helper) {
            let result = helper.pread(&file, offset, length);
            drop(file);
            let mut job = lock(&helper.job);
            if let Job::Left(ended) = &*job {
                self.stuck.fetch_sub(1, Relaxed);
                ended.0.store(true, Relaxed);
                *job = Job::None;
                drop(job);
                self.free(Arc::clone(helper));
            } else {
                *job = Job::Done(result);
                helper.changed.notify_all();
            }
        }
    }

    /// The next read of a helper; `None` after a period without one.
    fn next(&self, helper: &Arc<Helper>) -> Option<(Arc<File>, u64, usize)> {
        let mut job = lock(&helper.job);
        loop {
            if let Job::Requested(file, offset, length) = &*job {
                let wanted = (Arc::clone(file), *offset, *length);
                *job = Job::Begun;
                return Some(wanted);
            }
            let waited = helper.changed.wait_timeout(job, IDLE);
            let (guard, waited) = waited.unwrap_or_else(PoisonError::into_inner);
            job = guard;
            if waited.timed_out() && matches!(*job, Job::None) {
                drop(job);
                if self.is_let_go(helper) {
                    return None;
                }
                job = lock(&helper.job);
            }
        }
    }

    /// Whether an idle helper may end: no caller has taken it in the meantime.
    fn is_let_go(&self, helper: &Arc<Helper>) -> bool {
        let mut pool = lock(&self.pool);
        let place = pool.idle.iter().position(|idle| Arc::ptr_eq(idle, helper));
        if let Some(place) = place {
            pool.idle.swap_remove(place);
            pool.all -= 1;
        }
        place.is_some()
    }

    fn free(&self, helper: Arc<Helper>) {
        lock(&self.pool).idle.push(helper);
        self.freed.notify_one();
    }
}

impl Helper {
    fn pread(&self, file: &File, offset: u64, length: usize) -> io::Result<usize> {
        let mut buffer = lock(&self.buffer);
        if buffer.bytes() < length {
            *buffer = DirectBuffer::new(length.next_power_of_two())?;
        }
        loop {
            match file.read_at(buffer.content(length), offset) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                read => return read,
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
