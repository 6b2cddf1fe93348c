//! The write-intent bitmap: which parts of the members may differ after a crash, or from a member
//! that was away.

#[cfg(test)]
mod tests;

use std::ops::Range;

use crate::BitmapError;
use crate::bytes::{SECTOR, from_sectors, get_u32, get_u64, put_u32, put_u64, to_sectors};
use crate::identity::Uuid;

/// Bytes of the header, which the bits follow.
pub const BITMAP_HEADER_BYTES: usize = 256;

const MAGIC: u32 = 0x6d74_6962;
const VERSION: u32 = 4;

/// Offsets of fields, in bytes (`struct bitmap_super_s`).
mod at {
    pub(super) const MAGIC: usize = 0;
    pub(super) const VERSION: usize = 4;
    pub(super) const UUID: usize = 8;
    pub(super) const EVENTS: usize = 24;
    pub(super) const EVENTS_CLEARED: usize = 32;
    pub(super) const SYNC_SIZE: usize = 40;
    pub(super) const STATE: usize = 48;
    pub(super) const CHUNKSIZE: usize = 52;
    pub(super) const DAEMON_SLEEP: usize = 56;
    pub(super) const WRITE_BEHIND: usize = 60;
    pub(super) const SECTORS_RESERVED: usize = 64;
}

/// Everything in a bitmap's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BitmapHeader {
    /// The array's.
    pub array_uuid: Uuid,
    /// The superblock's `events` when the header was written. If it is less than the superblock's,
    /// the bitmap missed something, and everything has to be resynchronised.
    pub events: u64,
    /// `events` when a bit was last cleared: a member whose superblock is not older than that finds
    /// in the bitmap all that it missed.
    pub events_cleared: u64,
    /// Bytes of each member that the bits cover.
    pub sync_bytes: u64,
    /// [`STALE`](Self::STALE), [`WRITE_ERROR`](Self::WRITE_ERROR).
    pub state: u32,
    /// Bytes that a bit covers: a power of two of at least 512.
    pub chunk: u64,
    /// Seconds between two rounds in which clean bits are cleared.
    pub clear_interval_s: u32,
    /// The most writes that a write-mostly member may be behind. 0: it may not.
    pub write_behind: u32,
    /// Bytes that the bitmap may use. 0: the header does not say.
    pub reserved: u64,
}

impl BitmapHeader {
    /// [`state`](Self::state): the bitmap missed something. Everything has to be resynchronised.
    pub const STALE: u32 = 1 << 1;
    /// [`state`](Self::state): it could not be written.
    pub const WRITE_ERROR: u32 = 1 << 2;

    /// The number of bits.
    #[must_use]
    pub const fn bits(&self) -> u64 {
        self.sync_bytes.div_ceil(self.chunk)
    }

    /// Bytes of header and bits.
    #[must_use]
    pub const fn total_bytes(&self) -> u64 {
        BITMAP_HEADER_BYTES as u64 + self.bits().div_ceil(8)
    }

    /// Reads the header. What it says is consistent, and not more than it may be: a bitmap of at
    /// most 2³¹ bits, as many as md has.
    ///
    /// # Errors
    /// There is none, or one that is damaged or of another version.
    pub fn parse(bytes: &[u8]) -> Result<Self, BitmapError> {
        let expected = BITMAP_HEADER_BYTES as u64;
        let too_short = BitmapError::TooShort { found: bytes.len(), expected };
        let block = bytes.get(..BITMAP_HEADER_BYTES).ok_or(too_short)?;
        let found = get_u32(block, at::MAGIC);
        if found != MAGIC {
            return Err(BitmapError::None { found });
        }
        let version = |found, what| Err(BitmapError::Version { found, what });
        match get_u32(block, at::VERSION) {
            VERSION => {}
            3 => return version(3, "of the host's byte order"),
            5 => return version(5, "of a cluster"),
            6 => return version(6, "without locks, of Linux 6.18"),
            other => return version(other, "unknown"),
        }
        let mut uuid = [0; 16];
        uuid.copy_from_slice(&block[at::UUID..at::EVENTS]);
        let sectors = get_u64(block, at::SYNC_SIZE);
        let sync_bytes = from_sectors(sectors).ok_or(BitmapError::Field {
            field: "sync_size",
            found: sectors,
            expected: "a number of sectors of which the bytes fit 64 bits",
        })?;
        let header = Self {
            array_uuid: Uuid(uuid),
            events: get_u64(block, at::EVENTS),
            events_cleared: get_u64(block, at::EVENTS_CLEARED),
            sync_bytes,
            state: get_u32(block, at::STATE),
            chunk: u64::from(get_u32(block, at::CHUNKSIZE)),
            clear_interval_s: get_u32(block, at::DAEMON_SLEEP),
            write_behind: get_u32(block, at::WRITE_BEHIND),
            reserved: u64::from(get_u32(block, at::SECTORS_RESERVED)) * SECTOR,
        };
        header.check()?;
        Ok(header)
    }

    fn check(&self) -> Result<(), BitmapError> {
        let field = |field, found, expected| Err(BitmapError::Field { field, found, expected });
        if self.chunk < SECTOR || !self.chunk.is_power_of_two() {
            return field("chunksize", self.chunk, "a power of two of at least 512");
        }
        if self.bits() >= 1 << 31 {
            return field("sync_size", self.sync_bytes / SECTOR, "at most 2^31 chunks");
        }
        if self.events < self.events_cleared {
            return field("events_cleared", self.events_cleared, "at most events");
        }
        // The range that the kernel accepts; it is in seconds here.
        if !(1..=86_400).contains(&self.clear_interval_s) {
            return field("daemon_sleep", self.clear_interval_s.into(), "1 to 86400");
        }
        if self.reserved > 0 && self.total_bytes() > self.reserved {
            return field("sectors_reserved", self.reserved / SECTOR, "room for all bits, or 0");
        }
        Ok(())
    }

    /// The header as it is on the member.
    ///
    /// # Panics
    /// A field has no place in the format: see [`Superblock::to_bytes`](crate::Superblock::to_bytes).
    #[must_use]
    pub fn to_bytes(&self) -> [u8; BITMAP_HEADER_BYTES] {
        let mut block = [0; BITMAP_HEADER_BYTES];
        put_u32(&mut block, at::MAGIC, MAGIC);
        put_u32(&mut block, at::VERSION, VERSION);
        block[at::UUID..at::EVENTS].copy_from_slice(&self.array_uuid.0);
        put_u64(&mut block, at::EVENTS, self.events);
        put_u64(&mut block, at::EVENTS_CLEARED, self.events_cleared);
        put_u64(&mut block, at::SYNC_SIZE, to_sectors(self.sync_bytes));
        put_u32(&mut block, at::STATE, self.state);
        put_u32(&mut block, at::CHUNKSIZE, u32::try_from(self.chunk).expect("at most 2 GiB"));
        put_u32(&mut block, at::DAEMON_SLEEP, self.clear_interval_s);
        put_u32(&mut block, at::WRITE_BEHIND, self.write_behind);
        let reserved = u32::try_from(to_sectors(self.reserved)).expect("at most 2 TiB");
        put_u32(&mut block, at::SECTORS_RESERVED, reserved);
        block
    }
}

/// A write-intent bitmap. A set bit says that the members may differ in its chunk.
///
/// ```
/// use trimtab_md::{Bitmap, BitmapHeader, Uuid};
///
/// let header = BitmapHeader {
///     array_uuid: Uuid([7; 16]),
///     events: 1,
///     events_cleared: 1,
///     sync_bytes: 256 << 20,
///     state: 0,
///     chunk: 64 << 20,
///     clear_interval_s: 5,
///     write_behind: 0,
///     reserved: 0,
/// };
/// let mut bitmap = Bitmap::new(header);
/// // Before a write of one byte its chunk is marked, and that part of the bitmap is written.
/// assert_eq!(bitmap.mark(70 << 20..(70 << 20) + 1), Some(256..257));
/// assert_eq!(bitmap.mark(80 << 20..90 << 20), None);
/// assert_eq!(bitmap.dirty().collect::<Vec<_>>(), [64 << 20..128 << 20]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bitmap {
    header: BitmapHeader,
    /// Bit `i` is bit `i % 8` of byte `i / 8`. Bits behind the last one are clear.
    bits: Vec<u8>,
}

impl Bitmap {
    /// A bitmap of which no bit is set.
    #[must_use]
    pub fn new(header: BitmapHeader) -> Self {
        Self { header, bits: vec![0; header.bits().div_ceil(8) as usize] }
    }

    /// Reads a bitmap: header and bits. Bits behind the last one, of which md sets some, are taken
    /// to be clear.
    ///
    /// # Errors
    /// There is none, or one that is damaged, not whole, or of another version.
    pub fn parse(bytes: &[u8]) -> Result<Self, BitmapError> {
        let header = BitmapHeader::parse(bytes)?;
        let expected = header.total_bytes();
        let bits = bytes.get(BITMAP_HEADER_BYTES..expected as usize);
        let too_short = BitmapError::TooShort { found: bytes.len(), expected };
        let mut bitmap = Self { header, bits: bits.ok_or(too_short)?.to_vec() };
        bitmap.clear_behind_last();
        Ok(bitmap)
    }

    fn clear_behind_last(&mut self) {
        let used = self.header.bits() % 8;
        if let Some(last) = self.bits.last_mut().filter(|_| used > 0) {
            *last &= (1 << used) - 1;
        }
    }

    /// Header and bits as they are on the member, filled with zeros to whole sectors.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.header.to_bytes().to_vec();
        bytes.extend_from_slice(&self.bits);
        bytes.resize(bytes.len().next_multiple_of(SECTOR as usize), 0);
        bytes
    }

    /// The header.
    #[must_use]
    pub const fn header(&self) -> &BitmapHeader {
        &self.header
    }

    /// Notes the events of a superblock that is written with this bitmap.
    pub const fn set_events(&mut self, events: u64) {
        self.header.events = events;
    }

    /// Notes that bits are cleared while the array is complete: members that were away before this
    /// event do not find all that they missed any more.
    pub const fn set_events_cleared(&mut self, events: u64) {
        self.header.events_cleared = events;
    }

    /// Sets [`BitmapHeader::state`].
    pub const fn set_state(&mut self, state: u32) {
        self.header.state = state;
    }

    /// Whether the bitmap can be used with a superblock of this array and these events. If not,
    /// everything has to be resynchronised.
    #[must_use]
    pub fn is_current(&self, array_uuid: Uuid, events: u64) -> bool {
        let is_whole = self.header.state & (BitmapHeader::STALE | BitmapHeader::WRITE_ERROR) == 0;
        self.header.array_uuid == array_uuid && self.header.events >= events && is_whole
    }

    /// Sets the bits of a range of the members' bytes, from where data begin. Returns the bytes of
    /// the bitmap that changed, from its beginning: they must be on all members before the range
    /// is written. `None`: all bits were set already.
    ///
    /// # Panics
    /// The range ends behind what the bits cover.
    pub fn mark(&mut self, range: Range<u64>) -> Option<Range<u64>> {
        self.change(range, true)
    }

    /// Clears the bits of the chunks that are wholly in a range, when all members have the same
    /// there again. Returns the bytes of the bitmap that changed, from its beginning.
    ///
    /// # Panics
    /// The range ends behind what the bits cover.
    pub fn clear(&mut self, range: Range<u64>) -> Option<Range<u64>> {
        self.change(range, false)
    }

    fn change(&mut self, range: Range<u64>, to: bool) -> Option<Range<u64>> {
        let covered = self.header.sync_bytes;
        assert!(range.end <= covered, "{range:?} of {covered} bytes");
        let chunk = self.header.chunk;
        let chunks = if to {
            range.start / chunk..range.end.div_ceil(chunk)
        } else {
            // The last chunk may be a part of one.
            let is_last = range.end == covered;
            let end = if is_last { covered.div_ceil(chunk) } else { range.end / chunk };
            range.start.div_ceil(chunk)..end
        };
        if range.is_empty() {
            return None;
        }
        let mut changed: Option<Range<u64>> = None;
        for bit in chunks {
            if self.is_set(bit) != to {
                self.bits[(bit / 8) as usize] ^= 1 << (bit % 8);
                let byte = BITMAP_HEADER_BYTES as u64 + bit / 8;
                let start = changed.map_or(byte, |changed| changed.start);
                changed = Some(start..byte + 1);
            }
        }
        changed
    }

    /// Sets all bits.
    pub fn mark_all(&mut self) {
        self.bits.fill(0xff);
        self.clear_behind_last();
    }

    fn is_set(&self, bit: u64) -> bool {
        self.bits[(bit / 8) as usize] >> (bit % 8) & 1 == 1
    }

    /// Whether the members may differ somewhere in a range of their bytes.
    #[must_use]
    pub fn is_dirty(&self, range: Range<u64>) -> bool {
        let end = range.end.min(self.header.sync_bytes).div_ceil(self.header.chunk);
        !range.is_empty() && (range.start / self.header.chunk..end).any(|bit| self.is_set(bit))
    }

    /// The ranges of the members' bytes, from where data begin, that have to be resynchronised:
    /// ascending, apart from each other.
    pub fn dirty(&self) -> impl Iterator<Item = Range<u64>> {
        let (bits, chunk) = (self.header.bits(), self.header.chunk);
        let mut next = 0;
        std::iter::from_fn(move || {
            let start = (next..bits).find(|&bit| self.is_set(bit))?;
            let end = (start..bits).find(|&bit| !self.is_set(bit)).unwrap_or(bits);
            next = end;
            Some(start * chunk..(end * chunk).min(self.header.sync_bytes))
        })
    }

    /// The stripes that have to be resynchronised, if each is this many bytes of each member:
    /// ascending ranges, apart from each other.
    ///
    /// # Panics
    /// `strip` is 0.
    pub fn dirty_stripes(&self, strip: u64) -> impl Iterator<Item = Range<u64>> {
        let mut ranges = self.dirty().peekable();
        std::iter::from_fn(move || {
            let range = ranges.next()?;
            let (start, mut end) = (range.start / strip, range.end.div_ceil(strip));
            // Chunks of the bitmap that are smaller than strips may share one.
            while let Some(more) = ranges.next_if(|more| more.start / strip <= end) {
                end = end.max(more.end.div_ceil(strip));
            }
            Some(start..end)
        })
    }

    /// Bytes of the members that have to be resynchronised.
    #[must_use]
    pub fn dirty_bytes(&self) -> u64 {
        self.dirty().map(|range| range.end - range.start).sum()
    }
}
