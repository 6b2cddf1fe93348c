//! Which user unit is where, and which units of flash still hold something.
//!
//! Nine bytes for each unit at most: four to find it, four to find its owner
//! when its block is cleaned, one bit for whether it is still valid. Memory is
//! zeroed by the system as it is touched, so an empty drive costs nothing.

use std::io::{self, Read, Write};

use crate::layout::Layout;
use crate::memory::{expect, zeroes};
use crate::ssd::save::{damaged, get_all, put_all};

/// Where a user unit's data is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// It was never written, or has been discarded.
    Nowhere,
    /// In this slot of the write buffer.
    Slot(u32),
    /// In this unit of flash.
    Flash(u32),
}

/// In a word of the forward map: it is a buffer slot.
const SLOT: u32 = 1 << 31;

/// The mapping table, both ways.
#[derive(Clone, Debug)]
pub(crate) struct Map {
    /// By user unit: 0 nowhere, [`SLOT`] | slot, or unit of flash + 1.
    forward: Vec<u32>,
    /// By unit of flash: the user unit that was written there.
    owner: Vec<u32>,
    /// By unit of flash: one bit.
    valid: Vec<u64>,
    /// Valid units, by block.
    valid_in: Vec<u16>,
    /// Valid units of the whole drive.
    valid_total: u64,
}

impl Map {
    pub(crate) fn new(layout: &Layout) -> Self {
        Self {
            forward: zeroes(layout.user_units as usize),
            owner: zeroes(layout.units as usize),
            valid: zeroes(layout.units.div_ceil(64) as usize),
            valid_in: vec![0; layout.blocks() as usize],
            valid_total: 0,
        }
    }

    /// The memory that it takes when all of it has been used, but for what blocks take.
    pub(crate) fn bytes(layout: &Layout) -> u64 {
        4 * u64::from(layout.user_units) + 4 * u64::from(layout.units) + u64::from(layout.units) / 8
    }

    /// A user unit will be asked for soon.
    pub(crate) fn expect(&self, user: u32) {
        expect(&self.forward, user as usize);
    }

    /// And very soon: what was expected is there to be looked at, and tells what
    /// else will be.
    pub(crate) fn expect_unit(&self, user: u32) {
        if let Some(word) = self.forward.get(user as usize) {
            expect(&self.valid, (word & !SLOT) as usize / 64);
        }
    }

    /// Whose units these are will be asked for soon.
    pub(crate) fn expect_owners(&self, unit: u32) {
        expect(&self.owner, unit as usize);
    }

    pub(crate) fn place(&self, user: u32) -> Place {
        match self.forward[user as usize] {
            0 => Place::Nowhere,
            word if word & SLOT != 0 => Place::Slot(word & !SLOT),
            word => Place::Flash(word - 1),
        }
    }

    /// The newest data of a user unit is in this slot now: what the flash holds
    /// of it is worth nothing any more.
    pub(crate) fn set_slot(&mut self, layout: &Layout, user: u32, slot: u32) {
        self.forget(layout, user);
        self.forward[user as usize] = SLOT | slot;
    }

    /// A user unit holds nothing of value any more.
    pub(crate) fn discard(&mut self, layout: &Layout, user: u32) {
        self.forget(layout, user);
        self.forward[user as usize] = 0;
    }

    /// The data that stood at `before` has been programmed to `unit`. Unless
    /// there is newer data, that is the user unit's place now.
    pub(crate) fn programmed(&mut self, layout: &Layout, user: u32, before: Place, unit: u32) {
        if self.place(user) != before {
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
        if let Place::Flash(unit) = self.place(user) {
            self.valid[unit as usize / 64] &= !(1 << (unit % 64));
            self.valid_in[layout.block_of_unit(unit) as usize] -= 1;
            self.valid_total -= 1;
        }
    }

    /// The user unit that was last written to a unit of flash.
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

    pub(crate) fn save(&self, to: &mut impl Write) -> io::Result<()> {
        put_all(to, &self.forward)
    }

    /// The rest follows from what is mapped.
    pub(crate) fn load(&mut self, layout: &Layout, from: &mut impl Read) -> io::Result<()> {
        let mut forward: Vec<u32> = zeroes(self.forward.len());
        get_all(from, &mut forward)?;
        for (user, word) in (0..).zip(forward) {
            if word == 0 {
                continue;
            }
            let unit = word - 1;
            if unit >= layout.units || self.next_valid(unit, unit + 1).is_some() {
                return Err(damaged("maps two units to one place, or one to none"));
            }
            self.programmed(layout, user, Place::Nowhere, unit);
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
