//! What can be wrong with metadata.

use crate::Features;

/// There is no superblock of version 1.2 that this crate can use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SuperblockError {
    /// Fewer bytes than a superblock has.
    #[error("superblock: {found} bytes, expected 4096 from byte 4096 of the member")]
    TooShort {
        /// How many there are.
        found: usize,
    },
    /// No magic number of md.
    #[error("superblock: none of md at byte 4096 of the member")]
    None,
    /// Another version of the format.
    #[error("superblock: version {found} of md's metadata is not supported, only 1.2")]
    Version {
        /// The version.
        found: String,
    },
    /// It was changed or only partly written.
    #[error("superblock: damaged: checksum {found:08x}, expected {expected:08x}")]
    Checksum {
        /// The checksum that it has.
        found: u32,
        /// The checksum of its content.
        expected: u32,
    },
    /// A field with a value that md does not write.
    #[error("superblock: damaged: {field} is {found}, expected {expected}")]
    Field {
        /// The field, by its name in `linux/raid/md_p.h`.
        field: &'static str,
        /// Its value.
        found: u64,
        /// What it may be.
        expected: &'static str,
    },
    /// Features that this crate does not understand.
    #[error("superblock: the array has features that are not supported: {0}")]
    Features(Features),
    /// A level that this crate does not understand.
    #[error("superblock: level {0} is not supported, only raid0, raid1, raid4, raid5, raid6")]
    Level(String),
    /// A layout that this crate does not understand.
    #[error("superblock: layout {0} is not supported, only left-symmetric and parity-last")]
    Layout(String),
}

/// There is no bitmap that this crate can use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BitmapError {
    /// Fewer bytes than the bitmap has.
    #[error("bitmap: {found} bytes, expected {expected}")]
    TooShort {
        /// How many there are.
        found: usize,
        /// How many the bitmap has.
        expected: u64,
    },
    /// No magic number.
    #[error("bitmap: none at this offset: magic {found:08x}, expected 6d746962")]
    None {
        /// What is in its place.
        found: u32,
    },
    /// Another version of the format.
    #[error("bitmap: version {found} ({what}) is not supported, only 4")]
    Version {
        /// The version.
        found: u32,
        /// What it is for.
        what: &'static str,
    },
    /// A field with a value that md does not write.
    #[error("bitmap: damaged: {field} is {found}, expected {expected}")]
    Field {
        /// The field, by its name in `struct bitmap_super_s`.
        field: &'static str,
        /// Its value.
        found: u64,
        /// What it may be.
        expected: &'static str,
    },
}

/// There is no partial parity log that can be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PplError {
    /// Fewer bytes than the header has, or than it says that follow.
    #[error("partial parity log: {found} bytes, expected {expected}")]
    TooShort {
        /// How many there are.
        found: usize,
        /// How many are needed.
        expected: usize,
    },
    /// Its header was changed or only partly written.
    #[error("partial parity log: damaged header: checksum {found:08x}, expected {expected:08x}")]
    Checksum {
        /// The checksum that it has.
        found: u32,
        /// The checksum of its content.
        expected: u32,
    },
    /// The log of another array.
    #[error("partial parity log: signature {found:08x} of another array, expected {expected:08x}")]
    Signature {
        /// The signature that it has.
        found: u32,
        /// The array's.
        expected: u32,
    },
    /// More entries than a header has room for.
    #[error("partial parity log: damaged header: {found} entries, expected at most 148")]
    Entries {
        /// How many it says.
        found: u32,
    },
    /// An entry that does not fit the array.
    #[error("partial parity log: entry {entry}: {what}")]
    Entry {
        /// Its index, from 0.
        entry: usize,
        /// What is wrong.
        what: &'static str,
    },
}
