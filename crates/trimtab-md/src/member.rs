//! Reading and writing the metadata of a device.

use std::fs::File;
use std::io::{self, Seek as _, SeekFrom};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use crate::assemble::Candidate;
use crate::bitmap::{BITMAP_HEADER_BYTES, Bitmap, BitmapHeader};
use crate::bytes::get_u32;
use crate::create::NewMetadata;
use crate::ppl::{PplHeader, newest_ppl, ppl_signature};
use crate::superblock::{MAGIC, SUPERBLOCK_BYTES, SUPERBLOCK_OFFSET, Superblock, at};
use crate::{BitmapError, PplError, SuperblockError};

/// A device or file whose metadata are read and written. What is written is on stable storage when
/// the call returns.
#[derive(Debug)]
pub struct Member {
    file: File,
    name: String,
    bytes: u64,
}

/// The metadata of a device cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum MemberError {
    /// A call failed.
    #[error("{name}: cannot {what}: {error}")]
    Io {
        /// The device.
        name: String,
        /// What was being done.
        what: &'static str,
        /// The system's error.
        error: io::Error,
    },
    /// The superblock cannot be used.
    #[error("{name}: {error}")]
    Superblock {
        /// The device.
        name: String,
        /// What is wrong with it.
        error: SuperblockError,
    },
    /// The bitmap cannot be used.
    #[error("{name}: {error}")]
    Bitmap {
        /// The device.
        name: String,
        /// What is wrong with it.
        error: BitmapError,
    },
    /// The partial parity log cannot be used.
    #[error("{name}: {error}")]
    Ppl {
        /// The device.
        name: String,
        /// What is wrong with it.
        error: PplError,
    },
}

/// What a device had where its metadata were to be.
#[derive(Clone, Debug)]
pub struct Saved(Vec<(u64, Vec<u8>)>);

impl Member {
    /// Opens a device or file, for writing too if `writes`.
    ///
    /// # Errors
    /// It cannot be opened, or has no size.
    pub fn open(path: &Path, writes: bool) -> Result<Self, MemberError> {
        let name = path.display().to_string();
        let file = File::options().read(true).write(writes).open(path);
        file.and_then(|file| Self::new(file, name.clone())).map_err(|error| MemberError::Io {
            name,
            what: "open it",
            error,
        })
    }

    /// A device or file that is open. `name` is for messages.
    ///
    /// # Errors
    /// It has no size.
    pub fn new(mut file: File, name: String) -> io::Result<Self> {
        let bytes = file.seek(SeekFrom::End(0))?;
        Ok(Self { file, name, bytes })
    }

    /// Its bytes.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Reads the superblock. Those of other versions are looked for where they are.
    ///
    /// # Errors
    /// It cannot be read or used.
    pub fn superblock(&self) -> Result<Superblock, MemberError> {
        let named = |error| MemberError::Superblock { name: self.name.clone(), error };
        if self.bytes < SUPERBLOCK_OFFSET + SUPERBLOCK_BYTES as u64 {
            return Err(named(SuperblockError::None));
        }
        let block = self.read(SUPERBLOCK_OFFSET, SUPERBLOCK_BYTES, "read the superblock")?;
        match Superblock::parse(&block) {
            Err(SuperblockError::None) => Err(match self.other_version()? {
                Some(found) => named(SuperblockError::Version { found: found.to_owned() }),
                None => named(SuperblockError::None),
            }),
            result => result.map_err(named),
        }
    }

    /// The version of a superblock that is not at 4096.
    fn other_version(&self) -> Result<Option<&'static str>, MemberError> {
        const RESERVED: u64 = 64 << 10;
        let last = |unit: u64, before: u64| (self.bytes / unit * unit).checked_sub(before);
        let places = [
            (Some(0), "1.1"),
            // The last 4 KiB boundary that has 8 KiB behind it.
            (self.bytes.checked_sub(8192).map(|at| at / 4096 * 4096), "1.0"),
            (last(RESERVED, RESERVED), "0.90"),
        ];
        for (place, version) in places {
            let Some(place) = place else { continue };
            let start = self.read(place, 8, "look for superblocks of other versions")?;
            let (magic, major) = (get_u32(&start, at::MAGIC), get_u32(&start, at::MAJOR_VERSION));
            if magic == MAGIC && (major == 0) == (version == "0.90") {
                return Ok(Some(version));
            }
        }
        Ok(None)
    }

    /// Reads the bitmap of a member with this superblock, if it has one.
    ///
    /// # Errors
    /// It cannot be read or used.
    pub fn bitmap(&self, superblock: &Superblock) -> Result<Option<Bitmap>, MemberError> {
        let Some(at) = superblock.bitmap_at() else { return Ok(None) };
        let named = |error| MemberError::Bitmap { name: self.name.clone(), error };
        let what = "read the bitmap";
        let bytes = self.read(at, BITMAP_HEADER_BYTES, what)?;
        let total = BitmapHeader::parse(&bytes).map_err(named)?.total_bytes();
        // No more is read than there is room for.
        let room = superblock.data_offset.saturating_sub(at);
        if total > room {
            return Err(named(BitmapError::TooShort { found: room as usize, expected: total }));
        }
        let bytes = self.read(at, total as usize, what)?;
        Bitmap::parse(&bytes).map(Some).map_err(named)
    }

    /// Reads the newest partial parity log of a member with this superblock, if it has one: its
    /// header, and all of it from there, which [`PplHeader::recovery`] takes.
    ///
    /// # Errors
    /// It cannot be read or used.
    pub fn ppl(
        &self,
        superblock: &Superblock,
    ) -> Result<Option<(PplHeader, Vec<u8>)>, MemberError> {
        let Some((at, bytes)) = superblock.ppl_at() else { return Ok(None) };
        let is_multiple = superblock.features().has(crate::Features::MULTIPLE_PPLS);
        let mut area = self.read(at, bytes as usize, "read the partial parity log")?;
        let signature = ppl_signature(superblock.array_uuid);
        let (start, header) = newest_ppl(&area, signature, is_multiple)
            .map_err(|error| MemberError::Ppl { name: self.name.clone(), error })?;
        Ok(Some((header, area.split_off(start))))
    }

    /// What assembly has to know of the device. A bitmap that cannot be used counts as none.
    ///
    /// # Errors
    /// A call failed.
    pub fn candidate(&self) -> Result<Candidate, MemberError> {
        let superblock = match self.superblock() {
            Ok(superblock) => Ok(superblock),
            Err(MemberError::Superblock { error, .. }) => Err(error),
            Err(error) => return Err(error),
        };
        let bitmap = match superblock.as_ref().map(|superblock| self.bitmap(superblock)) {
            Ok(Ok(bitmap)) => bitmap,
            Ok(Err(error @ MemberError::Io { .. })) => return Err(error),
            _ => None,
        };
        Ok(Candidate { name: self.name.clone(), bytes: self.bytes, superblock, bitmap })
    }

    /// Writes the superblock.
    ///
    /// # Errors
    /// A call failed.
    pub fn write_superblock(&self, superblock: &Superblock) -> Result<(), MemberError> {
        self.write(SUPERBLOCK_OFFSET, &superblock.to_bytes(), "write the superblock")
    }

    /// Writes the whole bitmap where the superblock has it.
    ///
    /// # Errors
    /// A call failed.
    pub fn write_bitmap(&self, at: &Superblock, bitmap: &Bitmap) -> Result<(), MemberError> {
        match at.bitmap_at() {
            Some(at) => self.write(at, &bitmap.to_bytes(), "write the bitmap"),
            None => Ok(()),
        }
    }

    /// Writes what a new array has on this member: the superblock last, so that a crash before it
    /// leaves no array that is half made.
    ///
    /// # Errors
    /// A call failed.
    pub fn write_new(&self, metadata: &NewMetadata) -> Result<(), MemberError> {
        let superblock = &metadata.superblock;
        if let Some(bitmap) = &metadata.bitmap {
            self.write_bitmap(superblock, bitmap)?;
        }
        if let (Some(header), Some((at, _))) = (&metadata.ppl, superblock.ppl_at()) {
            self.write(at, &header.to_bytes(), "write the partial parity log")?;
        }
        self.write_bad_block_log(superblock)?;
        self.write_superblock(superblock)
    }

    /// What is now where the metadata are to be.
    ///
    /// # Errors
    /// A call failed.
    pub fn save(&self, new: &NewMetadata) -> Result<Saved, MemberError> {
        let superblock = &new.superblock;
        let log = superblock.bad_block_log;
        let areas = [
            Some((SUPERBLOCK_OFFSET, SUPERBLOCK_BYTES as u64)),
            superblock.bitmap_at().zip(new.bitmap.as_ref().map(|b| b.to_bytes().len() as u64)),
            superblock.ppl_at(),
            log.map(|log| (SUPERBLOCK_OFFSET.saturating_add_signed(log.offset), log.bytes)),
        ];
        let read = |(at, bytes)| Ok((at, self.read(at, bytes as usize, "read what is there")?));
        Ok(Saved(areas.into_iter().flatten().map(read).collect::<Result<_, MemberError>>()?))
    }

    /// Writes what was there.
    ///
    /// # Errors
    /// A call failed.
    pub fn put_back(&self, saved: &Saved) -> Result<(), MemberError> {
        let all = saved.0.iter();
        all.rev().try_for_each(|(at, bytes)| self.write(*at, bytes, "write to it"))
    }

    /// Writes an empty partial parity log with this number where the superblock has the area, and
    /// zeroes behind it: no older one is taken for the newest.
    ///
    /// # Errors
    /// A call failed.
    pub fn write_empty_ppl(&self, of: &Superblock, generation: u64) -> Result<(), MemberError> {
        let Some((at, bytes)) = of.ppl_at() else { return Ok(()) };
        let signature = ppl_signature(of.array_uuid);
        let mut area = PplHeader { signature, generation, entries: Vec::new() }.to_bytes().to_vec();
        area.resize(bytes as usize, 0);
        self.write(at, &area, "write the partial parity log")
    }

    /// Writes an empty log of bad blocks where the superblock has it.
    ///
    /// # Errors
    /// A call failed.
    pub fn write_bad_block_log(&self, of: &Superblock) -> Result<(), MemberError> {
        let Some(log) = of.bad_block_log else { return Ok(()) };
        // All ones: no entry.
        let at = SUPERBLOCK_OFFSET.saturating_add_signed(log.offset);
        self.write(at, &vec![0xff; log.bytes as usize], "write the log of bad blocks")
    }

    fn read(&self, at: u64, bytes: usize, what: &'static str) -> Result<Vec<u8>, MemberError> {
        let mut block = vec![0; bytes];
        let result = self.file.read_exact_at(&mut block, at);
        result.map_err(|error| self.failed(what, error)).map(|()| block)
    }

    fn write(&self, at: u64, block: &[u8], what: &'static str) -> Result<(), MemberError> {
        let result = self.file.write_all_at(block, at).and_then(|()| self.file.sync_data());
        result.map_err(|error| self.failed(what, error))
    }

    fn failed(&self, what: &'static str, error: io::Error) -> MemberError {
        MemberError::Io { name: self.name.clone(), what, error }
    }
}
