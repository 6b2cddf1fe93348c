//! The write buffer, and the path from it into the flash.
//!
//! Every written unit has a slot from when its data is in the controller until it is programmed;
//! the map points at the slot meanwhile, so reads find the data there. With a buffer, a write
//! completes when all its units have slots; without one, when they are programmed.
//!
//! A flush, once started, writes everything that was dirty at its start.

use std::collections::VecDeque;
use std::io;

use trimtab_io::{Flags, Nanos};

use super::clean::PlaneWork;
use super::ops::{Op, OpKind};
use super::save::damaged;
use super::{Ssd, Timer};
use crate::blocks::WriteStream;
use crate::layout::Layout;
use crate::map::Location;
use crate::profile::Profile;
use crate::slab::{NONE, Slab};
use crate::stats::LatencyBreakdown;
use crate::timer_queue::NEVER;

/// The buffer's state.
#[derive(Clone, Debug)]
pub(super) struct WriteBuffer {
    slots: Slab<Slot>,
    /// Its slots; 0: no buffer, and as many slots as needed.
    capacity: usize,
    /// Dirty slots that start a flush.
    mark: u32,
    /// Period of flushes; zero: none.
    period: Nanos,
    /// Dirty slots, linked in order.
    first: u32,
    last: u32,
    dirty: u32,
    /// Dirty slots that the current flush still has to write.
    to_flush: u32,
    /// Requests that wait for slots, in order.
    waiting: VecDeque<u32>,
    /// Writes between one flush request and the next; the last epoch is open.
    epochs: VecDeque<Epoch>,
    /// Number of the first epoch.
    first_epoch: u64,
    /// Planes in striping order, and the position of the next page.
    stripe: Box<[u32]>,
    turn: usize,
    /// Programs outstanding per die; 0: no limit.
    per_die: u32,
    parity: Option<Parity>,
}

/// The parity pages of the stripes over the channels.
///
/// No content is modelled, so neither is which pages a parity page covers: its space and its work
/// are. After every (channels − 1) pages of data one page of parity is written, to the plane whose
/// turn it is, at a position that moves by one channel from stripe to stripe. It takes the place of
/// the oldest parity page of the drive; there is one for each (channels − 1) pages of user
/// capacity. So a parity page lives for as long as the user takes to overwrite the drive, as does a
/// page of data on average, and cleaning moves it like data. It is mapped as a unit beyond the
/// user's capacity.
#[derive(Clone, Debug)]
struct Parity {
    channels: u32,
    /// The first unit, units per page, and pages.
    first: u32,
    units: u32,
    pages: u32,
    /// The next page of parity to write.
    next: u32,
    /// Stripes written, modulo the channels, and pages of the current one.
    stripe: u32,
    written: u32,
}

impl Parity {
    fn new(layout: &Layout) -> Self {
        let (first, units) = (layout.visible_units, layout.units_per_page);
        let pages = ((layout.user_units - first) / units).max(1);
        Self { channels: layout.channels, first, units, pages, next: 0, stripe: 0, written: 0 }
    }

    /// A page is about to be written: the units if it is parity.
    fn page(&mut self) -> Option<u32> {
        let is_parity = self.written == self.stripe;
        self.written += 1;
        if self.written == self.channels {
            self.written = 0;
            self.stripe = (self.stripe + 1) % self.channels;
        }
        if !is_parity {
            return None;
        }
        let unit = self.first + self.next * self.units;
        self.next = (self.next + 1) % self.pages;
        Some(unit)
    }
}

/// One unit in the controller's memory.
#[derive(Clone, Copy, Debug)]
struct Slot {
    user: u32,
    /// The request that waits until it is programmed, or [`NONE`].
    request: u32,
    epoch: u64,
    /// Whether it is still in the list of dirty slots.
    dirty: bool,
    next: u32,
}

#[derive(Clone, Debug, Default)]
struct Epoch {
    /// Slots not yet programmed.
    outstanding: u64,
    /// The flush request that closed it.
    flush: Option<u32>,
}

impl WriteBuffer {
    pub(super) fn new(profile: &Profile, layout: &Layout) -> Self {
        let buffer = &profile.buffer;
        let capacity = buffer.size_mb * 1e6 / f64::from(profile.ftl.unit_bytes);
        Self {
            slots: Slab::new(),
            capacity: capacity as usize,
            mark: ((capacity * buffer.flush_watermark) as u32).max(1),
            period: Nanos((buffer.flush_period_ms * 1e6) as u64),
            first: NONE,
            last: NONE,
            dirty: 0,
            to_flush: 0,
            waiting: VecDeque::new(),
            epochs: [Epoch::default()].into(),
            first_epoch: 0,
            stripe: layout.stripe(profile),
            turn: 0,
            per_die: buffer.writes_per_die,
            parity: profile.ftl.parity.then(|| Parity::new(layout)),
        }
    }

    /// The current striping position.
    pub(super) const fn turn(&self) -> usize {
        self.turn
    }

    pub(super) fn set_turn(&mut self, turn: u64) -> io::Result<()> {
        let turn = usize::try_from(turn).ok().filter(|&turn| turn < self.stripe.len());
        self.turn = turn.ok_or_else(|| damaged("names a plane that does not exist"))?;
        Ok(())
    }

    /// Takes the striping position of another drive with the same stripes.
    pub(super) fn take_turn(&mut self, other: &Self) {
        assert_eq!(self.stripe, other.stripe, "the drives have the same stripes");
        self.turn = other.turn;
    }

    /// Whether all planes have had equally many pages.
    pub(super) const fn is_at_start(&self) -> bool {
        self.turn == 0
    }

    /// Starts a new stripe: a saved drive does not say how far it is in the current one.
    pub(super) fn forget_stripe(&mut self) {
        if let Some(parity) = &mut self.parity {
            (parity.next, parity.stripe, parity.written) = (0, 0, 0);
        }
    }

    /// Slots that hold data.
    pub(super) const fn in_use(&self) -> usize {
        self.slots.len()
    }

    /// A page is about to be written: the first unit if it is parity.
    pub(super) fn parity_page(&mut self) -> Option<u32> {
        self.parity.as_mut()?.page()
    }

    /// The dirty share, 0 to 1.
    fn dirty_share(&self) -> f64 {
        f64::from(self.dirty) / self.capacity.max(1) as f64
    }

    const fn is_full(&self) -> bool {
        self.capacity > 0 && self.slots.len() >= self.capacity
    }

    fn push(&mut self, user: u32, request: u32) -> u32 {
        let epoch = self.first_epoch + self.epochs.len() as u64 - 1;
        self.epochs.back_mut().expect("one is always open").outstanding += 1;
        let slot = self.slots.insert(Slot { user, request, epoch, dirty: true, next: NONE });
        if self.first == NONE {
            self.first = slot;
        } else {
            self.slots[self.last].next = slot;
        }
        self.last = slot;
        self.dirty += 1;
        slot
    }

    /// Takes the oldest dirty slots, linked: at most `most`.
    fn pop(&mut self, most: u32) -> (u32, u32) {
        let head = self.first;
        let (mut count, mut last) = (0, NONE);
        while count < most && self.first != NONE {
            last = self.first;
            self.slots[last].dirty = false;
            self.first = self.slots[last].next;
            count += 1;
        }
        if last != NONE {
            self.slots[last].next = NONE;
        }
        self.dirty -= count;
        self.to_flush -= count.min(self.to_flush);
        (head, count)
    }
}

impl Ssd {
    /// Allocates slots for a request's units, or queues the request.
    pub(super) fn allocate_slots(&mut self, index: u32) {
        if self.buffer.waiting.is_empty() && self.fill_slots(index) {
            return;
        }
        self.buffer.waiting.push_back(index);
        self.flush_all();
    }

    /// Puts a request's units into slots; false if there are not enough.
    fn fill_slots(&mut self, index: u32) -> bool {
        let buffered = self.buffer.capacity > 0;
        // A write without a buffer waits for the flash.
        let through = !buffered || self.requests[index].flags.contains(Flags::FUA);
        while self.requests[index].units_left > 0 {
            let user = self.requests[index].next_unit;
            let rewritten = match self.map.location(user) {
                Location::Slot(slot) if !through && self.buffer.slots[slot].dirty => true,
                _ if self.buffer.is_full() => return false,
                _ => false,
            };
            let request = &mut self.requests[index];
            request.next_unit += 1;
            request.units_left -= 1;
            request.left += u32::from(through);
            if !rewritten {
                let slot = self.buffer.push(user, if through { index } else { NONE });
                self.map.set_slot(&self.layout, user, slot);
            }
            if let Location::Slot(slot) = self.map.location(user) {
                self.audit_write(user, slot);
            }
        }
        let request = &mut self.requests[index];
        request.buffer = self.now.since(request.since);
        if through || self.buffer.dirty >= self.buffer.mark && self.may_flush() {
            self.flush_all();
        } else {
            self.set_period();
            if self.rules.concerns.flushes && self.others.at(Timer::Policy as usize) == NEVER {
                self.ask_later();
            }
        }
        self.part_is_done(index, LatencyBreakdown::default());
        true
    }

    fn set_period(&mut self) {
        let buffer = &self.buffer;
        if buffer.period > Nanos::ZERO
            && buffer.dirty > 0
            && self.others.at(Timer::Flush as usize) == NEVER
        {
            let period = buffer.period.0;
            let next = Nanos((self.now.0 / period + 1) * period);
            self.set(Timer::Flush, next);
        }
    }

    pub(super) fn flush_period_is_over(&mut self) {
        self.set(Timer::Flush, NEVER);
        if self.may_flush() {
            self.flush_all();
        }
    }

    /// Whether the firmware lets the buffer be flushed. If not, it is asked again.
    fn may_flush(&mut self) -> bool {
        if !self.rules.concerns.flushes {
            return true;
        }
        let may = self.firmware.may_flush(self.now, self.buffer.dirty_share());
        if !may {
            self.ask_later();
        } else if self.is_outside_window() {
            self.stats.flushes_outside_window += 1;
        }
        may
    }

    /// Flushes what is dirty, where the firmware decides about that, and if it permits it now.
    pub(super) fn flush_deferred(&mut self) {
        if self.rules.concerns.flushes && self.buffer.dirty > 0 && self.may_flush() {
            self.flush_all();
        }
    }

    /// Starts to write everything dirty.
    pub(super) fn flush_all(&mut self) {
        self.buffer.to_flush = self.buffer.dirty;
        self.pump();
    }

    /// Gives dies the pages that are due, within their limits.
    pub(super) fn pump(&mut self) {
        while self.buffer.to_flush > 0
            && let Some(plane) = self.next_plane()
        {
            let page = self.blocks.take_page(&self.layout, plane, WriteStream::User);
            if let Some(user) = self.buffer.parity_page() {
                let units = self.layout.units_per_page;
                self.stats.parity_units += u64::from(units);
                self.enqueue(Op { page, user, units, ..Op::new(OpKind::Program, plane) });
                self.check_free_blocks(plane);
                continue;
            }
            let most = self.layout.units_per_page.min(self.buffer.to_flush);
            let (slots, _) = self.buffer.pop(most);
            // A page is programmed whole, even if partly filled.
            self.stats.units_programmed += u64::from(self.layout.units_per_page);
            let units = self.layout.units_per_page;
            self.enqueue(Op { page, slots, units, ..Op::new(OpKind::Program, plane) });
            self.check_free_blocks(plane);
        }
        if self.buffer.to_flush > 0 && self.cleaning.queued == 0 && self.blocks.free() == 0 {
            // No plane has a page. Cleaning found too little when blocks ran low; there may be more
            // by now.
            for plane in 0..self.layout.planes {
                self.want_cleaning(plane);
            }
        }
    }

    /// The plane of the next page: the next in striping order with a page available, whose die may
    /// take a program.
    pub(super) fn next_plane(&mut self) -> Option<u32> {
        if self.rules.concerns.write_around && self.cleaning.running > 0 {
            let elsewhere = self.next_plane_of(|plane| !plane.is_held());
            if elsewhere.is_some() {
                return elsewhere;
            }
        }
        self.next_plane_of(|_| true)
    }

    #[inline]
    fn next_plane_of(&mut self, fits: impl Fn(&PlaneWork) -> bool) -> Option<u32> {
        for _ in 0..self.buffer.stripe.len() {
            let plane = self.buffer.stripe[self.buffer.turn];
            self.buffer.turn += 1;
            if self.buffer.turn == self.buffer.stripe.len() {
                self.buffer.turn = 0;
            }
            let die = self.layout.die_of_plane(plane) as usize;
            let may = self.buffer.per_die == 0 || self.dies[die].programs < self.buffer.per_die;
            let may = may && fits(&self.planes[plane as usize]);
            if may && self.blocks.has_page(plane, WriteStream::User) {
                return Some(plane);
            }
        }
        None
    }

    /// Prefetches the map entries of these slots.
    pub(super) fn prefetch_slots(&self, mut slot: u32) {
        while slot != NONE {
            self.map.prefetch(self.buffer.slots[slot].user);
            slot = self.buffer.slots[slot].next;
        }
    }

    /// A page has been programmed.
    pub(super) fn finish_program(&mut self, index: u32) {
        let op = self.ops[index];
        let Op { page, plane, mut slots, .. } = op;
        self.ops.remove(index);
        self.blocks.programmed(&self.layout, page);
        self.dies[self.layout.die_of_plane(plane) as usize].programs -= 1;
        let mut unit = page * self.layout.units_per_page;
        if op.user != NONE {
            self.parity_is_programmed(op.user, unit);
        }
        while slots != NONE {
            let slot = self.buffer.slots[slots];
            self.audit_program(slots, unit);
            self.map.programmed(&self.layout, slot.user, Location::Slot(slots), unit);
            self.buffer.slots.remove(slots);
            self.buffer.epochs[(slot.epoch - self.buffer.first_epoch) as usize].outstanding -= 1;
            self.part_is_done(slot.request, op.breakdown());
            slots = slot.next;
            unit += 1;
        }
        self.answer_flushes();
        while let Some(&request) = self.buffer.waiting.front()
            && self.fill_slots(request)
        {
            self.buffer.waiting.pop_front();
        }
        if !self.buffer.waiting.is_empty() {
            self.buffer.to_flush = self.buffer.dirty;
        }
        self.pump();
    }

    fn parity_is_programmed(&mut self, user: u32, unit: u32) {
        for i in 0..self.layout.units_per_page {
            let before = self.map.location(user + i);
            self.audit_parity(user + i, unit + i);
            self.map.programmed(&self.layout, user + i, before, unit + i);
        }
    }

    /// A flush request: completes when everything written before it is programmed.
    pub(super) fn flush(&mut self, index: u32) {
        let open = self.buffer.epochs.back_mut().expect("one is always open");
        open.flush = Some(index);
        self.buffer.epochs.push_back(Epoch::default());
        self.flush_all();
        self.answer_flushes();
    }

    fn answer_flushes(&mut self) {
        while self.buffer.epochs.len() > 1 && self.buffer.epochs[0].outstanding == 0 {
            let epoch = self.buffer.epochs.pop_front().expect("there are two");
            self.buffer.first_epoch += 1;
            self.part_is_done(
                epoch.flush.expect("all but the last are closed"),
                LatencyBreakdown::default(),
            );
        }
    }
}
