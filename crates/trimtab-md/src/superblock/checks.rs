//! Whether a block is a superblock of version 1.2, and one that can be used.

use trimtab_array::Level;

use super::{
    Consistency, MAGIC, MOST_DEVICES, SUPERBLOCK_BYTES, SUPERBLOCK_OFFSET, Superblock, at, checksum,
};
use crate::bytes::{SECTOR, get_u32, get_u64};
use crate::{Features, SuperblockError};

/// That it is a superblock of version 1.
pub(super) fn version(block: &[u8]) -> Result<(), SuperblockError> {
    let magic = get_u32(block, at::MAGIC);
    if magic == MAGIC.swap_bytes() {
        return Err(other_version("0.90 of a big-endian machine"));
    }
    if magic != MAGIC {
        return Err(SuperblockError::None);
    }
    match (get_u32(block, at::MAJOR_VERSION), get_u32(block, 8)) {
        (1, _) => Ok(()),
        (0, minor) => Err(other_version(&format!("0.{minor}"))),
        (major, _) => Err(other_version(&major.to_string())),
    }
}

fn other_version(found: &str) -> SuperblockError {
    SuperblockError::Version { found: found.to_owned() }
}

fn field(
    field: &'static str,
    found: impl Into<u64>,
    expected: &'static str,
) -> Result<(), SuperblockError> {
    Err(SuperblockError::Field { field, found: found.into(), expected })
}

/// That it is whole.
pub(super) fn checksum_matches(block: &[u8]) -> Result<(), SuperblockError> {
    let max_dev = get_u32(block, at::MAX_DEV);
    if max_dev as usize > MOST_DEVICES {
        return field("max_dev", max_dev, "at most 1920");
    }
    let (found, expected) = (get_u32(block, at::SB_CSUM), checksum(block));
    if found != expected {
        return Err(SuperblockError::Checksum { found, expected });
    }
    Ok(())
}

/// That it is of version 1.2, and that the features and the padding are as expected.
pub(super) fn fields(block: &[u8]) -> Result<(), SuperblockError> {
    match get_u64(block, at::SUPER_OFFSET) {
        sectors if sectors == SUPERBLOCK_OFFSET / SECTOR => {}
        0 => return Err(other_version("1.1")),
        _ => return Err(other_version("1.0")),
    }
    let features = Features(get_u32(block, at::FEATURE_MAP));
    if features.unsupported() != Features(0) {
        return Err(SuperblockError::Features(features.unsupported()));
    }
    if features.has(Features::RECOVERY_BITMAP) && !features.has(Features::RECOVERY_OFFSET) {
        return field("feature_map", features.0, "a recovery offset where a bitmap guides it");
    }
    if get_u32(block, at::PAD0) != 0 {
        return field("pad0", get_u32(block, at::PAD0), "0");
    }
    match block[at::PAD3..at::DEV_ROLES].iter().find(|&&byte| byte != 0) {
        Some(&byte) => field("pad3", byte, "0: the array may have a newer kernel's feature"),
        None => Ok(()),
    }
}

/// The level and its layout.
pub(super) fn level(block: &[u8], features: Features) -> Result<(Level, u32), SuperblockError> {
    let layout = get_u32(block, at::LAYOUT);
    let number = get_u32(block, at::LEVEL).cast_signed();
    let level = match number {
        0 => Level::Raid0,
        1 => Level::Raid1,
        4 => Level::Raid4,
        5 => Level::Raid5,
        6 => Level::Raid6,
        10 => return Err(SuperblockError::Level("raid10".to_owned())),
        -1 => return Err(SuperblockError::Level("linear".to_owned())),
        -4 => return Err(SuperblockError::Level("multipath".to_owned())),
        -5 => return Err(SuperblockError::Level("faulty".to_owned())),
        other => return Err(SuperblockError::Level(other.to_string())),
    };
    if features.has(Features::RAID0_LAYOUT) && level != Level::Raid0 {
        field("feature_map", features.0, "a RAID 0 layout with RAID 0 only")?;
    }
    let rotates = matches!(level, Level::Raid5 | Level::Raid6);
    let name = match layout {
        _ if !rotates => return Ok((level, layout)),
        2 | 5 => return Ok((level, layout)),
        0 => "left-asymmetric".to_owned(),
        1 => "right-asymmetric".to_owned(),
        3 => "right-symmetric".to_owned(),
        4 => "parity-first".to_owned(),
        other => other.to_string(),
    };
    Err(SuperblockError::Layout(name))
}

impl Superblock {
    /// That the fields agree with each other: what the kernel and mdadm make sure of, so that no
    /// arithmetic on them overflows and no two areas overlap.
    pub(super) fn check(&self) -> Result<(), SuperblockError> {
        self.check_shape()?;
        self.check_areas()?;
        let within = |bytes: u64| bytes <= self.member_bytes();
        if let Some(recovery) = self.recovery.filter(|recovery| !within(recovery.done_to)) {
            field("recovery_offset", recovery.done_to / SECTOR, "at most size")?;
        }
        match self.in_sync_to {
            Some(bytes) if self.level != Level::Raid0 && !within(bytes) => {
                field("resync_offset", bytes / SECTOR, "at most size, or all bits set")
            }
            _ => Ok(()),
        }
    }

    fn check_shape(&self) -> Result<(), SuperblockError> {
        if !(1..=MOST_DEVICES as u32).contains(&self.raid_disks) {
            field("raid_disks", self.raid_disks, "1 to 1920")?;
        }
        if self.level != Level::Raid1 && (self.chunk < 4096 || !self.chunk.is_multiple_of(4096)) {
            field("chunksize", self.chunk / SECTOR, "a multiple of 8")?;
        }
        if self.size > self.data_bytes {
            field("size", self.size / SECTOR, "at most data_size")?;
        }
        if self.level != Level::Raid0 && self.size == 0 {
            field("size", 0_u64, "more than 0")?;
        }
        let has_place = (self.device_number as usize) < self.roles.len();
        match self.role().index() {
            Some(index) if index >= self.raid_disks as usize => {
                field("dev_roles", index as u64, "less than raid_disks")
            }
            // Spares of a large number have none.
            _ if has_place || self.device_number < MOST_DEVICES as u32 => Ok(()),
            _ => field("dev_number", self.device_number, "less than 1920"),
        }
    }

    fn check_areas(&self) -> Result<(), SuperblockError> {
        let end = SUPERBLOCK_OFFSET + SUPERBLOCK_BYTES as u64;
        if self.data_offset < end {
            field("data_offset", self.data_offset / SECTOR, "at least 16: behind the superblock")?;
        }
        if self.data_offset.checked_add(self.data_bytes).is_none() {
            field("data_size", self.data_bytes / SECTOR, "an end that fits 64 bits")?;
        }
        // An area behind the superblock ends before the data; one before it has only 4096 bytes.
        let is_free = |offset: i64, bytes: u64| {
            let start = SUPERBLOCK_OFFSET.checked_add_signed(offset);
            let is_behind = |start: u64| {
                start >= end && start.checked_add(bytes).is_some_and(|end| end <= self.data_offset)
            };
            let is_before =
                |start: u64| start.checked_add(bytes).is_some_and(|end| end <= SUPERBLOCK_OFFSET);
            start.is_some_and(|start| is_behind(start) || is_before(start))
        };
        let expected = "an area between superblock and data";
        match self.consistency {
            Consistency::Bitmap { offset } if !is_free(offset, SECTOR) => {
                field("bitmap_offset", (offset / SECTOR as i64).cast_unsigned(), expected)
            }
            Consistency::Ppl { offset, bytes, .. } if !is_free(offset, bytes) => {
                field("ppl.offset", (offset / SECTOR as i64).cast_unsigned(), expected)
            }
            Consistency::Ppl { bytes, .. } if bytes < 8192 => {
                field("ppl.size", bytes / SECTOR, "at least 16")
            }
            _ => Ok(()),
        }
    }
}
