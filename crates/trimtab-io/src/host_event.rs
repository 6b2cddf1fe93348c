//! What the host of a drive learns beside its requests and their completions.

use crate::flash::FlashEvent;

/// Something that the host knows of a drive or of the memory above it, and that no request tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostEvent {
    /// An internal operation of a drive whose host manages the flash.
    Flash(FlashEvent),
    /// The page cache above the drive.
    Cache(CacheEvent),
}

/// What comes into memory, and what leaves it. Pages are of 4 KiB, counted from the beginning of the
/// drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheEvent {
    /// These pages are in memory now.
    Filled {
        /// The first page.
        first: u64,
        /// Their number.
        pages: u64,
    },
    /// These pages are not in memory any more.
    Evicted {
        /// The first page.
        first: u64,
        /// Their number.
        pages: u64,
    },
}

impl From<FlashEvent> for HostEvent {
    fn from(event: FlashEvent) -> Self {
        Self::Flash(event)
    }
}

impl From<CacheEvent> for HostEvent {
    fn from(event: CacheEvent) -> Self {
        Self::Cache(event)
    }
}
