//! A page cache in a scenario.

use serde::Deserialize;
use trimtab_device::{CacheProfile, PageCache};
use trimtab_io::Nanos;

/// The page cache above a device, in TOML.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheSpec {
    /// Its size, pages of 4 KiB.
    pub pages: u32,
    /// The time of a read from memory, µs.
    #[serde(default = "memory_us")]
    pub memory_us: f64,
    /// Whether it holds the beginning of the drive at first.
    #[serde(default)]
    pub warm: bool,
    /// The longest readahead, bytes.
    #[serde(default = "readahead")]
    pub readahead_bytes: u64,
    /// Neighbours that take memory.
    pub evict: Option<EvictionSpec>,
}

/// Neighbours that take memory and give it back, in TOML.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EvictionSpec {
    /// The share of the pages in memory that are evicted, at random, when they come.
    pub share: f64,
    /// How long until they come again, on average (exponential), ms.
    pub every_ms: f64,
}

/// A read of an in-memory page in MittOS's testbed (§4.4): 0.02 ms.
const fn memory_us() -> f64 {
    20.0
}

const fn readahead() -> u64 {
    128 << 10
}

impl CacheSpec {
    /// # Errors
    /// One line that names the key and its range.
    pub fn check(&self) -> Result<(), String> {
        if !(0.0..=1e6).contains(&self.memory_us) {
            return Err(format!(
                "`cache.memory_us` must be from 0 to 1000000, not {}",
                self.memory_us
            ));
        }
        if let Some(EvictionSpec { share, every_ms }) = self.evict {
            if !(0.0..=1.0).contains(&share) {
                return Err(format!("`cache.evict.share` must be from 0 to 1, not {share}"));
            }
            if !(1e-3..=1e9).contains(&every_ms) {
                return Err(format!(
                    "`cache.evict.every_ms` must be from 0.001 to 1e9, not {every_ms}"
                ));
            }
        }
        PageCache::new(&self.profile()).map(|_| ()).map_err(|error| format!("`cache`: {error}"))
    }

    /// The time of a read from memory.
    #[must_use]
    pub fn memory(&self) -> Nanos {
        Nanos((self.memory_us * 1e3).round() as u64)
    }

    pub(super) fn profile(&self) -> CacheProfile {
        let (pages, readahead) = (self.pages, self.readahead_bytes);
        CacheProfile { pages, readahead, ..CacheProfile::default() }
    }
}
