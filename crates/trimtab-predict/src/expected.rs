//! The latency to expect of a read, by its size and the load.

use serde::{Deserialize, Serialize};
use trimtab_io::Nanos;

/// Classes of sizes and of loads, by powers of two.
pub const SIZE_CLASSES: usize = 12;
/// See [`SIZE_CLASSES`].
pub const LOAD_CLASSES: usize = 14;

/// The expected latency of a read, by its size and the load in flight: a table of classes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ExpectedLatency(Vec<[u64; LOAD_CLASSES]>);

/// The class of a number of pages, at most `classes - 1`: 0 for none, 1 for one page, 2 for two
/// or three, 3 for four to seven, and so on.
#[must_use]
pub fn class(pages: u32, classes: usize) -> usize {
    ((u32::BITS - pages.leading_zeros()) as usize).min(classes - 1)
}

impl ExpectedLatency {
    /// Takes latencies, ns, by the size's class and the load's.
    #[must_use]
    pub const fn new(table: Vec<[u64; LOAD_CLASSES]>) -> Self {
        Self(table)
    }

    /// The latency to expect of a read of `pages` 4 KiB pages when `load` others are in flight.
    #[must_use]
    pub fn latency(&self, pages: u32, load: u32) -> Nanos {
        let row = class(pages, SIZE_CLASSES).min(self.0.len().saturating_sub(1));
        Nanos(self.0.get(row).map_or(0, |row| row[class(load, LOAD_CLASSES)]))
    }
}
