//! What a host that manages the flash knows: where data is, and what each die works on.
//!
//! An open-channel drive leaves mapping, cleaning and wear levelling to the host (MittOS, §4.2.3).
//! This model has the same work to do and does it inside; opened, it tells what a host would have
//! done itself. White-box: for predictors of host-managed flash, never for black-box predictors.

use std::sync::Arc;

use trimtab_io::{CleaningWork, FlashChange, FlashEvent, FlashMap, FlashOp, Op as Verb};

use super::Ssd;
use super::ops::OpKind;
use crate::blocks::WriteStream;
use crate::layout::Layout;
use crate::map::{Location, Map};
use crate::slab::NONE;

/// What is told, if anything is. A copy of a drive tells nothing.
#[derive(Debug, Default)]
pub(super) struct OpenChannel(Option<Box<Told>>);

#[derive(Debug)]
struct Told {
    map: Arc<FlashMap>,
    events: Vec<FlashEvent>,
}

impl Clone for OpenChannel {
    fn clone(&self) -> Self {
        Self(None)
    }
}

impl OpenChannel {
    #[inline]
    pub(super) const fn is_on(&self) -> bool {
        self.0.is_some()
    }
}

impl Ssd {
    /// From now on keeps a mapping table as the host of an open-channel drive has it, and a list
    /// of [internal operations](Self::take_flash_events). White-box. Copies of the drive do not.
    pub fn open_channel(&mut self) -> Arc<FlashMap> {
        let layout = &self.layout;
        let map = Arc::new(FlashMap::new(layout.visible_units as usize, layout.unit_bytes));
        for user in 0..layout.visible_units {
            map.set(user, in_flash(&self.map, user));
        }
        self.open_channel =
            OpenChannel(Some(Box::new(Told { map: Arc::clone(&map), events: Vec::new() })));
        map
    }

    /// Whether it tells its internal operations.
    #[must_use]
    pub const fn is_open_channel(&self) -> bool {
        self.open_channel.is_on()
    }

    /// Takes the internal operations since the last call, in order of time. Empty unless the
    /// drive was [opened](Self::open_channel). White-box.
    pub fn take_flash_events(&mut self, take: impl FnMut(FlashEvent)) {
        if let Some(told) = &mut self.open_channel.0 {
            told.events.drain(..).for_each(take);
        }
    }

    /// A user unit may be elsewhere.
    #[inline]
    pub(super) fn tell_location(&self, user: u32) {
        if let Some(told) = &self.open_channel.0 {
            told.map.set(user, in_flash(&self.map, user));
        }
    }

    pub(super) fn tell(&mut self, die: u32, change: FlashChange) {
        let at = self.now;
        if let Some(told) = &mut self.open_channel.0 {
            told.events.push(FlashEvent { at, die, change });
        }
    }

    /// An operation is in its die's queue.
    #[inline]
    pub(super) fn tell_queued(&mut self, die: u32, op: u32) {
        if self.open_channel.is_on() && !self.is_of_host_read(op) {
            let op = self.flash_op(op);
            self.tell(die, FlashChange::Queued(op));
        }
    }

    /// Whether it is a read of what the host asked for, where that lay when it asked.
    fn is_of_host_read(&self, op: u32) -> bool {
        let op = &self.ops[op];
        op.kind == OpKind::Read
            && op.request != NONE
            && self.requests[op.request].verb() == Verb::Read
            && !op.again
    }

    /// A die begins with an operation.
    #[inline]
    pub(super) fn tell_begun(&mut self, die: u32, op: u32) {
        if self.open_channel.is_on() {
            let op = self.flash_op(op);
            self.tell(die, FlashChange::Begun(op));
        }
    }

    /// A die has done what it worked on, or what it was given needs no work.
    #[inline]
    pub(super) fn tell_ended(&mut self, die: u32) {
        if self.open_channel.is_on() {
            let idle = !self.has(die, |_| true);
            self.tell(die, FlashChange::Ended { idle });
        }
    }

    fn flash_op(&self, op: u32) -> FlashOp {
        let op = &self.ops[op];
        match op.kind {
            OpKind::Program => FlashOp::Program { page: self.layout.page_in_block(op.page) },
            OpKind::Clean => FlashOp::Clean(self.cleaning_to_come(op.plane)),
            OpKind::Read | OpKind::Lookup | OpKind::Sibling => {
                FlashOp::Read { bytes: self.layout.bytes(op.units) as u32 }
            }
        }
    }

    /// A cleaning that has not begun, if it takes the block with the fewest valid units.
    fn cleaning_to_come(&self, plane: u32) -> CleaningWork {
        let candidates = self.blocks.candidates(&self.layout, &self.map, plane);
        let units = self.layout.units_per_block;
        candidates.fewest_valid().map_or_else(CleaningWork::default, |block| {
            self.cleaning_work(plane, block * units, (block + 1) * units, 0)
        })
    }

    /// A cleaning in progress begins with its next step.
    #[inline]
    pub(super) fn tell_cleaning(&mut self, plane: u32) {
        if self.open_channel.is_on() {
            let job = &self.planes[plane as usize].job;
            let work = self.cleaning_work(plane, job.next, job.end, job.staged.len() as u32);
            let die = self.layout.die_of_plane(plane);
            self.tell(die, FlashChange::Begun(FlashOp::Clean(work)));
        }
    }

    /// A cleaning that was queued finds nothing to clean, or may not.
    pub(super) fn tell_none_to_clean(&mut self, plane: u32) {
        if self.open_channel.is_on() {
            let die = self.layout.die_of_plane(plane);
            let none = FlashOp::Clean(CleaningWork::default());
            self.tell(die, FlashChange::Begun(none));
            self.tell_ended(die);
        }
    }

    /// What cleaning these units takes, with `staged` units read before.
    fn cleaning_work(&self, plane: u32, from: u32, end: u32, staged: u32) -> CleaningWork {
        let (mut reads, mut units) = (0, 0);
        let mut at = from;
        while let Some(unit) = self.map.next_valid(at, end) {
            at = next_page(&self.layout, unit);
            reads += 1;
            units += self.map.count_valid(unit, at);
        }
        CleaningWork {
            reads,
            bytes: self.layout.bytes(units),
            programs: (staged + units).div_ceil(self.layout.units_per_page),
            first_page: self
                .blocks
                .open_page(plane, WriteStream::Cleaning)
                .map_or(0, |page| self.layout.page_in_block(page)),
        }
    }

    /// A stall begins, goes on, or has ended.
    pub(super) fn tell_stall(&mut self) {
        if self.open_channel.is_on() {
            let change = match self.cleaning.stalled() {
                true => FlashChange::Stalled { left: self.stall_left() },
                false => FlashChange::Admitted,
            };
            self.tell(0, change);
        }
    }
}

fn in_flash(map: &Map, user: u32) -> Option<u32> {
    match map.location(user) {
        Location::Flash(unit) => Some(unit),
        Location::Slot(_) | Location::Unmapped => None,
    }
}

/// The first unit of the page after this unit's.
const fn next_page(layout: &Layout, unit: u32) -> u32 {
    (layout.page_of_unit(unit) + 1) * layout.units_per_page
}
