//! The metadata of new arrays.

#[cfg(test)]
pub(crate) mod tests;

use trimtab_array::{Layout, LayoutError, Level, Rotation};

use crate::bitmap::{Bitmap, BitmapHeader};
use crate::bytes::SECTOR;
use crate::geometry::{
    AREA_OFFSET, PPL_BYTES, bad_block_log, bitmap_chunk, bitmap_room, data_offset,
};
use crate::identity::{ArrayName, Timestamp, Uuid};
use crate::ppl::{PplHeader, ppl_signature};
use crate::superblock::{Consistency, DeviceRole, Superblock, layout_number};

/// Seconds between two rounds in which md clears bits of the bitmap, by default.
const CLEAR_INTERVAL_S: u32 = 5;
/// Places for roles in a new superblock: as many as md has.
const ROLES: usize = 128;

/// An array that is to be created.
#[derive(Clone, Debug)]
pub struct NewArray {
    /// Tells it from others: random.
    pub uuid: Uuid,
    /// Its name.
    pub name: ArrayName,
    /// The level.
    pub level: Level,
    /// How parity moves: matters to RAID 5 and 6.
    pub rotation: Rotation,
    /// Bytes of a chunk. RAID 1 has none.
    pub chunk: u64,
    /// The members in the order of the layout. `None` is missing: the array begins degraded.
    pub members: Vec<Option<NewMember>>,
    /// Spares.
    pub spares: Vec<NewMember>,
    /// How the array finds what to resynchronise.
    pub consistency: NewConsistency,
    /// The members agree already, as those do that were zeroed: nothing is resynchronised.
    pub is_in_sync: bool,
    /// The time.
    pub now: Timestamp,
}

/// A device that is to be a member.
#[derive(Clone, Copy, Debug)]
pub struct NewMember {
    /// Its bytes.
    pub bytes: u64,
    /// Tells it from others: random.
    pub uuid: Uuid,
    /// Flags of the device, as [`Superblock::WRITE_MOSTLY`].
    pub flags: u8,
}

/// How a new array is to find what to resynchronise after a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewConsistency {
    /// All of it is resynchronised.
    Resync,
    /// A write-intent bitmap. A bit covers so many bytes, or what mdadm takes.
    Bitmap(Option<u64>),
    /// Partial parity logs.
    Ppl,
}

/// What has to be written to a new member.
#[derive(Clone, Debug)]
pub struct NewMetadata {
    /// At [`SUPERBLOCK_OFFSET`](crate::SUPERBLOCK_OFFSET).
    pub superblock: Superblock,
    /// At [`Superblock::bitmap_at`].
    pub bitmap: Option<Bitmap>,
    /// At [`Superblock::ppl_at`].
    pub ppl: Option<PplHeader>,
}

/// No such array can be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CreateError {
    /// No device at all, or too few to keep data.
    #[error("create: {found} members of {all} are there, {level} needs at least {least}")]
    TooFew {
        /// The level.
        level: Level,
        /// How many are there.
        found: usize,
        /// How many the array has.
        all: usize,
        /// How many must be there.
        least: usize,
    },
    /// A device is too small.
    #[error("create: member {member} has {found} bytes, expected more than {least}")]
    TooSmall {
        /// Which one: its number among members and spares.
        member: usize,
        /// Its bytes.
        found: u64,
        /// What the metadata and one chunk need.
        least: u64,
    },
    /// More devices than md has places for.
    #[error("create: {found} members and spares, expected at most 128")]
    TooMany {
        /// How many there are.
        found: usize,
    },
    /// The level does not have it.
    #[error("create: {level} has no {what}")]
    Consistency {
        /// The level.
        level: Level,
        /// Bitmap or log.
        what: &'static str,
    },
    /// Chunks of the bitmap that cannot be.
    #[error(
        "create: a bit of the bitmap for {found} bytes: expected a power of two from {least} to 2 GiB"
    )]
    BitmapChunk {
        /// Bytes of a chunk of the bitmap.
        found: u64,
        /// The least with which the bits have room.
        least: u64,
    },
    /// The layout does not exist.
    #[error("create: {0}")]
    Layout(#[from] LayoutError),
}

impl NewArray {
    /// The metadata of the members and then of the spares, without those that are missing. All is
    /// where mdadm 4.2 would put it.
    ///
    /// # Errors
    /// No such array can be: one line says why.
    pub fn create(&self) -> Result<Vec<NewMetadata>, CreateError> {
        let array = self.plan()?;
        let devices = self.devices();
        let metadata = devices.enumerate().filter_map(|(number, device)| {
            let device = device?;
            let mut superblock = array.superblock.clone();
            superblock.device_number = number as u32;
            superblock.device_uuid = device.uuid;
            superblock.device_flags = device.flags;
            if self.level == Level::Raid0 {
                superblock.data_bytes = device.bytes / SECTOR * SECTOR - superblock.data_offset;
            }
            Some(NewMetadata { superblock, bitmap: array.bitmap.clone(), ppl: array.ppl.clone() })
        });
        Ok(metadata.collect())
    }

    fn devices(&self) -> impl Iterator<Item = Option<NewMember>> {
        self.members.iter().copied().chain(self.spares.iter().copied().map(Some))
    }

    fn plan(&self) -> Result<NewMetadata, CreateError> {
        self.check()?;
        let first = self.devices().flatten().next().map_or(0, |first| first.bytes);
        let room = match self.consistency {
            NewConsistency::Ppl => PPL_BYTES,
            _ => bitmap_room(first),
        };
        let chunk = if self.level == Level::Raid1 { 0 } else { self.chunk };
        let data_offset = data_offset(first, chunk, room);
        let size = self.size(data_offset)?;
        let layout_chunk = if self.level == Level::Raid1 { 4096 } else { chunk };
        Layout::new(self.level, self.rotation, self.members.len(), layout_chunk, size)?;
        let (bitmap, used) = self.bitmap(size, room)?;
        let redundant = self.level != Level::Raid0;
        let superblock = Superblock {
            array_uuid: self.uuid,
            name: self.name,
            created: self.now,
            level: self.level,
            layout: layout_number(self.level, self.rotation),
            size: if redundant { size } else { 0 },
            chunk,
            raid_disks: self.members.len() as u32,
            consistency: match self.consistency {
                NewConsistency::Resync => Consistency::Resync,
                NewConsistency::Bitmap(_) => Consistency::Bitmap { offset: AREA_OFFSET },
                NewConsistency::Ppl => {
                    Consistency::Ppl { offset: AREA_OFFSET, bytes: PPL_BYTES, is_multiple: true }
                }
            },
            data_offset,
            data_bytes: size,
            recovery: None,
            is_replacement: false,
            device_number: 0,
            corrected_reads: 0,
            device_uuid: Uuid([0; 16]),
            device_flags: 0,
            bad_block_log: bad_block_log(data_offset, used),
            updated: self.now,
            events: 1,
            in_sync_to: (redundant && !self.is_in_sync).then_some(0),
            has_raid0_layout: false,
            roles: self.roles(),
        };
        let header = PplHeader { signature: ppl_signature(self.uuid), ..PplHeader::default() };
        let ppl = (self.consistency == NewConsistency::Ppl).then_some(header);
        Ok(NewMetadata { superblock, bitmap, ppl })
    }

    fn check(&self) -> Result<(), CreateError> {
        let (level, all) = (self.level, self.members.len());
        let found = self.members.iter().flatten().count();
        let least = match level {
            Level::Raid1 => 1,
            _ => all.saturating_sub(level.parities()).max(1),
        };
        if found < least {
            return Err(CreateError::TooFew { level, found, all, least });
        }
        let devices = all + self.spares.len();
        if devices > ROLES {
            return Err(CreateError::TooMany { found: devices });
        }
        match self.consistency {
            NewConsistency::Bitmap(_) if level == Level::Raid0 => {
                Err(CreateError::Consistency { level, what: "write-intent bitmap" })
            }
            NewConsistency::Ppl if level != Level::Raid5 => {
                Err(CreateError::Consistency { level, what: "partial parity log" })
            }
            _ if level == Level::Raid0 && !self.spares.is_empty() => {
                Err(CreateError::Consistency { level, what: "spares" })
            }
            _ => Ok(()),
        }
    }

    /// Bytes that each member has for data: what the smallest has, in whole chunks.
    fn size(&self, data_offset: u64) -> Result<u64, CreateError> {
        // mdadm counts in KiB.
        let unit = if self.level == Level::Raid1 { 1024 } else { self.chunk.max(1024) };
        let mut size = u64::MAX;
        for (member, device) in self.devices().enumerate() {
            let Some(NewMember { bytes: found, .. }) = device else { continue };
            let least = data_offset.saturating_add(unit);
            if found < least {
                return Err(CreateError::TooSmall { member, found, least });
            }
            size = size.min((found - data_offset) / unit * unit);
        }
        Ok(size)
    }

    /// The bitmap, and the bytes that the area behind the superblock takes.
    fn bitmap(&self, size: u64, room: u64) -> Result<(Option<Bitmap>, u64), CreateError> {
        let NewConsistency::Bitmap(chunk) = self.consistency else {
            return Ok((None, if self.level == Level::Raid0 { 0 } else { room }));
        };
        let least = bitmap_chunk(size, room);
        let chunk = chunk.unwrap_or(least);
        let mut header = BitmapHeader {
            array_uuid: self.uuid,
            events: 1,
            events_cleared: 1,
            sync_bytes: size,
            state: 0,
            chunk,
            clear_interval_s: CLEAR_INTERVAL_S,
            write_behind: 0,
            reserved: 0,
        };
        let is_valid = chunk.is_power_of_two() && (4096..=1 << 31).contains(&chunk);
        if !is_valid || header.total_bytes() > room {
            let mut least = 4096;
            header.chunk = least;
            while header.total_bytes() > room && least < 1 << 31 {
                least *= 2;
                header.chunk = least;
            }
            return Err(CreateError::BitmapChunk { found: chunk, least });
        }
        let mut bitmap = Bitmap::new(header);
        if !self.is_in_sync {
            bitmap.mark_all();
        }
        Ok((Some(bitmap), header.total_bytes().next_multiple_of(4096)))
    }

    fn roles(&self) -> Vec<DeviceRole> {
        let members = self.members.iter().enumerate().map(|(index, member)| match member {
            Some(_) => DeviceRole::Active(index as u16),
            None => DeviceRole::Spare,
        });
        let mut roles: Vec<_> = members.collect();
        roles.resize(ROLES, DeviceRole::Spare);
        roles
    }
}
