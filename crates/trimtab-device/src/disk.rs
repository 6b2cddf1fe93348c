//! A disk as a state machine: requests and time in, completions out.
//!
//! ```text
//!   submit ─> waiting ─> device queue ─┬─ buffer ───────────────────────────> bus ─> served
//!              (order    (`depth`)     └─ arm: seek ─> rotation ─> platter ──> bus ─> served
//!            of arrival)                        └─> reads ahead into the buffer
//! ```
//!
//! The arm serves one request at a time: seek, wait until the first sector is under the head,
//! transfer. The spindle's angle follows from the time alone, so the same request at another time
//! takes up to a revolution more or less. Which request is next is the queue's order
//! ([`Order`](profile::Order)). A read from the buffer takes no time of the arm.
//!
//! Sources: Ruemmler and Wilkes, "An introduction to disk drive modeling" (1994): seek curve,
//! rotation, zones, skew, read-ahead; Jacobson and Wilkes, "Disk scheduling algorithms based on
//! rotational position" (1991): the order by positioning time; MittOS, §4.9: SSTF in disks.
//!
//! Not modelled: defects and spare sectors, retries, thermal calibration, power states.

mod cache;
mod expected;
mod layout;
mod profile;
mod write_buffer;

use std::collections::VecDeque;

use trimtab_io::{Completion, DeviceId, Nanos, Op, Outcome, Request, mix64};

use crate::error::Error;
use crate::ssd::Served;
use crate::stats::LatencyBreakdown;
use crate::timer_queue::NEVER;

use cache::Cache;
use expected::Electronics;
use layout::{Layout, nanos};
use write_buffer::WriteBuffer;

pub use expected::DiskTiming;
pub use layout::DiskLocation;
pub use profile::{
    Cache as DiskCache, DiskProfile, Interface, Order, Platters, Queue as DiskQueue, Seek,
};

/// A request in the disk.
#[derive(Clone, Copy, Debug)]
struct InDisk {
    completion: Completion,
    op: Op,
    /// In sectors.
    first: u64,
    count: u64,
    length: u64,
    place: DiskLocation,
    /// When it entered the device's queue.
    entered: Nanos,
    /// When the arm may begin with it.
    ready: Nanos,
}

/// Counters of a disk since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskStats {
    /// Requests completed.
    pub completed: u64,
    /// Reads from the buffer.
    pub hits: u64,
    /// Reads by the arm.
    pub misses: u64,
    /// Writes that completed in the buffer.
    pub buffered_writes: u64,
    /// Extents written back from the buffer.
    pub written_back: u64,
    /// Requests that were served because they had waited for long.
    pub starved: u64,
    /// Time of the arm's seeks.
    pub seeking: Nanos,
    /// Time that it waited for the first sector.
    pub rotating: Nanos,
    /// Time of transfer from and to the platters.
    pub transferring: Nanos,
}

/// A disk.
///
/// ```
/// use trimtab_device::{Disk, DiskProfile};
/// use trimtab_io::{DeviceId, Nanos, Op, Request, RequestId};
///
/// let mut disk = Disk::new(&DiskProfile::builtin("disk-7200").unwrap(), DeviceId(0), 1);
/// let read = Request::new(RequestId(7), DeviceId(0), Nanos(1000), Op::Read, 4096, 4096);
/// disk.submit(Nanos(1000), &read)?;
/// while let Some(at) = disk.next_event() {
///     disk.advance(at);
/// }
/// let served = disk.served().next().unwrap();
/// // At most a revolution, beside electronics and transfer.
/// assert!(served.completion.service_time() < Nanos::from_millis(9));
/// # Ok::<(), trimtab_device::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Disk {
    device: DeviceId,
    layout: Layout,
    timing: Electronics,
    order: Order,
    depth: usize,
    /// [`NEVER`] without a bound.
    starvation: Nanos,
    read_on_arrival: bool,
    cache: Cache,
    buffer: WriteBuffer,
    now: Nanos,
    /// The spindle's angle at time zero, ns of a revolution.
    phase: u64,
    head: DiskLocation,
    /// When the arm is done with its last request.
    arm_free: Nanos,
    bus_free: Nanos,
    /// Where the last request ended, sector, and whether it was a read.
    last_end: u64,
    last_was_read: bool,
    /// Outside the device's queue.
    waiting: VecDeque<Request>,
    /// Waiting for the arm, in order of arrival.
    queue: Vec<InDisk>,
    /// With their time of completion, the latest first.
    completing: Vec<InDisk>,
    /// Flushes that wait for the buffer.
    flushes: Vec<InDisk>,
    /// When the arm begins its next request.
    next_choice: Nanos,
    stats: DiskStats,
    served: Vec<Served>,
}

impl Disk {
    /// A disk at rest over its first cylinder. The seed determines the spindle's angle.
    #[must_use]
    pub fn new(profile: &DiskProfile, device: DeviceId, seed: u64) -> Self {
        let layout = Layout::new(profile);
        Self {
            device,
            timing: Electronics::new(profile),
            order: profile.queue.order,
            depth: profile.queue.depth as usize,
            starvation: starvation(profile),
            read_on_arrival: profile.cache.read_on_arrival,
            cache: Cache::new(&profile.cache, layout.sector_bytes, layout.sectors),
            buffer: WriteBuffer::new(profile, layout.sector_bytes),
            now: Nanos::ZERO,
            phase: mix64(seed) % layout.period,
            head: layout.locate(0),
            arm_free: Nanos::ZERO,
            bus_free: Nanos::ZERO,
            last_end: 0,
            last_was_read: false,
            waiting: VecDeque::new(),
            queue: Vec::with_capacity(profile.queue.depth as usize),
            completing: Vec::with_capacity(profile.queue.depth as usize),
            flushes: Vec::new(),
            next_choice: NEVER,
            stats: DiskStats::default(),
            served: Vec::new(),
            layout,
        }
    }

    /// Changes the queue (`queue.*`) to this profile's. Requests in the device stay there.
    ///
    /// # Errors
    /// The profile differs from `before`, the disk's, in other keys too.
    pub fn retune(&mut self, profile: &DiskProfile, before: &DiskProfile) -> Result<(), Error> {
        let like_before = DiskProfile { queue: before.queue.clone(), ..profile.clone() };
        if like_before != *before {
            return Error::profile("only the queue.* keys of a disk can change live");
        }
        self.order = profile.queue.order;
        self.depth = profile.queue.depth as usize;
        self.starvation = starvation(profile);
        Ok(())
    }

    /// User capacity, bytes.
    #[must_use]
    pub const fn capacity(&self) -> u64 {
        self.layout.sectors * self.layout.sector_bytes
    }

    /// The disk's time.
    #[must_use]
    pub const fn now(&self) -> Nanos {
        self.now
    }

    /// Counters. For analysis; predictors must not use them.
    #[must_use]
    pub const fn stats(&self) -> DiskStats {
        self.stats
    }

    /// Requests in flight.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.waiting.len() + self.in_device()
    }

    fn in_device(&self) -> usize {
        self.queue.len() + self.completing.len() + self.flushes.len()
    }

    /// Where the arm is, or will be when it is done with its request. For analysis.
    #[must_use]
    pub const fn head(&self) -> DiskLocation {
        self.head
    }

    /// The spindle's angle at time zero, ns of a revolution. For analysis.
    #[must_use]
    pub const fn phase(&self) -> Nanos {
        Nanos(self.phase)
    }

    /// Sets the spindle's angle at time zero, ns of a revolution: of a model that follows a real
    /// disk.
    pub const fn set_phase(&mut self, phase: Nanos) {
        self.phase = phase.0 % self.layout.period;
    }

    /// Whether the buffer has these bytes of a read, or is about to receive them. For models that
    /// follow a disk.
    #[must_use]
    pub fn is_buffered(&self, offset: u64, length: u64) -> bool {
        let sector = self.layout.sector_bytes;
        let (first, end) = (offset / sector, (offset + length).div_ceil(sector));
        self.buffer.holds(first, end) || self.cache.holds(first, end)
    }

    /// Where the arm is if nothing comes until `now`: where it was last, or further on if it reads
    /// ahead. For models that follow a disk.
    #[must_use]
    pub fn arm(&self, now: Nanos) -> DiskLocation {
        self.cache
            .reading(now)
            .map_or(self.head, |sector| self.layout.locate(sector.min(self.layout.sectors - 1)))
    }

    /// The time of the next event, unless a request is submitted before.
    #[must_use]
    pub fn next_event(&self) -> Option<Nanos> {
        let at = self.next_completion().min(self.next_choice);
        (at != NEVER).then_some(at)
    }

    fn next_completion(&self) -> Nanos {
        self.completing.last().map_or(NEVER, |next| next.completion.complete)
    }

    /// Takes the requests completed since the last call.
    pub fn served(&mut self) -> std::vec::Drain<'_, Served> {
        self.served.drain(..)
    }

    /// Like `served`, without moving them: calls `take` for each in place.
    #[inline]
    pub fn drain(&mut self, take: impl FnMut(&Served)) {
        self.served.iter().for_each(take);
        self.served.clear();
    }

    /// Advances time through all events up to and including `until`.
    pub fn advance(&mut self, until: Nanos) {
        while self.step(until) {}
        self.now = self.now.max(until);
    }

    /// Advances time until a request completes, or up to and including `until`; returns the time
    /// reached. Without an event before a distant `until`, time does not advance.
    pub fn advance_to_answer(&mut self, until: Nanos) -> Nanos {
        while self.served.is_empty() && self.step(until) {}
        if self.served.is_empty() && until != NEVER {
            self.now = self.now.max(until);
        }
        self.now
    }

    /// Submits a request at time `now`. All events up to then happen first.
    ///
    /// # Errors
    /// The request reaches beyond the disk's end, or `now` is in the past. The request is not
    /// accepted.
    pub fn submit(&mut self, now: Nanos, request: &Request) -> Result<(), Error> {
        self.submit_waited(now, now, request)
    }

    /// The same of a request that the disk has had since `entered`, so that its command takes no
    /// time any more. For models that follow a disk, and learn in which order it serves requests
    /// when it has.
    ///
    /// # Errors
    /// As [`submit`](Self::submit).
    pub fn submit_waited(
        &mut self,
        now: Nanos,
        entered: Nanos,
        request: &Request,
    ) -> Result<(), Error> {
        if now < self.now {
            return Err(Error::TimeRunsBack { now, before: self.now });
        }
        let capacity = self.capacity();
        if (request.offset | request.length) >> 63 != 0 || request.end() > capacity {
            let (offset, length) = (request.offset, request.length);
            return Err(Error::BeyondEnd { offset, length, capacity });
        }
        self.advance(now);
        if self.in_device() < self.depth && self.waiting.is_empty() {
            self.enter(&Request { arrival: now, ..*request }, (entered, now));
            self.plan();
        } else {
            // Its issue is now, wherever it waits.
            self.waiting.push_back(Request { arrival: now, ..*request });
        }
        Ok(())
    }

    /// Processes the next event, unless it is after `until`.
    fn step(&mut self, until: Nanos) -> bool {
        let completion = self.next_completion();
        let at = completion.min(self.next_choice);
        if at > until || at == NEVER {
            return false;
        }
        self.now = at;
        if completion <= self.next_choice {
            let done = self.completing.pop().expect("one completes");
            self.stats.completed += 1;
            let breakdown = LatencyBreakdown::default();
            self.served.push(Served { completion: done.completion, breakdown });
        } else {
            self.choose();
        }
        while self.in_device() < self.depth {
            let Some(next) = self.waiting.pop_front() else { break };
            self.enter(&next, (at, at));
        }
        self.plan();
        true
    }

    /// Takes a request into the device's queue, or serves it from the buffer. Its arrival is when it
    /// was submitted.
    fn enter(&mut self, request: &Request, (entered, now): (Nanos, Nanos)) {
        let sector = self.layout.sector_bytes;
        let first = (request.offset / sector).min(self.layout.sectors - 1);
        let count = (request.end().div_ceil(sector) - first).max(1);
        let mut entry = InDisk {
            completion: Completion {
                request: request.id,
                device: self.device,
                issue: request.arrival,
                complete: NEVER,
                outcome: Outcome::Done,
            },
            op: request.op,
            first,
            count,
            length: request.length,
            place: self.layout.locate(first),
            entered,
            ready: entered + self.timing.command,
        };
        match request.op {
            Op::Read if self.read_from_buffer(&mut entry, now) => {}
            Op::Write if self.write_to_buffer(&mut entry, now) => {}
            Op::Read => self.queue.push(entry),
            Op::Write => {
                // Data crosses the bus before the arm moves.
                entry.ready += self.timing.bus(entry.length);
                self.queue.push(entry);
            }
            Op::Discard => self.complete(entry, now + self.timing.command),
            Op::Flush if self.buffer.is_empty() => {
                self.complete(entry, now + self.timing.command);
            }
            Op::Flush => self.flushes.push(entry),
        }
        if matches!(request.op, Op::Read | Op::Write) {
            self.last_end = first + count;
            self.last_was_read = request.op == Op::Read;
        }
    }

    /// Completes a read whose data the buffer holds or is about to receive.
    fn read_from_buffer(&mut self, entry: &mut InDisk, now: Nanos) -> bool {
        let end = entry.first + entry.count;
        let ready = match self.buffer.holds(entry.first, end) {
            true => now,
            false => match self.cache.read(entry.first, end, now) {
                Some(ready) => ready,
                None => return false,
            },
        };
        let overhead =
            if entry.first == self.last_end { self.timing.sequential_hit } else { self.timing.hit };
        self.stats.hits += 1;
        self.over_the_bus(*entry, ready.max(now + overhead));
        true
    }

    /// Completes a write for which the buffer has room.
    fn write_to_buffer(&mut self, entry: &mut InDisk, now: Nanos) -> bool {
        let end = entry.first + entry.count;
        if !self.buffer.add(entry.first, end, now) {
            return false;
        }
        self.cache.write(entry.first, end, now);
        let near = entry.first.abs_diff(self.last_end) <= self.cache.segment();
        let overhead = match (near, self.last_was_read) {
            (false, _) => self.timing.distant_write,
            (true, true) => self.timing.write_after_read,
            (true, false) => self.timing.write,
        };
        self.stats.buffered_writes += 1;
        self.over_the_bus(*entry, now + overhead);
        true
    }

    /// Completes a request after its transfer, which begins when the bus is free.
    fn over_the_bus(&mut self, entry: InDisk, at: Nanos) {
        self.bus_free = at.max(self.bus_free) + self.timing.bus(entry.length);
        self.complete(entry, self.bus_free);
    }

    fn complete(&mut self, mut entry: InDisk, at: Nanos) {
        entry.completion.complete = at;
        let after = self.completing.partition_point(|other| other.completion.complete > at);
        self.completing.insert(after, entry);
    }

    /// Sets when the arm begins its next request.
    fn plan(&mut self) {
        let ready = self.queue.iter().map(|entry| entry.ready).min();
        let next = ready.or_else(|| self.buffer.due(!self.flushes.is_empty()));
        self.next_choice = next.map_or(NEVER, |at| at.max(self.arm_free).max(self.now));
    }

    /// The arm is free: serves the next request, or writes back.
    fn choose(&mut self) {
        if let Some(i) = self.next_in_queue() {
            let mut entry = self.queue.remove(i);
            // Another request's read-ahead may have brought it.
            if entry.op == Op::Read && self.read_from_buffer(&mut entry, self.now) {
                return;
            }
            return self.serve(entry);
        }
        let near = self.head_sector();
        let Some((first, end)) = self.buffer.take(near) else { return };
        self.stop_reading_ahead();
        self.arm_writes(first, end - first);
        self.stats.written_back += 1;
        if self.buffer.is_empty() {
            for flush in std::mem::take(&mut self.flushes) {
                self.complete(flush, self.arm_free);
            }
        }
    }

    /// A sector near the arm.
    fn head_sector(&self) -> u64 {
        self.layout.first_of(self.head.cylinder)
    }

    /// The index of the next request, of those that are ready.
    fn next_in_queue(&mut self) -> Option<usize> {
        let now = self.now;
        let oldest = self.queue.first()?;
        let waited = now.since(oldest.entered);
        if oldest.ready <= now && (waited >= self.starvation || self.order == Order::Fifo) {
            self.stats.starved += u64::from(waited >= self.starvation);
            return Some(0);
        }
        let cost = |entry: &InDisk| match self.order {
            // Ready in order of arrival, but for data on the bus.
            Order::Fifo => 0,
            Order::Sstf => u64::from(entry.place.cylinder.abs_diff(self.head.cylinder)),
            Order::Ncq => self.positioning(entry),
        };
        let ready = self.queue.iter().enumerate().filter(|(_, entry)| entry.ready <= now);
        ready.min_by_key(|(_, entry)| cost(entry)).map(|(i, _)| i)
    }

    /// Time until the head is at a request's first sector, ns.
    fn positioning(&self, entry: &InDisk) -> u64 {
        let mut seek = self.layout.movement(self.head, entry.place);
        if entry.op == Op::Write {
            seek += self.timing.write_settle;
        }
        seek + self.layout.rotation(entry.place, self.now + Nanos(seek), self.phase)
    }

    /// Moves the arm to a request and transfers its data.
    fn serve(&mut self, entry: InDisk) {
        self.stop_reading_ahead();
        let end = entry.first + entry.count;
        if entry.op == Op::Write {
            self.cache.drop_range(entry.first, end);
            self.arm_writes(entry.first, entry.count);
            self.complete(entry, self.arm_free);
            return;
        }
        let seek = Nanos(self.layout.movement(self.head, entry.place));
        let on_track = self.now + seek;
        let passage = self.layout.passage(entry.first, entry.count, on_track, self.phase);
        self.move_arm(seek, on_track, &passage);
        self.stats.misses += 1;
        let sector = Nanos(self.layout.sector_time(entry.place));
        let bus = self.timing.bus(entry.length);
        // Transfer to the host follows the platter by a sector.
        let begun = (passage.first + sector).max(self.bus_free);
        let last = passage.end + self.timing.bus(self.layout.sector_bytes.min(entry.length));
        self.bus_free = (begun + bus).max(last);
        self.complete(entry, self.bus_free);
        let mean = self.layout.mean_sector_time(entry.place);
        let mut first = entry.first;
        if self.read_on_arrival {
            let passed = passage.first.since(on_track).0 / sector.0.max(1);
            first -= passed.min(u64::from(entry.place.sector));
        }
        self.cache.fill((first, entry.first, end), passage.end, mean);
    }

    /// Writes to the platters.
    fn arm_writes(&mut self, first: u64, count: u64) {
        let place = self.layout.locate(first);
        let seek = Nanos(self.layout.movement(self.head, place) + self.timing.write_settle);
        let on_track = self.now + seek;
        let passage = self.layout.passage(first, count, on_track, self.phase);
        self.move_arm(seek, on_track, &passage);
    }

    fn move_arm(&mut self, seek: Nanos, on_track: Nanos, passage: &layout::Passage) {
        self.stats.seeking += seek;
        self.stats.rotating += passage.first.since(on_track);
        self.stats.transferring += passage.end.since(passage.first);
        self.head = passage.last;
        self.arm_free = passage.end;
    }

    /// The arm leaves what it is reading ahead.
    fn stop_reading_ahead(&mut self) {
        if let Some(at) = self.cache.stop(self.now) {
            self.head = self.layout.locate(at.min(self.layout.sectors - 1));
        }
    }
}

/// How long a request may wait in the device; [`NEVER`] without a bound.
fn starvation(profile: &DiskProfile) -> Nanos {
    match profile.queue.starvation_ms {
        0.0 => NEVER,
        ms => Nanos(nanos(ms * 1e3)),
    }
}
