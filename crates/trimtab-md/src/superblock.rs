//! The superblock of version 1.2, 4096 bytes from the beginning of each member.

mod checks;
mod role;
#[cfg(test)]
mod tests;

pub use role::DeviceRole;

use trimtab_array::{Layout, LayoutError, Level, Rotation};

use crate::bytes::{
    SECTOR, from_sectors, get_u16, get_u32, get_u64, put_u16, put_u32, put_u64, to_sectors,
};
use crate::identity::{ArrayName, Timestamp, Uuid};
use crate::{Features, SuperblockError};

/// Where the superblock is, in bytes from the beginning of the member.
pub const SUPERBLOCK_OFFSET: u64 = 4096;
/// Bytes of a superblock with as many devices as it has room for.
pub const SUPERBLOCK_BYTES: usize = 4096;
/// The most devices that a superblock has room for.
pub const MOST_DEVICES: usize = (SUPERBLOCK_BYTES - FIXED_BYTES) / 2;

pub(crate) const MAGIC: u32 = 0xa92b_4efc;
/// Bytes before the roles.
const FIXED_BYTES: usize = 256;

/// Offsets of fields, in bytes (`struct mdp_superblock_1`).
pub(crate) mod at {
    pub(crate) const MAGIC: usize = 0;
    pub(crate) const MAJOR_VERSION: usize = 4;
    pub(crate) const FEATURE_MAP: usize = 8;
    pub(crate) const PAD0: usize = 12;
    pub(crate) const SET_UUID: usize = 16;
    pub(crate) const SET_NAME: usize = 32;
    pub(crate) const CTIME: usize = 64;
    pub(crate) const LEVEL: usize = 72;
    pub(crate) const LAYOUT: usize = 76;
    pub(crate) const SIZE: usize = 80;
    pub(crate) const CHUNKSIZE: usize = 88;
    pub(crate) const RAID_DISKS: usize = 92;
    pub(crate) const BITMAP_OFFSET: usize = 96;
    pub(crate) const PPL_SIZE: usize = 98;
    pub(crate) const DATA_OFFSET: usize = 128;
    pub(crate) const DATA_SIZE: usize = 136;
    pub(crate) const SUPER_OFFSET: usize = 144;
    pub(crate) const RECOVERY_OFFSET: usize = 152;
    pub(crate) const DEV_NUMBER: usize = 160;
    pub(crate) const CORRECTED_READS: usize = 164;
    pub(crate) const DEVICE_UUID: usize = 168;
    pub(crate) const DEVFLAGS: usize = 184;
    pub(crate) const BBLOG_SHIFT: usize = 185;
    pub(crate) const BBLOG_SIZE: usize = 186;
    pub(crate) const BBLOG_OFFSET: usize = 188;
    pub(crate) const UTIME: usize = 192;
    pub(crate) const EVENTS: usize = 200;
    pub(crate) const RESYNC_OFFSET: usize = 208;
    pub(crate) const SB_CSUM: usize = 216;
    pub(crate) const MAX_DEV: usize = 220;
    pub(crate) const PAD3: usize = 224;
    pub(crate) const DEV_ROLES: usize = super::FIXED_BYTES;
}

/// A superblock: what an array is, and what one of its members knows of it. Offsets and sizes are
/// in bytes, and whole sectors of 512.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Tells the array from others (`set_uuid`).
    pub array_uuid: Uuid,
    /// The array's name (`set_name`).
    pub name: ArrayName,
    /// When the array was created (`ctime`).
    pub created: Timestamp,
    /// The level.
    pub level: Level,
    /// md's number for the layout: see [`layout_number`].
    pub layout: u32,
    /// Bytes of each member that the array uses (`size`). RAID 0 uses all of [`data_bytes`], and
    /// has 0 here.
    ///
    /// [`data_bytes`]: Self::data_bytes
    pub size: u64,
    /// Bytes of a chunk. 0 with RAID 1.
    pub chunk: u64,
    /// Members that the array has when it is complete (`raid_disks`).
    pub raid_disks: u32,
    /// How the array finds what to resynchronise.
    pub consistency: Consistency,
    /// Where data begin on the member.
    pub data_offset: u64,
    /// Bytes behind it that data may use.
    pub data_bytes: u64,
    /// The member is being rebuilt.
    pub recovery: Option<Recovery>,
    /// The member is to replace another one that is active in the same role.
    pub is_replacement: bool,
    /// The index of the member in `roles` (`dev_number`).
    pub device_number: u32,
    /// Errors of reading that were corrected by writing (`cnt_corrected_read`).
    pub corrected_reads: u32,
    /// Tells the member from others.
    pub device_uuid: Uuid,
    /// [`WRITE_MOSTLY`](Self::WRITE_MOSTLY), [`FAIL_FAST`](Self::FAIL_FAST).
    pub device_flags: u8,
    /// The area of the log of bad blocks, if there is one. It is empty: a superblock whose log has
    /// entries is refused.
    pub bad_block_log: Option<BadBlockLog>,
    /// When the superblock was written (`utime`).
    pub updated: Timestamp,
    /// Grows whenever superblocks are written.
    pub events: u64,
    /// Bytes of each member, from where data begin, that are known to be in sync. `None`: all are.
    pub in_sync_to: Option<u64>,
    /// RAID 0: `layout` is meaningful (`MD_FEATURE_RAID0_LAYOUT`).
    pub has_raid0_layout: bool,
    /// The roles of devices by their numbers (`dev_roles`).
    pub roles: Vec<DeviceRole>,
}

/// How an array finds what to resynchronise after a crash. Offsets are from the superblock, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consistency {
    /// All of it is resynchronised.
    Resync,
    /// A write-intent bitmap.
    Bitmap {
        /// Where it is.
        offset: i64,
    },
    /// A partial parity log on each member.
    Ppl {
        /// Where it is.
        offset: i64,
        /// Bytes of its area.
        bytes: u64,
        /// The area has several logs, of which the newest counts.
        is_multiple: bool,
    },
}

/// A member that is being rebuilt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// Bytes from where data begin that have been rebuilt.
    pub done_to: u64,
    /// Only what the bitmap says is copied (`MD_FEATURE_RECOVERY_BITMAP`).
    pub by_bitmap: bool,
}

/// The area of the log of bad blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadBlockLog {
    /// Where it is from the superblock, in bytes.
    pub offset: i64,
    /// Its bytes.
    pub bytes: u64,
    /// `bblog_shift`, as md has it.
    pub shift: u8,
}

/// md's number for a layout (`ALGORITHM_…` of drivers/md/raid5.h). Other levels have none: 0.
#[must_use]
pub const fn layout_number(level: Level, rotation: Rotation) -> u32 {
    match (level, rotation) {
        (Level::Raid5 | Level::Raid6, Rotation::LeftSymmetric) => 2,
        (Level::Raid5 | Level::Raid6, Rotation::ParityLast) => 5,
        _ => 0,
    }
}

impl Superblock {
    /// [`device_flags`](Self::device_flags): reads avoid the member.
    pub const WRITE_MOSTLY: u8 = 1;
    /// [`device_flags`](Self::device_flags): errors are reported without trying again.
    pub const FAIL_FAST: u8 = 2;

    /// Reads a superblock from the 4096 bytes at [`SUPERBLOCK_OFFSET`] of a member.
    ///
    /// # Errors
    /// There is none, or one that is damaged, or of another version, or whose array this crate does
    /// not understand: the error says which.
    pub fn parse(block: &[u8]) -> Result<Self, SuperblockError> {
        let too_short = SuperblockError::TooShort { found: block.len() };
        let block = block.get(..SUPERBLOCK_BYTES).ok_or(too_short)?;
        checks::version(block)?;
        checks::checksum_matches(block)?;
        checks::fields(block)?;
        let features = Features(get_u32(block, at::FEATURE_MAP));
        let (level, layout) = checks::level(block, features)?;
        let superblock = Self {
            array_uuid: Uuid(array(block, at::SET_UUID)),
            name: ArrayName(array(block, at::SET_NAME)),
            created: Timestamp::from_word(get_u64(block, at::CTIME)),
            level,
            layout,
            size: bytes_at(block, at::SIZE, "size")?,
            chunk: u64::from(get_u32(block, at::CHUNKSIZE)) * SECTOR,
            raid_disks: get_u32(block, at::RAID_DISKS),
            consistency: consistency(block, features)?,
            data_offset: bytes_at(block, at::DATA_OFFSET, "data_offset")?,
            data_bytes: bytes_at(block, at::DATA_SIZE, "data_size")?,
            recovery: recovery(block, features)?,
            is_replacement: features.has(Features::REPLACEMENT),
            device_number: get_u32(block, at::DEV_NUMBER),
            corrected_reads: get_u32(block, at::CORRECTED_READS),
            device_uuid: Uuid(array(block, at::DEVICE_UUID)),
            device_flags: block[at::DEVFLAGS],
            bad_block_log: bad_block_log(block),
            updated: Timestamp::from_word(get_u64(block, at::UTIME)),
            events: get_u64(block, at::EVENTS),
            in_sync_to: match get_u64(block, at::RESYNC_OFFSET) {
                u64::MAX => None,
                _ => Some(bytes_at(block, at::RESYNC_OFFSET, "resync_offset")?),
            },
            has_raid0_layout: features.has(Features::RAID0_LAYOUT),
            roles: (0..get_u32(block, at::MAX_DEV) as usize)
                .map(|number| DeviceRole::from_word(get_u16(block, at::DEV_ROLES + 2 * number)))
                .collect(),
        };
        superblock.check()?;
        Ok(superblock)
    }

    /// The superblock as it is on the member, with its checksum.
    ///
    /// # Panics
    /// A field has no place in the format: an offset or size is not in whole sectors, there are
    /// more than [`MOST_DEVICES`] roles, or a bitmap or log is too far away.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; SUPERBLOCK_BYTES] {
        assert!(self.roles.len() <= MOST_DEVICES, "{} roles", self.roles.len());
        let mut block = [0; SUPERBLOCK_BYTES];
        self.put_array(&mut block);
        self.put_device(&mut block);
        for (number, role) in self.roles.iter().enumerate() {
            put_u16(&mut block, at::DEV_ROLES + 2 * number, role.to_word());
        }
        let checksum = checksum(&block);
        put_u32(&mut block, at::SB_CSUM, checksum);
        block
    }

    fn put_array(&self, block: &mut [u8]) {
        put_u32(block, at::MAGIC, MAGIC);
        put_u32(block, at::MAJOR_VERSION, 1);
        put_u32(block, at::FEATURE_MAP, self.features().0);
        block[at::SET_UUID..at::SET_NAME].copy_from_slice(&self.array_uuid.0);
        block[at::SET_NAME..at::CTIME].copy_from_slice(&self.name.0);
        put_u64(block, at::CTIME, self.created.to_word());
        put_u32(block, at::LEVEL, level_number(self.level));
        put_u32(block, at::LAYOUT, self.layout);
        put_u64(block, at::SIZE, to_sectors(self.size));
        put_u32(block, at::CHUNKSIZE, narrow(to_sectors(self.chunk)));
        put_u32(block, at::RAID_DISKS, self.raid_disks);
        match self.consistency {
            Consistency::Resync => {}
            Consistency::Bitmap { offset } => {
                let sectors: i32 = narrow(offset / SECTOR as i64);
                put_u32(block, at::BITMAP_OFFSET, sectors.cast_unsigned());
            }
            Consistency::Ppl { offset, bytes, .. } => {
                let sectors: i16 = narrow(offset / SECTOR as i64);
                put_u16(block, at::BITMAP_OFFSET, sectors.cast_unsigned());
                put_u16(block, at::PPL_SIZE, narrow(to_sectors(bytes)));
            }
        }
        put_u64(block, at::UTIME, self.updated.to_word());
        put_u64(block, at::EVENTS, self.events);
        put_u64(block, at::RESYNC_OFFSET, self.in_sync_to.map_or(u64::MAX, to_sectors));
        put_u32(block, at::MAX_DEV, self.roles.len() as u32);
    }

    fn put_device(&self, block: &mut [u8]) {
        put_u64(block, at::DATA_OFFSET, to_sectors(self.data_offset));
        put_u64(block, at::DATA_SIZE, to_sectors(self.data_bytes));
        put_u64(block, at::SUPER_OFFSET, SUPERBLOCK_OFFSET / SECTOR);
        if let Some(recovery) = self.recovery {
            put_u64(block, at::RECOVERY_OFFSET, to_sectors(recovery.done_to));
        }
        put_u32(block, at::DEV_NUMBER, self.device_number);
        put_u32(block, at::CORRECTED_READS, self.corrected_reads);
        block[at::DEVICE_UUID..at::DEVFLAGS].copy_from_slice(&self.device_uuid.0);
        block[at::DEVFLAGS] = self.device_flags;
        if let Some(log) = self.bad_block_log {
            block[at::BBLOG_SHIFT] = log.shift;
            put_u16(block, at::BBLOG_SIZE, narrow(to_sectors(log.bytes)));
            let sectors: i32 = narrow(log.offset / SECTOR as i64);
            put_u32(block, at::BBLOG_OFFSET, sectors.cast_unsigned());
        }
    }

    /// The feature bits that follow from the other fields.
    #[must_use]
    pub fn features(&self) -> Features {
        let mut bits = match self.consistency {
            Consistency::Resync => 0,
            Consistency::Bitmap { .. } => Features::BITMAP,
            Consistency::Ppl { is_multiple: true, .. } => Features::MULTIPLE_PPLS,
            Consistency::Ppl { .. } => Features::PPL,
        };
        if let Some(recovery) = self.recovery {
            let by_bitmap = if recovery.by_bitmap { Features::RECOVERY_BITMAP } else { 0 };
            bits |= Features::RECOVERY_OFFSET | by_bitmap;
        }
        if self.is_replacement {
            bits |= Features::REPLACEMENT;
        }
        if self.has_raid0_layout {
            bits |= Features::RAID0_LAYOUT;
        }
        Features(bits)
    }

    /// The role of the member itself.
    #[must_use]
    pub fn role(&self) -> DeviceRole {
        self.role_of(self.device_number)
    }

    /// The role of the device with this number. Devices that the superblock has no place for are
    /// spares.
    #[must_use]
    pub fn role_of(&self, device_number: u32) -> DeviceRole {
        self.roles.get(device_number as usize).copied().unwrap_or(DeviceRole::Spare)
    }

    /// How parity moves.
    #[must_use]
    pub const fn rotation(&self) -> Rotation {
        match (self.level, self.layout) {
            (Level::Raid5 | Level::Raid6, 2) => Rotation::LeftSymmetric,
            _ => Rotation::ParityLast,
        }
    }

    /// Bytes of each member that the array uses: [`size`](Self::size), or with RAID 0 the whole
    /// chunks of [`data_bytes`](Self::data_bytes).
    #[must_use]
    pub fn member_bytes(&self) -> u64 {
        match self.level {
            Level::Raid0 if self.chunk > 0 => self.data_bytes / self.chunk * self.chunk,
            _ => self.size,
        }
    }

    /// The mapping between the array's bytes and those of its members. Members' offsets begin at
    /// [`data_offset`](Self::data_offset).
    ///
    /// RAID 1 has no chunks: the layout's are as large as they can be, and at most 64 KiB.
    ///
    /// # Errors
    /// trimtab has no such layout.
    pub fn array_layout(&self) -> Result<Layout, LayoutError> {
        const LEAST: u64 = 4096;
        const MOST: u64 = 64 << 10;
        let chunk = match self.level {
            // A power of two that divides the size.
            Level::Raid1 => (1 << self.size.trailing_zeros().min(63)).clamp(LEAST, MOST),
            _ => self.chunk,
        };
        let members = self.raid_disks as usize;
        Layout::new(self.level, self.rotation(), members, chunk, self.member_bytes())
    }

    /// Where the bitmap is on the member, in bytes.
    #[must_use]
    pub fn bitmap_at(&self) -> Option<u64> {
        match self.consistency {
            Consistency::Bitmap { offset } => SUPERBLOCK_OFFSET.checked_add_signed(offset),
            _ => None,
        }
    }

    /// Where the area of the partial parity log is on the member, and its size, in bytes.
    #[must_use]
    pub fn ppl_at(&self) -> Option<(u64, u64)> {
        match self.consistency {
            Consistency::Ppl { offset, bytes, .. } => {
                Some((SUPERBLOCK_OFFSET.checked_add_signed(offset)?, bytes))
            }
            _ => None,
        }
    }
}

/// The sum of the little-endian words up to the last role, without the checksum itself, its upper
/// half added to the lower one.
pub(crate) fn checksum(block: &[u8]) -> u32 {
    let bytes = FIXED_BYTES + 2 * get_u32(block, at::MAX_DEV) as usize;
    let mut sum = 0_u64;
    for start in (0..bytes).step_by(4).filter(|&start| start != at::SB_CSUM) {
        sum += match bytes - start {
            2 => u64::from(get_u16(block, start)),
            _ => u64::from(get_u32(block, start)),
        };
    }
    (sum as u32).wrapping_add((sum >> 32) as u32)
}

/// md's number for a level.
const fn level_number(level: Level) -> u32 {
    match level {
        Level::Raid0 => 0,
        Level::Raid1 => 1,
        Level::Raid4 => 4,
        Level::Raid5 => 5,
        Level::Raid6 => 6,
    }
}

#[track_caller]
fn narrow<T: TryFrom<V>, V: Copy + std::fmt::Display>(value: V) -> T {
    T::try_from(value).unwrap_or_else(|_| panic!("{value} has no place in a superblock"))
}

fn array<const N: usize>(block: &[u8], at: usize) -> [u8; N] {
    *block[at..].first_chunk().expect("a field of the block")
}

fn bytes_at(block: &[u8], at: usize, field: &'static str) -> Result<u64, SuperblockError> {
    let found = get_u64(block, at);
    let expected = "a number of sectors of which the bytes fit 64 bits";
    from_sectors(found).ok_or(SuperblockError::Field { field, found, expected })
}

fn consistency(block: &[u8], features: Features) -> Result<Consistency, SuperblockError> {
    let is_multiple = features.has(Features::MULTIPLE_PPLS);
    if is_multiple || features.has(Features::PPL) {
        if features.has(Features::BITMAP) || is_multiple && features.has(Features::PPL) {
            let found = u64::from(features.0);
            let expected = "one of bitmap, partial parity log and several of these";
            return Err(SuperblockError::Field { field: "feature_map", found, expected });
        }
        let offset = get_u16(block, at::BITMAP_OFFSET).cast_signed();
        let bytes = u64::from(get_u16(block, at::PPL_SIZE)) * SECTOR;
        let offset = i64::from(offset) * SECTOR as i64;
        return Ok(Consistency::Ppl { offset, bytes, is_multiple });
    }
    if features.has(Features::BITMAP) {
        let offset = get_u32(block, at::BITMAP_OFFSET).cast_signed();
        return Ok(Consistency::Bitmap { offset: i64::from(offset) * SECTOR as i64 });
    }
    Ok(Consistency::Resync)
}

fn recovery(block: &[u8], features: Features) -> Result<Option<Recovery>, SuperblockError> {
    if !features.has(Features::RECOVERY_OFFSET) {
        return Ok(None);
    }
    let done_to = bytes_at(block, at::RECOVERY_OFFSET, "recovery_offset")?;
    Ok(Some(Recovery { done_to, by_bitmap: features.has(Features::RECOVERY_BITMAP) }))
}

fn bad_block_log(block: &[u8]) -> Option<BadBlockLog> {
    let bytes = u64::from(get_u16(block, at::BBLOG_SIZE)) * SECTOR;
    let offset = i64::from(get_u32(block, at::BBLOG_OFFSET).cast_signed()) * SECTOR as i64;
    let shift = block[at::BBLOG_SHIFT];
    ((bytes, offset, shift) != (0, 0, 0)).then_some(BadBlockLog { offset, bytes, shift })
}
