//! mq-deadline: requests by offset, until one has waited too long.
//!
//! Each priority class has a list of reads and a list of writes, both sorted by offset and by age.
//! The scheduler serves batches: `fifo_batch` requests of one direction in ascending order of
//! offset. A batch of reads comes first, unless writes have been passed over `writes_starved`
//! times. A new batch begins where the last one of its direction ended, or with the oldest request
//! if that has expired.
//!
//! A class is served only while no request of a higher class waits *or is in the device*. A
//! request that has waited for `prio_aging_expire` is served before higher classes.
//!
//! Looking for such a request begins a new batch in the class that it looks at, and batches are
//! counted for all classes together. So while two classes have requests, a higher one's batch goes
//! on to the end of its sweep: until then expired requests and passed-over writes wait. Linux does
//! the same.
//!
//! Source: the kernel's documentation (Documentation/block/deadline-iosched.rst), and the order in
//! which a running kernel dispatches (docs/measurements/schedulers.md).

use serde::{Deserialize, Serialize};
use trimtab_io::{IoClass, Nanos, Op, Request, RequestId, within};

use super::Scheduler;
use super::queue::{Pool, SortedQueue};
use crate::error::Error;

/// Keys of [`MqDeadline`]; the defaults are Linux's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MqDeadlineOptions {
    /// How long a read waits at most before a batch begins with it, ms. 500 by default.
    pub read_expire_ms: u64,
    /// The same for a write, ms. 5,000 by default.
    pub write_expire_ms: u64,
    /// Requests of a batch. 16 by default; 1 makes every decision anew.
    pub fifo_batch: u32,
    /// How many batches of reads may pass over waiting writes. 2 by default.
    pub writes_starved: u32,
    /// How long a request waits at most for higher classes, ms. 10,000 by default.
    pub prio_aging_expire_ms: u64,
}

impl Default for MqDeadlineOptions {
    fn default() -> Self {
        Self {
            read_expire_ms: 500,
            write_expire_ms: 5_000,
            fifo_batch: 16,
            writes_starved: 2,
            prio_aging_expire_ms: 10_000,
        }
    }
}

impl MqDeadlineOptions {
    pub(super) fn check(&self) -> Result<(), Error> {
        const DAY_MS: u64 = 86_400_000;
        let wrong = |e: trimtab_io::OutOfRange| Error::Profile(e.to_string());
        within("read_expire_ms", self.read_expire_ms, 0..=DAY_MS).map_err(wrong)?;
        within("write_expire_ms", self.write_expire_ms, 0..=DAY_MS).map_err(wrong)?;
        within("prio_aging_expire_ms", self.prio_aging_expire_ms, 0..=DAY_MS).map_err(wrong)?;
        within("fifo_batch", self.fifo_batch, 1..=1 << 16).map_err(wrong)
    }
}

/// Reads or everything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Read = 0,
    Write = 1,
}

impl Direction {
    const fn of(request: &Request) -> Self {
        match request.op {
            Op::Read => Self::Read,
            Op::Write | Op::Discard | Op::Flush => Self::Write,
        }
    }
}

/// One priority class.
#[derive(Clone, Debug)]
struct Class {
    /// By [`Direction`].
    lists: [SortedQueue; 2],
    /// Offset of the last request dispatched in each direction, bytes.
    last: [u64; 2],
    /// Requests that wait or are in the device.
    pending: u32,
}

impl Class {
    const fn new() -> Self {
        Self { lists: [SortedQueue::new(), SortedQueue::new()], last: [0; 2], pending: 0 }
    }

    /// The next request in the order of offsets.
    fn next(&self, direction: Direction) -> Option<u32> {
        self.lists[direction as usize].at_or_after(self.last[direction as usize])
    }
}

/// Sorts by offset, with deadlines. See the [module](self).
#[derive(Clone, Debug)]
pub struct MqDeadline {
    fifo_batch: u32,
    writes_starved: u32,
    prio_aging_expire: Nanos,
    /// By [`Direction`].
    expire: [Nanos; 2],
    pool: Pool,
    /// From real-time to idle.
    classes: [Class; 3],
    /// The direction of the current batch, and the requests of it so far.
    direction: Direction,
    batching: u32,
    /// Batches of reads that have passed over waiting writes.
    starved: u32,
}

/// The queue's number in the pool: class and direction.
const fn queue_number(class: usize, direction: Direction) -> u32 {
    class as u32 * 2 + direction as u32
}

const fn class_of(request: &Request) -> usize {
    match request.issuer.class {
        IoClass::RealTime => 0,
        IoClass::BestEffort => 1,
        IoClass::Idle => 2,
    }
}

impl MqDeadline {
    /// An empty scheduler.
    #[must_use]
    pub const fn new(options: &MqDeadlineOptions) -> Self {
        Self {
            fifo_batch: options.fifo_batch,
            writes_starved: options.writes_starved,
            prio_aging_expire: Nanos::from_millis(options.prio_aging_expire_ms),
            expire: [
                Nanos::from_millis(options.read_expire_ms),
                Nanos::from_millis(options.write_expire_ms),
            ],
            pool: Pool::new(),
            classes: [const { Class::new() }; 3],
            direction: Direction::Read,
            batching: 0,
            starved: 0,
        }
    }

    /// The next request of a class, if it has waited for `age`.
    ///
    /// Turning to another direction has effect even if the request that was found is too young:
    /// the kernel decides in this order, so that waiting requests of a lower class end batches of
    /// a higher one.
    fn dispatch_class(&mut self, now: Nanos, class: usize, age: Nanos) -> Option<Request> {
        let (slot, direction) = match self.classes[class].next(self.direction) {
            Some(slot) if self.batching < self.fifo_batch => (slot, self.direction),
            _ => {
                let direction = self.choose_direction(class)?;
                let slot = self.start_of_batch(now, class, direction)?;
                (self.direction, self.batching) = (direction, 0);
                (slot, direction)
            }
        };
        if self.pool.get(slot).inserted + age > now {
            return None;
        }
        self.batching += 1;
        let class = &mut self.classes[class];
        let request = class.lists[direction as usize].take(&mut self.pool, slot);
        class.last[direction as usize] = request.offset;
        Some(request)
    }

    /// The direction of a class's next batch.
    fn choose_direction(&mut self, class: usize) -> Option<Direction> {
        let [reads, writes] = self.classes[class].lists.each_ref().map(|list| !list.is_empty());
        if reads {
            if !writes {
                return Some(Direction::Read);
            }
            let starved = self.starved;
            self.starved += 1;
            if starved < self.writes_starved {
                return Some(Direction::Read);
            }
        }
        if !writes {
            return None;
        }
        self.starved = 0;
        Some(Direction::Write)
    }

    /// The first request of a batch: the next by offset, or the oldest if that has expired or the
    /// end of the list was reached.
    fn start_of_batch(&self, now: Nanos, class: usize, direction: Direction) -> Option<u32> {
        let class = &self.classes[class];
        let oldest = class.lists[direction as usize].oldest()?;
        let expires = self.pool.get(oldest).inserted + self.expire[direction as usize];
        match class.next(direction) {
            Some(next) if now < expires => Some(next),
            _ => Some(oldest),
        }
    }

    /// A request that has waited too long for higher classes.
    fn dispatch_aged(&mut self, now: Nanos) -> Option<Request> {
        if self.classes.iter().filter(|class| class.pending > 0).count() < 2 {
            return None;
        }
        (1..self.classes.len())
            .find_map(|class| self.dispatch_class(now, class, self.prio_aging_expire))
    }
}

impl Scheduler for MqDeadline {
    fn insert(&mut self, now: Nanos, request: &Request) {
        let (class, direction) = (class_of(request), Direction::of(request));
        let slot = self.pool.insert(now, request, queue_number(class, direction));
        self.classes[class].pending += 1;
        self.classes[class].lists[direction as usize].push(&mut self.pool, slot);
    }

    fn dispatch(&mut self, now: Nanos, _: u32) -> Option<Request> {
        if let Some(aged) = self.dispatch_aged(now) {
            return Some(aged);
        }
        // Lower classes wait until the device has none of a higher class either.
        let highest = self.classes.iter().position(|class| class.pending > 0)?;
        self.dispatch_class(now, highest, Nanos::ZERO)
    }

    fn completed(&mut self, _: Nanos, request: &Request, _: Nanos) {
        let class = &mut self.classes[class_of(request)];
        class.pending = class.pending.saturating_sub(1);
    }

    fn next_timer(&self) -> Option<Nanos> {
        // The kernel sets none: a request that has aged is found at the next completion.
        None
    }

    fn len(&self) -> usize {
        self.pool.len()
    }

    fn remove(&mut self, id: RequestId) -> Option<Request> {
        let (slot, queue) = self.pool.find(id)?;
        let class = &mut self.classes[queue as usize / 2];
        class.pending -= 1;
        Some(class.lists[queue as usize % 2].take(&mut self.pool, slot))
    }
}
