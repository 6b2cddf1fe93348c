//! What the host of an open-channel drive knows of its flash.
//!
//! On host-managed flash the host maps data to pages, cleans blocks and levels wear (MittOS,
//! §4.2.3), so it knows where data lies and which operation each die works on. Drives that are
//! black boxes have none of this.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::Nanos;

/// An operation of a die.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlashOp {
    /// Reads a page, and moves a part of it over the channel.
    Read {
        /// Bytes moved.
        bytes: u32,
    },
    /// Moves a whole page over the channel, and programs it.
    Program {
        /// The page's number in its block.
        page: u32,
    },
    /// Cleans a block: what is left of it.
    Clean(CleaningWork),
}

/// What a cleaning still has to do; an erase always follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CleaningWork {
    /// Pages to be read.
    pub reads: u32,
    /// Bytes of valid data in them.
    pub bytes: u64,
    /// Pages to be programmed.
    pub programs: u32,
    /// The first of these pages: its number in its block.
    pub first_page: u32,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlashChange {
    /// The operation is in its die's queue. Not told of reads for a host's read, which the host
    /// has sent itself.
    Queued(FlashOp),
    /// The die begins with it; of a cleaning, each of its steps.
    Begun(FlashOp),
    /// The die has finished it.
    Ended {
        /// Whether nothing else is queued.
        idle: bool,
    },
    /// No requests are taken, because free blocks have run out.
    Stalled {
        /// For how long, by estimate.
        left: Nanos,
    },
    /// Requests are taken again.
    Admitted,
}

/// An internal operation of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlashEvent {
    /// When.
    pub at: Nanos,
    /// The die, counted over the whole drive; 0 for stalls.
    pub die: u32,
    /// What happened.
    pub change: FlashChange,
}

/// The host's mapping table: the unit of flash that holds each unit of user data. One writer;
/// predictors of the same thread of control read it.
#[derive(Debug)]
pub struct FlashMap {
    /// Unit of flash + 1, or 0 for data that is in no flash.
    units: Box<[AtomicU32]>,
    unit_bits: u32,
}

impl FlashMap {
    /// A table for `units` units of `unit_bytes` bytes (a power of two), none of which is in
    /// flash.
    #[must_use]
    pub fn new(units: usize, unit_bytes: u32) -> Self {
        let units = (0..units).map(|_| AtomicU32::new(0)).collect();
        Self { units, unit_bits: unit_bytes.trailing_zeros() }
    }

    /// Sets the location of a unit of user data; `None`: it is in a buffer, or was never written.
    /// Units beyond the table are ignored.
    pub fn set(&self, user: u32, unit: Option<u32>) {
        if let Some(entry) = self.units.get(user as usize) {
            entry.store(unit.map_or(0, |unit| unit + 1), Ordering::Relaxed);
        }
    }

    /// The location of a unit of user data.
    #[must_use]
    #[inline]
    pub fn locate(&self, user: u64) -> Option<u32> {
        let entry = self.units.get(usize::try_from(user).ok()?)?;
        entry.load(Ordering::Relaxed).checked_sub(1)
    }

    /// The units of user data that a byte range touches.
    #[must_use]
    #[inline]
    pub const fn units_of(&self, offset: u64, length: u64) -> std::ops::Range<u64> {
        let last = (1 << self.unit_bits) - 1;
        offset >> self.unit_bits
            ..offset.saturating_add(length).saturating_add(last) >> self.unit_bits
    }

    /// Bytes of `units` units.
    #[must_use]
    pub const fn bytes(&self, units: u32) -> u64 {
        (units as u64) << self.unit_bits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_locates_what_was_set() {
        let map = FlashMap::new(4, 4096);
        map.set(2, Some(0));
        map.set(9, Some(1));
        assert_eq!([map.locate(2), map.locate(3), map.locate(9)], [Some(0), None, None]);
        map.set(2, None);
        assert_eq!(map.locate(2), None);
        assert_eq!(map.units_of(4095, 2), 0..2);
        assert_eq!(map.units_of(4096, 4096), 1..2);
    }
}
