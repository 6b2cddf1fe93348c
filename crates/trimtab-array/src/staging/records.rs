//! The memory of a write buffer.

use std::collections::VecDeque;

use trimtab_steer::InFlightTable;

use super::StagingAction;

/// A range of a member's bytes that is in NVRAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The record that has them.
    pub record: u32,
    /// The first of them in the record.
    pub from: u64,
    /// The first of them on the member.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
}

/// The records: the data of one write each, kept while some of it is staged, or being read or
/// destaged.
#[derive(Debug, Default)]
pub(super) struct Records {
    table: InFlightTable<Record>,
    used: u64,
}

#[derive(Clone, Copy, Debug)]
struct Record {
    bytes: u64,
    /// Bytes of it that are staged.
    staged: u64,
    /// Reads and destages in flight that use it.
    pins: u32,
}

impl Records {
    /// Bytes of all records.
    pub(super) const fn used(&self) -> u64 {
        self.used
    }

    /// A record of which all is staged.
    pub(super) fn insert(&mut self, bytes: u64) -> u32 {
        self.used += bytes;
        self.table.insert(Record { bytes, staged: bytes, pins: 0 })
    }

    /// Part of it is not staged any more.
    pub(super) fn remove(&mut self, piece: &Piece, actions: &mut VecDeque<StagingAction>) {
        self.table[piece.record].staged -= piece.length;
        self.free_unused(piece.record, actions);
    }

    pub(super) fn pin(&mut self, record: u32) {
        self.table[record].pins += 1;
    }

    pub(super) fn unpin(&mut self, record: u32, actions: &mut VecDeque<StagingAction>) {
        self.table[record].pins -= 1;
        self.free_unused(record, actions);
    }

    fn free_unused(&mut self, record: u32, actions: &mut VecDeque<StagingAction>) {
        let Record { bytes, staged, pins } = self.table[record];
        if staged == 0 && pins == 0 {
            self.used -= bytes;
            self.table.remove(record);
            actions.push_back(StagingAction::Free(record));
        }
    }
}
