//! Parameters of a page cache.

use serde::{Deserialize, Serialize};

use super::PAGE;

/// The greatest cache: 1 TiB.
const MOST_PAGES: u32 = 1 << 28;
/// The longest readahead window, bytes.
const MOST_READAHEAD: u64 = 64 << 20;

/// A page cache, in TOML.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CacheProfile {
    /// Pages of 4 KiB. Default: 262,144, 1 GiB.
    pub pages: u32,
    /// How many times as long as the inactive list the active one may be. Default (0):
    /// √(10 · GiB of memory), at least 1, as Linux has it.
    pub active_ratio: u64,
    /// The longest readahead window, bytes: a multiple of 4 KiB. Default: 128 KiB, Linux's
    /// `read_ahead_kb`. 0: no readahead.
    #[serde(rename = "readahead_bytes")]
    pub readahead: u64,
    /// The share of dirty pages beyond which the oldest are written, 0 to 1. Default: 0.1, as
    /// `vm.dirty_background_ratio`.
    pub background_dirty: f64,
    /// The share of unwritten pages beyond which writers wait, at least the former. Default:
    /// 0.2, as `vm.dirty_ratio`.
    pub most_dirty: f64,
}

impl Default for CacheProfile {
    fn default() -> Self {
        Self {
            pages: 1 << 18,
            active_ratio: 0,
            readahead: 128 << 10,
            background_dirty: 0.1,
            most_dirty: 0.2,
        }
    }
}

/// A profile that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("page cache: {key} must be {expected}, not {found}; docs/device-profile.md lists the keys")]
pub struct CacheProfileError {
    key: &'static str,
    expected: &'static str,
    found: String,
}

impl CacheProfile {
    /// # Errors
    /// A value is out of range.
    pub(super) fn check(&self) -> Result<(), CacheProfileError> {
        let fail = |key, expected, found: String| Err(CacheProfileError { key, expected, found });
        if !(1..=MOST_PAGES).contains(&self.pages) {
            return fail("pages", "from 1 to 268435456", self.pages.to_string());
        }
        if !self.readahead.is_multiple_of(PAGE) || self.readahead > MOST_READAHEAD {
            let expected = "a multiple of 4096, at most 67108864";
            return fail("readahead_bytes", expected, self.readahead.to_string());
        }
        if !(0.0..=1.0).contains(&self.background_dirty) {
            let found = self.background_dirty.to_string();
            return fail("background_dirty", "a share from 0 to 1", found);
        }
        if !(self.background_dirty..=1.0).contains(&self.most_dirty) {
            let expected = "a share from background_dirty to 1";
            return fail("most_dirty", expected, self.most_dirty.to_string());
        }
        Ok(())
    }

    pub(super) const fn ratio(&self) -> u64 {
        let gib = self.pages as u64 >> 18;
        match (self.active_ratio, (10 * gib).isqrt()) {
            (0, 0) => 1,
            (0, ratio) => ratio,
            (given, _) => given,
        }
    }
}
