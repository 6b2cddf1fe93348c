//! What a log asks for after a crash.

use std::ops::Range;

use trimtab_array::{Layout, Position};

use super::{PAGE, PPL_HEADER_BYTES, PplEntry, PplHeader};
use crate::PplError;
use crate::crc32c::crc32c;

/// A part of a stripe's parity that has to be computed again: the XOR of the partial parity and of
/// the data that the write was for. Offsets are in bytes from where data begin on the members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParityUpdate {
    /// The stripe.
    pub stripe: u64,
    /// The member that has the parity: the one that has the log.
    pub parity_member: usize,
    /// Where the part is, on the parity's member and on those of the data.
    pub offset: u64,
    /// Its bytes.
    pub bytes: u64,
    /// The members whose data the write was for.
    pub data_members: Vec<usize>,
    /// Where the partial parity is, from the beginning of the log. `None`: it is zero.
    pub partial: Option<Range<usize>>,
}

/// What a log asks for after a crash.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PplRecovery {
    /// What has to be done, in this order.
    pub updates: Vec<ParityUpdate>,
    /// Entries of which data are on members that are not there. Their parity stays as it is.
    pub lost: usize,
    /// Entries that cannot be used. If there are any, all stripes have to be resynchronised.
    pub damaged: Vec<PplError>,
}

impl PplHeader {
    /// Plans the recovery from a log, of which `log` has the header and the partial parities.
    /// `is_there` tells which members the array has.
    #[must_use]
    pub fn recovery(
        &self,
        layout: &Layout,
        log: &[u8],
        is_there: impl Fn(usize) -> bool,
    ) -> PplRecovery {
        let mut recovery = PplRecovery::default();
        let mut start = PPL_HEADER_BYTES;
        for (index, entry) in self.entries.iter().enumerate() {
            let end = start.saturating_add(entry.partial_bytes as usize);
            let damaged = |what| PplError::Entry { entry: index, what };
            match entry.update(layout, log, start..end) {
                Err(what) => recovery.damaged.push(damaged(what)),
                Ok(update) if update.data_members.iter().all(|&member| is_there(member)) => {
                    recovery.updates.push(update);
                }
                Ok(_) => recovery.lost += 1,
            }
            start = end;
        }
        recovery
    }
}

impl PplEntry {
    fn update(
        &self,
        layout: &Layout,
        log: &[u8],
        partial: Range<usize>,
    ) -> Result<ParityUpdate, &'static str> {
        let content = log.get(partial.clone()).ok_or("its partial parity is behind the log")?;
        if crc32c([content]) != self.checksum {
            return Err("its partial parity was not written, or is damaged");
        }
        if self.data_offset >= layout.capacity() {
            return Err("its data are behind the end of the array");
        }
        let Position { stripe, index, offset } = layout.locate(self.data_offset);
        let data_bytes = u64::from(self.data_bytes);
        let (bytes, chunks) = match u64::from(self.partial_bytes) {
            0 => (data_bytes / layout.data_chunks() as u64, layout.data_chunks() as u64),
            bytes => (bytes, data_bytes / bytes),
        };
        if bytes * chunks == 0 || bytes * chunks != data_bytes || !bytes.is_multiple_of(PAGE) {
            return Err("its data are not as many pages as its partial parity");
        }
        if offset + bytes > layout.chunk() || index as u64 + chunks > layout.data_chunks() as u64 {
            return Err("its data are not in one stripe");
        }
        if layout.p_member(stripe) != Some(self.parity_member as usize) {
            return Err("its parity is on another member");
        }
        let data = index..index + chunks as usize;
        Ok(ParityUpdate {
            stripe,
            parity_member: self.parity_member as usize,
            offset: layout.member_offset(stripe, offset),
            bytes,
            data_members: data.map(|index| layout.data_member(stripe, index)).collect(),
            partial: (!partial.is_empty()).then_some(partial),
        })
    }
}
