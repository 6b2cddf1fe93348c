//! The mapping table: the location of each user unit, and which units of flash are valid.
//!
//! At most nine bytes per unit: four for its location, four for its owner, which cleaning needs,
//! and one validity bit. The system zeroes memory as it is touched, so an empty drive costs
//! nothing.

use std::io::{self, Read, Write};

use crate::layout::Layout;
use crate::memory::{Table, prefetch};
use crate::ssd::save::{damaged, get_all, put_all};

/// Location of a user unit's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Location {
    /// Never written, or discarded.
    Unmapped,
    /// A slot of the write buffer.
    Slot(u32),
    /// A unit of flash.
    Flash(u32),
}

/// Bit of a forward map entry: a buffer slot.
const SLOT: u32 = 1 << 31;

/// The mapping table, both ways.
#[derive(Clone, Debug)]
pub(crate) struct Map {
    /// By user unit: 0 for unmapped, [`SLOT`] | slot, or unit of flash + 1.
    forward: Table<u32>,
    /// By unit of flash: the user unit that was written there.
    owner: Table<u32>,
    /// By unit of flash: one bit.
    valid: Table<u64>,
    /// Valid units, by block.
    valid_in: Vec<u16>,
    /// Valid units of the whole drive.
    valid_total: u64,
}

impl Map {
    pub(crate) fn new(layout: &Layout) -> Self {
        Self {
            forward: Table::zeroes(layout.user_units as usize),
            owner: Table::zeroes(layout.units as usize),
            valid: Table::zeroes(layout.units.div_ceil(64) as usize),
            valid_in: vec![0; layout.blocks() as usize],
            valid_total: 0,
        }
    }

    /// Memory when fully used, without the per-block counters.
    pub(crate) fn bytes(layout: &Layout) -> u64 {
        4 * u64::from(layout.user_units) + 4 * u64::from(layout.units) + u64::from(layout.units) / 8
    }

    /// Prefetches the entry of a user unit.
    pub(crate) fn prefetch(&self, user: u32) {
        prefetch(&self.forward, user as usize);
    }

    /// Prefetches, through an entry that has arrived, the tables behind it.
    pub(crate) fn prefetch_unit(&self, user: u32) {
        if let Some(word) = self.forward.get(user as usize) {
            prefetch(&self.valid, (word & !SLOT) as usize / 64);
        }
    }

    /// Prefetches the owners of these units.
    pub(crate) fn prefetch_owners(&self, unit: u32) {
        prefetch(&self.owner, unit as usize);
    }

    pub(crate) fn location(&self, user: u32) -> Location {
        match self.forward[user as usize] {
            0 => Location::Unmapped,
            word if word & SLOT != 0 => Location::Slot(word & !SLOT),
            word => Location::Flash(word - 1),
        }
    }

    /// Maps a user unit to a buffer slot: its data in flash is stale.
    pub(crate) fn set_slot(&mut self, layout: &Layout, user: u32, slot: u32) {
        self.forget(layout, user);
        self.forward[user as usize] = SLOT | slot;
    }

    /// Unmaps a user unit.
    pub(crate) fn discard(&mut self, layout: &Layout, user: u32) {
        self.forget(layout, user);
        self.forward[user as usize] = 0;
    }

    /// The data from `before` has been programmed to `unit`. Maps the user unit there, unless it
    /// has newer data.
    pub(crate) fn programmed(&mut self, layout: &Layout, user: u32, before: Location, unit: u32) {
        if self.location(user) != before {
            return;
        }
        self.forget(layout, user);
        self.forward[user as usize] = unit + 1;
        self.owner[unit as usize] = user;
        self.valid[unit as usize / 64] |= 1 << (unit % 64);
        self.valid_in[layout.block_of_unit(unit) as usize] += 1;
        self.valid_total += 1;
    }

    fn forget(&mut self, layout: &Layout, user: u32) {
        if let Location::Flash(unit) = self.location(user) {
            self.valid[unit as usize / 64] &= !(1 << (unit % 64));
            self.valid_in[layout.block_of_unit(unit) as usize] -= 1;
            self.valid_total -= 1;
        }
    }

    /// The user unit last written to a unit of flash.
    pub(crate) fn owner(&self, unit: u32) -> u32 {
        self.owner[unit as usize]
    }

    /// The first valid unit of flash from `from` and before `end`.
    pub(crate) fn next_valid(&self, from: u32, end: u32) -> Option<u32> {
        let mut at = from;
        while at < end {
            let word = self.valid[at as usize / 64] >> (at % 64);
            if word != 0 {
                at += word.trailing_zeros();
                return (at < end).then_some(at);
            }
            at = (at | 63) + 1;
        }
        None
    }

    /// Valid units of flash from `from` and before `end`, which are in one page.
    pub(crate) fn count_valid(&self, from: u32, end: u32) -> u32 {
        let mut count = 0;
        let mut at = from;
        while let Some(unit) = self.next_valid(at, end) {
            count += 1;
            at = unit + 1;
        }
        count
    }

    pub(crate) fn save(&self, to: &mut impl Write) -> io::Result<()> {
        put_all(to, &self.forward)
    }

    /// Everything else follows from the forward map.
    pub(crate) fn load(&mut self, layout: &Layout, from: &mut impl Read) -> io::Result<()> {
        let mut forward: Table<u32> = Table::zeroes(self.forward.len());
        get_all(from, &mut forward)?;
        for (user, &word) in (0..).zip(forward.iter()) {
            if word == 0 {
                continue;
            }
            let unit = word - 1;
            if unit >= layout.units || self.next_valid(unit, unit + 1).is_some() {
                return Err(damaged("maps two units to one location, or one to none"));
            }
            self.programmed(layout, user, Location::Unmapped, unit);
        }
        Ok(())
    }

    /// Valid units of a block.
    pub(crate) fn valid_in(&self, block: u32) -> u16 {
        self.valid_in[block as usize]
    }

    /// Valid units, by block.
    pub(crate) fn valid_by_block(&self) -> &[u16] {
        &self.valid_in
    }

    /// Valid units of the whole drive.
    pub(crate) const fn valid_total(&self) -> u64 {
        self.valid_total
    }
}
