//! The partial parity log, which closes the write hole of RAID 5.
//!
//! After a crash a stripe's parity may not match its data: some of the chunks that a write went to
//! are new, others old. If a member is lost too, what is computed from that parity is wrong, also
//! in chunks that nothing wrote to. So before such a write the *partial parity*, the XOR of the
//! chunks that it leaves alone, goes to a log on the member that has the stripe's parity. After the
//! crash the partial parity XOR the chunks that were written, old or new, is a parity that matches
//! (Documentation/driver-api/md/raid5-ppl.rst of Linux).
//!
//! The log protects what a write leaves alone. What it writes may be old, new or, if that member is
//! lost, arbitrary.

mod recover;
#[cfg(test)]
mod tests;

pub use recover::{ParityUpdate, PplRecovery};

use trimtab_array::Layout;

use crate::PplError;
use crate::bytes::{SECTOR, get_u32, get_u64, put_u32, put_u64, to_sectors};
use crate::crc32c::crc32c;
use crate::identity::Uuid;

/// Bytes of a log's header, which the partial parities follow.
pub const PPL_HEADER_BYTES: usize = 4096;
/// The most entries of a header.
pub const MOST_PPL_ENTRIES: usize = (PPL_HEADER_BYTES - at::ENTRIES) / ENTRY_BYTES;

/// Bytes before the header's fields, all ones.
const RESERVED: usize = 512;
const ENTRY_BYTES: usize = 24;
/// Data and partial parities are in pages.
const PAGE: u64 = 4096;

/// Offsets of fields, in bytes (`struct ppl_header`).
mod at {
    pub(super) const SIGNATURE: usize = super::RESERVED;
    pub(super) const GENERATION: usize = SIGNATURE + 8;
    pub(super) const ENTRIES_COUNT: usize = GENERATION + 8;
    pub(super) const CHECKSUM: usize = ENTRIES_COUNT + 4;
    pub(super) const ENTRIES: usize = CHECKSUM + 4;
}

/// What the logs of an array are signed with.
#[must_use]
pub fn ppl_signature(array_uuid: Uuid) -> u32 {
    crc32c([&array_uuid.0[..]])
}

/// A write that is logged: the same pages of chunks of data that follow each other in a stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PplEntry {
    /// The array's byte where the first page of the first chunk is.
    pub data_offset: u64,
    /// Bytes of partial parity. 0: all data of the stripe's pages are written, and there is none.
    pub partial_bytes: u32,
    /// Bytes of data that are written.
    pub data_bytes: u32,
    /// The member that has the parity.
    pub parity_member: u32,
    /// The checksum of the partial parity.
    pub checksum: u32,
}

/// The header of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PplHeader {
    /// [`ppl_signature`] of the array.
    pub signature: u32,
    /// Grows with each header. The newest of several has the largest.
    pub generation: u64,
    /// The writes. Their partial parities follow the header in the same order.
    pub entries: Vec<PplEntry>,
}

impl PplHeader {
    /// Reads the header of a log of the array with this signature.
    ///
    /// # Errors
    /// It is damaged, or of another array.
    pub fn parse(bytes: &[u8], signature: u32) -> Result<Self, PplError> {
        let (found, expected) = (bytes.len(), PPL_HEADER_BYTES);
        let block = bytes.get(..expected).ok_or(PplError::TooShort { found, expected })?;
        let (found, expected) = (get_u32(block, at::CHECKSUM), header_checksum(block));
        if found != expected {
            return Err(PplError::Checksum { found, expected });
        }
        let found = get_u32(block, at::SIGNATURE);
        if found != signature {
            return Err(PplError::Signature { found, expected: signature });
        }
        let found = get_u32(block, at::ENTRIES_COUNT);
        if found as usize > MOST_PPL_ENTRIES {
            return Err(PplError::Entries { found });
        }
        let generation = get_u64(block, at::GENERATION);
        let mut entries = Vec::with_capacity(found as usize);
        for entry in 0..found as usize {
            let block = &block[at::ENTRIES + entry * ENTRY_BYTES..];
            let too_large = PplError::Entry { entry, what: "its data are beyond 64 bits" };
            entries.push(PplEntry {
                data_offset: get_u64(block, 0).checked_mul(SECTOR).ok_or(too_large)?,
                partial_bytes: get_u32(block, 8),
                data_bytes: get_u32(block, 12),
                parity_member: get_u32(block, 16),
                checksum: get_u32(block, 20),
            });
        }
        Ok(Self { signature, generation, entries })
    }

    /// The header as it is on the member, with its checksum.
    ///
    /// # Panics
    /// There are more than [`MOST_PPL_ENTRIES`], or one does not begin with a sector.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; PPL_HEADER_BYTES] {
        assert!(self.entries.len() <= MOST_PPL_ENTRIES, "{} entries", self.entries.len());
        let mut block = [0; PPL_HEADER_BYTES];
        block[..RESERVED].fill(0xff);
        put_u32(&mut block, at::SIGNATURE, self.signature);
        put_u64(&mut block, at::GENERATION, self.generation);
        put_u32(&mut block, at::ENTRIES_COUNT, self.entries.len() as u32);
        for (index, entry) in self.entries.iter().enumerate() {
            let block = &mut block[at::ENTRIES + index * ENTRY_BYTES..];
            put_u64(block, 0, to_sectors(entry.data_offset));
            put_u32(block, 8, entry.partial_bytes);
            put_u32(block, 12, entry.data_bytes);
            put_u32(block, 16, entry.parity_member);
            put_u32(block, 20, entry.checksum);
        }
        let checksum = header_checksum(&block);
        put_u32(&mut block, at::CHECKSUM, checksum);
        block
    }

    /// Bytes of the partial parities behind the header.
    #[must_use]
    pub fn partial_bytes(&self) -> u64 {
        self.entries.iter().map(|entry| u64::from(entry.partial_bytes)).sum()
    }
}

fn header_checksum(block: &[u8]) -> u32 {
    let behind = at::CHECKSUM + 4;
    crc32c([&block[..at::CHECKSUM], &[0; 4], &block[behind..PPL_HEADER_BYTES]])
}

/// Finds the newest log in the area of a member, and where it begins. An area with
/// `is_multiple` has several in turn, each behind the partial parities of the one before.
///
/// # Errors
/// The first header is not one of this array.
pub fn newest_ppl(
    area: &[u8],
    signature: u32,
    is_multiple: bool,
) -> Result<(usize, PplHeader), PplError> {
    let (mut at, mut newest) = (0, PplHeader::parse(area, signature)?);
    loop {
        let next = (at + PPL_HEADER_BYTES) as u64 + newest.partial_bytes();
        let next = usize::try_from(next).unwrap_or(usize::MAX);
        let Some(rest) = area.get(next..).filter(|_| is_multiple) else { return Ok((at, newest)) };
        match PplHeader::parse(rest, signature) {
            Ok(header) if header.generation >= newest.generation => (at, newest) = (next, header),
            _ => return Ok((at, newest)),
        }
    }
}

/// A log that is to be written before the data and parities of its entries.
#[derive(Clone, Debug)]
pub struct PplLog {
    header: PplHeader,
    partial: Vec<u8>,
    room: usize,
}

impl PplLog {
    /// An empty log, which may have so many bytes with its header.
    #[must_use]
    pub const fn new(signature: u32, generation: u64, room: usize) -> Self {
        let header = PplHeader { signature, generation, entries: Vec::new() };
        Self { header, partial: Vec::new(), room }
    }

    /// Adds a write of `chunks` chunks of data from the one that `data_offset` of the array is in,
    /// each from that offset in the chunk and as long as the partial parity, of which there are
    /// `bytes` or, where the whole stripe is written, none. Returns false, and adds nothing, if the
    /// log has no room: it must be written first.
    ///
    /// # Panics
    /// The write is not in whole pages of one stripe of a RAID 5.
    pub fn push(
        &mut self,
        layout: &Layout,
        data_offset: u64,
        chunks: usize,
        bytes: u32,
        partial: &[u8],
    ) -> bool {
        let position = layout.locate(data_offset);
        let length = u64::from(bytes);
        assert!(position.offset.is_multiple_of(PAGE) && length.is_multiple_of(PAGE), "no pages");
        assert!(length > 0 && position.offset + length <= layout.chunk(), "beyond the chunk");
        assert!(chunks > 0 && position.index + chunks <= layout.data_chunks(), "beyond the stripe");
        let is_full = chunks == layout.data_chunks();
        assert_eq!(partial.len() as u64, if is_full { 0 } else { length }, "partial parity");
        let parity_member = layout.p_member(position.stripe).expect("a level with parity");
        let is_room = PPL_HEADER_BYTES + self.partial.len() + partial.len() <= self.room;
        if !is_room || self.header.entries.len() == MOST_PPL_ENTRIES {
            return false;
        }
        self.header.entries.push(PplEntry {
            data_offset,
            partial_bytes: partial.len() as u32,
            data_bytes: bytes * chunks as u32,
            parity_member: parity_member as u32,
            checksum: crc32c([partial]),
        });
        self.partial.extend_from_slice(partial);
        true
    }

    /// The header.
    #[must_use]
    pub const fn header(&self) -> &PplHeader {
        &self.header
    }

    /// Header and partial parities as they are on the member.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.header.to_bytes().to_vec();
        bytes.extend_from_slice(&self.partial);
        bytes
    }
}
