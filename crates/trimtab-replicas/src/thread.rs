//! A thread's reads: a ring with buffers of its own, and the driver of `trimtab-steer` over it.

use std::cell::RefCell;
use std::io;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Once};

use rustix::io::Errno;
use trimtab_io::{DeviceId, Flags, Issuer, Nanos, Op, Outcome, Request, RequestId};
use trimtab_steer::driver::{Driver, Reads, RequestEnd, Step};
use trimtab_steer::{Order, Reason, Replica};
use trimtab_uring::{Data, ReadBackend};

use crate::choice::{Shared, ThreadChoice, ThreadState};
use crate::figures::{Counters, count};
use crate::set::{Set, copy};

thread_local! {
    /// The rings of this thread, one for each set that it reads from.
    static RINGS: RefCell<Rings> = const { RefCell::new(Rings { fork: 0, all: Vec::new() }) };
}

/// How often this process has been forked.
static FORKS: AtomicU32 = AtomicU32::new(0);
/// Threads that have begun to read.
static THREADS: AtomicU64 = AtomicU64::new(0);

/// How long a read without a deadline waits before another replica is asked, whatever it costs.
const LONGEST_WAIT: Nanos = Nanos::from_millis(100);
/// The same for strategies that are compared with, which do not do that.
const NEVER: Nanos = Nanos::from_secs(3600);

struct Rings {
    /// The fork that they belong to: a child cannot use its parent's.
    fork: u32,
    all: Vec<Ring>,
}

struct Ring {
    set: Arc<Set>,
    /// `None`: this thread gets no ring.
    driver: Option<Driver<ReadBackend, ThreadReads>>,
    state: Arc<ThreadState>,
    /// The number of the next read.
    next: u64,
}

/// A read of the application.
#[derive(Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) offset: u64,
    pub(crate) order: Order,
    pub(crate) arrival: Nanos,
    pub(crate) deadline: Option<Nanos>,
}

/// The result of a read through a ring.
pub(crate) enum Came {
    Read(io::Result<usize>),
    /// The deadline has passed.
    Late,
}

/// Reads into the buffer, which is not written to after the return. `None` without a ring: then
/// nothing has been read or counted.
pub(crate) fn read(
    set: &Arc<Set>,
    buffer: &mut [MaybeUninit<u8>],
    wanted: &Wanted,
) -> Option<Came> {
    // While the thread ends there are no more rings.
    let read = |rings: &RefCell<Rings>| rings.try_borrow_mut().ok()?.of(set)?.read(buffer, wanted);
    RINGS.try_with(read).ok().flatten()
}

impl Rings {
    fn of(&mut self, set: &Arc<Set>) -> Option<&mut Ring> {
        let forks = FORKS.load(Relaxed);
        if self.fork != forks {
            // They belong to the parent: they must not be used here, not even closed.
            std::mem::forget(std::mem::take(&mut self.all));
            self.fork = forks;
        }
        let found = self.all.iter().position(|ring| Arc::ptr_eq(&ring.set, set));
        let at = found.unwrap_or_else(|| {
            watch_forks();
            // Those of sets that are closed.
            self.all.retain(|ring| !ring.set.is_closed());
            self.all.push(Ring::new(Arc::clone(set)));
            self.all.len() - 1
        });
        Some(&mut self.all[at])
    }
}

impl Drop for Rings {
    fn drop(&mut self) {
        if self.fork != FORKS.load(Relaxed) {
            std::mem::forget(std::mem::take(&mut self.all));
        }
    }
}

impl Ring {
    fn new(set: Arc<Set>) -> Self {
        let state = Arc::new(ThreadState::default());
        let backend = ReadBackend::new(Arc::clone(&set.files)).ok();
        let driver = backend.map(|backend| {
            let choice = ThreadChoice::new(Arc::clone(&set.shared), Arc::clone(&state));
            let reads = ThreadReads::new(Arc::clone(&set.shared));
            Driver::new(backend, Box::new(choice), reads, false)
        });
        let next = THREADS.fetch_add(1, Relaxed) << 40;
        Self { set, driver, state, next }
    }

    fn read(&mut self, buffer: &mut [MaybeUninit<u8>], wanted: &Wanted) -> Option<Came> {
        let came = self.read_with_ring(buffer, wanted);
        if came.is_none() && self.driver.is_some() {
            // The kernel's queue has failed.
            self.driver = None;
        }
        came
    }

    fn read_with_ring(&mut self, buffer: &mut [MaybeUninit<u8>], wanted: &Wanted) -> Option<Came> {
        let driver = self.driver.as_mut()?;
        let has_stragglers = driver.in_flight() > 0;
        if has_stragglers {
            self.state.is_back(wanted.arrival);
            for _ in 0..driver.backend().resume().ok()? {
                driver.step(Nanos::ZERO).ok()?;
            }
            self.state.has_caught_up();
            self.state.observe(&self.set.shared.known, true);
        }
        driver.backend().present(wanted.arrival);
        let id = RequestId(self.next << 3 | u64::from(wanted.order.primary().0));
        self.next += 1;
        let request = request(id, wanted, buffer.len() as u64);
        driver.reads().begin(request);
        let timer = driver.read(&request, wanted.order).ok()?;
        let mut rescue_at = wanted.rescue_at(Nanos::ZERO, self.set.rescues);
        let end = wanted.deadline.unwrap_or(Nanos::MAX);
        let is_complete = loop {
            if driver.reads().is_done {
                break true;
            }
            if driver.step(rescue_at.min(end)).ok()? == Step::Until {
                let now = driver.backend().clock();
                if now >= end {
                    break false;
                }
                driver.expire(timer).ok()?;
                rescue_at = wanted.rescue_at(now, self.set.rescues);
            }
        };
        driver.reads().current = None;
        let came = if is_complete {
            let counters = &self.set.shared.counters;
            Came::Read(take(driver.backend().data(), buffer, counters))
        } else {
            Came::Late
        };
        driver.backend().leave().ok()?;
        if driver.in_flight() > 0 {
            self.state.observe(&self.set.shared.known, false);
        }
        Some(came)
    }
}

impl Wanted {
    /// When another replica is asked whatever it costs, after `now`: at half of the time to the
    /// deadline, and then each time at half of what is left. `rescues`: also without a deadline.
    fn rescue_at(&self, now: Nanos, rescues: bool) -> Nanos {
        let begun = now.max(self.arrival);
        match self.deadline {
            Some(deadline) => begun + Nanos(deadline.since(begun).0 / 2).max(Nanos(1_000)),
            None => begun + if rescues { LONGEST_WAIT } else { NEVER },
        }
    }
}

fn request(id: RequestId, wanted: &Wanted, length: u64) -> Request {
    Request {
        id,
        device: DeviceId(0),
        arrival: wanted.arrival,
        op: Op::Read,
        offset: wanted.offset,
        length,
        flags: Flags::LATENCY_CRITICAL,
        deadline: wanted.deadline,
        issuer: Issuer::of_process(0),
    }
}

/// Copies the data to the application. They may be shorter than the replicas were when they were
/// opened, if all of them are now.
fn take(data: Data<'_>, into: &mut [MaybeUninit<u8>], counters: &Counters) -> io::Result<usize> {
    match data {
        Data::Bytes(bytes) => Ok(copy(bytes, into, counters)),
        Data::Failed(errno) => Err(io::Error::from_raw_os_error(errno)),
    }
}

/// What becomes of a thread's reads.
pub(crate) struct ThreadReads {
    shared: Arc<Shared>,
    /// The read that the application waits for.
    current: Option<Request>,
    is_done: bool,
    /// The replica of the request that ended last.
    last: Replica,
}

impl ThreadReads {
    const fn new(shared: Arc<Shared>) -> Self {
        Self { shared, current: None, is_done: false, last: Replica(0) }
    }

    const fn begin(&mut self, request: Request) {
        (self.current, self.is_done) = (Some(request), false);
    }
}

impl Reads for ThreadReads {
    /// Asked for when a replica is refused, which happens when a read arrives.
    fn request(&self, read: RequestId) -> Request {
        let current = self.current.filter(|current| current.id == read);
        current.expect("a read is refused when it arrives")
    }

    fn completed(&mut self, _: Nanos, read: RequestId, outcome: Outcome) {
        if self.current.is_none_or(|current| current.id != read) {
            return;
        }
        self.is_done = true;
        if outcome == Outcome::Done {
            count(&self.shared.counters.of(self.last).served);
        }
    }

    fn request_ended(&mut self, now: Nanos, end: &RequestEnd) {
        let Shared { known, counters, .. } = &*self.shared;
        self.last = end.replica;
        let health = &known.health[end.replica.index()];
        if end.outcome == Outcome::Done {
            health.has_answered();
        } else {
            count(&counters.of(end.replica).errors);
            health.has_failed(now);
        }
        let primary = Replica((end.read.0 & 7) as u8);
        let is_first = matches!(end.reason, Some(Reason::Chosen | Reason::Fast | Reason::LeastBad));
        let is_moved = is_first && end.replica != primary;
        if is_moved {
            count(&counters.moved);
        }
    }
}

fn watch_forks() {
    extern "C" fn in_child() {
        FORKS.fetch_add(1, Relaxed);
    }
    static WATCH: Once = Once::new();
    // SAFETY: the function only increments a number. If registration fails for lack of memory,
    // the kernel refuses reads of a child.
    WATCH.call_once(|| _ = unsafe { libc::pthread_atfork(None, None, Some(in_child)) });
}

/// Errors that are the caller's fault or of the moment, not the replica's.
pub(crate) fn is_of_replica(error: &io::Error) -> bool {
    let others = [Errno::INVAL, Errno::FAULT, Errno::NOMEM, Errno::OVERFLOW, Errno::FBIG];
    !Errno::from_io_error(error).is_some_and(|errno| others.contains(&errno))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rescues_halve_the_time_that_is_left() {
        let wanted = Wanted {
            offset: 0,
            order: Order::new(&[Replica(0), Replica(1)]),
            arrival: Nanos(1_000_000),
            deadline: Some(Nanos(9_000_000)),
        };
        let first = wanted.rescue_at(Nanos::ZERO, true);
        assert_eq!((first, wanted.rescue_at(first, true)), (Nanos(5_000_000), Nanos(7_000_000)));
        assert!(wanted.rescue_at(Nanos(9_000_000), true) > Nanos(9_000_000));
        let patient = Wanted { deadline: None, ..wanted };
        assert_eq!(patient.rescue_at(Nanos::ZERO, true), Nanos(101_000_000));
        assert!(patient.rescue_at(Nanos::ZERO, false) > Nanos::from_secs(60));
    }
}
