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
use super::region::{Parity, Region};
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
    /// Dirty slots.
    dirty: u32,
    /// By LBA range that is kept apart.
    regions: Box<[Region]>,
    /// Requests that wait for slots, in order.
    waiting: VecDeque<u32>,
    /// Writes between one flush request and the next; the last epoch is open.
    epochs: VecDeque<Epoch>,
    /// Number of the first epoch.
    first_epoch: u64,
    /// Programs outstanding per die; 0: no limit.
    per_die: u32,
    parity: Option<Parity>,
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
            dirty: 0,
            regions: (0..layout.ranges).map(|range| Region::new(profile, layout, range)).collect(),
            waiting: VecDeque::new(),
            epochs: [Epoch::default()].into(),
            first_epoch: 0,
            per_die: buffer.writes_per_die,
            parity: profile.ftl.parity.then(|| Parity::new(layout)),
        }
    }

    /// The current striping position, of the first region.
    pub(super) const fn turn(&self) -> usize {
        self.regions[0].turn
    }

    pub(super) fn set_turn(&mut self, turn: u64) -> io::Result<()> {
        let region = &mut self.regions[0];
        let turn = usize::try_from(turn).ok().filter(|&turn| turn < region.stripe.len());
        region.turn = turn.ok_or_else(|| damaged("names a plane that does not exist"))?;
        Ok(())
    }

    /// Takes the striping positions of another drive with the same stripes.
    pub(super) fn take_turn(&mut self, other: &Self) {
        for (region, other) in self.regions.iter_mut().zip(&other.regions) {
            assert_eq!(region.stripe, other.stripe, "the drives have the same stripes");
            region.turn = other.turn;
        }
    }

    /// Whether all planes have had equally many pages.
    pub(super) fn is_at_start(&self) -> bool {
        self.regions.iter().all(|region| region.turn == 0)
    }

    /// Starts new stripes: a saved drive says only how far the first region is in the current one.
    pub(super) fn forget_stripe(&mut self) {
        self.regions.iter_mut().skip(1).for_each(|region| region.turn = 0);
        if let Some(parity) = &mut self.parity {
            parity.forget();
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

    fn push(&mut self, user: u32, request: u32, range: u32) -> u32 {
        let epoch = self.first_epoch + self.epochs.len() as u64 - 1;
        self.epochs.back_mut().expect("one is always open").outstanding += 1;
        let slot = self.slots.insert(Slot { user, request, epoch, dirty: true, next: NONE });
        let region = &mut self.regions[range as usize];
        if region.first == NONE {
            region.first = slot;
        } else {
            self.slots[region.last].next = slot;
        }
        region.last = slot;
        region.dirty += 1;
        self.dirty += 1;
        slot
    }

    /// Takes the oldest dirty slots of a region, linked: at most `most`.
    fn pop(&mut self, range: u32, most: u32) -> u32 {
        let region = &mut self.regions[range as usize];
        let head = region.first;
        let (mut count, mut last) = (0, NONE);
        while count < most && region.first != NONE {
            last = region.first;
            self.slots[last].dirty = false;
            region.first = self.slots[last].next;
            count += 1;
        }
        if last != NONE {
            self.slots[last].next = NONE;
        }
        region.dirty -= count;
        region.to_flush -= count.min(region.to_flush);
        self.dirty -= count;
        head
    }

    /// A flush is to write what is dirty now.
    fn mark_dirty(&mut self) {
        for region in &mut self.regions {
            region.to_flush = region.dirty;
        }
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
                let range = self.layout.range_of_user(user);
                let slot = self.buffer.push(user, if through { index } else { NONE }, range);
                self.map.set_slot(&self.layout, user, slot);
                self.tell_location(user);
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
        } else if self.firmware.is_outside_window(self.now, 0) {
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
        self.buffer.mark_dirty();
        self.pump();
    }

    /// Gives dies the pages that are due, within their limits.
    pub(super) fn pump(&mut self) {
        let mut waiting = false;
        for range in 0..self.layout.ranges {
            self.pump_region(range);
            waiting |= self.buffer.regions[range as usize].to_flush > 0;
        }
        let no_pages = self.blocks.free() == 0 || self.layout.ranges > 1;
        if waiting && self.cleaning.queued == 0 && no_pages {
            // No plane has a page. Cleaning found too little when blocks ran low; there may be more
            // by now.
            let erases = self.stats.erases;
            for plane in 0..self.layout.planes {
                self.want_cleaning(plane);
            }
            if self.stats.erases > erases {
                // Cleaning takes no time.
                self.pump();
            }
        }
    }

    fn pump_region(&mut self, range: u32) {
        while self.buffer.regions[range as usize].to_flush > 0
            && let Some(plane) = self.next_plane(range)
        {
            let page = self.blocks.take_page(&self.layout, plane, WriteStream::User);
            if let Some(user) = self.buffer.parity_page() {
                let units = self.layout.units_per_page;
                self.stats.parity_units += u64::from(units);
                self.enqueue(Op { page, user, units, ..Op::new(OpKind::Program, plane) });
                self.check_free_blocks(plane);
                continue;
            }
            let units = self.layout.units_per_page;
            let most = units.min(self.buffer.regions[range as usize].to_flush);
            let slots = self.buffer.pop(range, most);
            // A page is programmed whole, even if partly filled.
            self.stats.units_programmed += u64::from(units);
            self.enqueue(Op { page, slots, units, ..Op::new(OpKind::Program, plane) });
            self.check_free_blocks(plane);
        }
    }

    /// The plane of a region's next page: the next in striping order with a page available, whose
    /// die may take a program.
    pub(super) fn next_plane(&mut self, range: u32) -> Option<u32> {
        if self.rules.concerns.write_around && self.cleaning.running > 0 {
            let elsewhere = self.next_plane_of(range, |plane| !plane.is_held());
            if elsewhere.is_some() {
                return elsewhere;
            }
        }
        self.next_plane_of(range, |_| true)
    }

    #[inline]
    fn next_plane_of(&mut self, range: u32, fits: impl Fn(&PlaneWork) -> bool) -> Option<u32> {
        let region = &mut self.buffer.regions[range as usize];
        for _ in 0..region.stripe.len() {
            let plane = region.stripe[region.turn];
            region.turn += 1;
            if region.turn == region.stripe.len() {
                region.turn = 0;
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
            self.tell_location(slot.user);
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
            self.buffer.mark_dirty();
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
