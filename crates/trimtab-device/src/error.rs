//! Errors of profiles and requests.

use trimtab_io::Nanos;

/// Why a profile is invalid, or a request was refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// A key of a profile is out of range. The text names the key and the range.
    #[error("{0}")]
    Profile(String),
    /// A request beyond the drive's end.
    #[error(
        "request at byte {offset}, {length} bytes long, reaches beyond the drive's end at {capacity}"
    )]
    BeyondEnd {
        /// Its first byte.
        offset: u64,
        /// Its length, bytes.
        length: u64,
        /// The drive's capacity, bytes.
        capacity: u64,
    },
    /// A request with a time before an earlier one's.
    #[error("time runs back: a request at {now} after {before}")]
    TimeRunsBack {
        /// The request's time.
        now: Nanos,
        /// The drive's time.
        before: Nanos,
    },
}

impl Error {
    pub(crate) fn profile<T>(what: impl Into<String>) -> Result<T, Self> {
        Err(Self::Profile(what.into()))
    }

    /// The TOML reader's error, on one line.
    pub(crate) fn of_toml(error: &toml::de::Error, text: &str) -> Self {
        let what = error.message().trim().replace('\n', " ");
        Self::Profile(match error.span() {
            // A missing key has no line.
            Some(span) if !what.starts_with("missing field") => {
                let line = 1 + text[..span.start.min(text.len())].matches('\n').count();
                format!("line {line}: {what}")
            }
            _ => what,
        })
    }
}

/// A contradiction in a drive's bookkeeping, found by [`Ssd::verify`](crate::Ssd::verify).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Inconsistency {
    /// A mapped unit is not valid.
    #[error("user unit {user} is mapped to unit {unit}, which is invalid")]
    InvalidUnit {
        /// The user unit.
        user: u32,
        /// The unit of flash.
        unit: u32,
    },
    /// Map and reverse map disagree.
    #[error("user unit {user} is mapped to unit {unit} of {owner}")]
    WrongOwner {
        /// The user unit.
        user: u32,
        /// The unit of flash.
        unit: u32,
        /// Its owner in the reverse map.
        owner: u32,
    },
    /// The numbers of valid and of mapped units differ.
    #[error("{valid} units are valid, and {mapped} are mapped")]
    ValidUnits {
        /// Valid units of the drive.
        valid: u64,
        /// Mapped units of the drive.
        mapped: u64,
    },
    /// A block's count of valid units is wrong.
    #[error("block {block} has {valid} valid units, counted as {counted}")]
    BlockCount {
        /// The block.
        block: u32,
        /// Its valid units.
        valid: u16,
        /// Its counter.
        counted: u16,
    },
    /// A free block holds data.
    #[error("block {block} is free and not empty")]
    FreeBlock {
        /// The block.
        block: u32,
    },
    /// An open block is marked full.
    #[error("block {block} is being written and full")]
    OpenBlock {
        /// The block.
        block: u32,
    },
    /// An open block holds data in pages that have not been written.
    #[error("block {block} holds data beyond page {page}")]
    BeyondOpenPage {
        /// The block.
        block: u32,
        /// The next page to be written.
        page: u32,
    },
    /// The count of free blocks is wrong.
    #[error("{free} blocks are free, counted as {counted}")]
    FreeCount {
        /// Free blocks of the drive.
        free: usize,
        /// Their counter.
        counted: usize,
    },
}
