//! Keys of CFQ.

use serde::{Deserialize, Serialize};
use trimtab_io::{Issuer, Nanos, within};

use crate::error::Error;
use crate::scheduler::kind::GroupWeight;
use crate::scheduler::queue::BackSeek;

/// Keys of [`Cfq`](super::Cfq); the defaults are those of Linux 4.20.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CfqOptions {
    /// Slice of a process at level 4, ms. 100 by default. A level is worth a fifth of it: level 0
    /// has 180 ms, level 7 40 ms.
    pub slice_sync_ms: u64,
    /// The same for shared writes, ms. 40 by default.
    pub slice_async_ms: u64,
    /// A slice of shared writes at level L ends after 2 (8 − L) times this many requests, while
    /// others wait. 2 by default: 16 at level 4.
    pub slice_async_rq: u32,
    /// How long the device is kept idle for the next request of the process in service, ms. 8 by
    /// default; 0: never.
    pub slice_idle_ms: u64,
    /// Requests of a process in the device, while others wait. 8 by default.
    pub quantum: u32,
    /// A read, or a write that is waited for, is served first in its slice after this time, ms.
    /// 125 by default.
    pub fifo_expire_sync_ms: u64,
    /// The same for shared writes, ms. 250 by default.
    pub fifo_expire_async_ms: u64,
    /// The farthest that the head goes back, KiB. 16,384 by default.
    pub back_seek_max_kib: u64,
    /// How many times as far a request behind the head counts. 2 by default.
    pub back_seek_penalty: u64,
    /// Slices are shortened so that a turn of all processes takes this time, ms; 0: they are not.
    /// 300 by default.
    pub target_latency_ms: u64,
    /// Whether the device has a head. `true` by default. Without one, and with a queue of its own,
    /// it is not kept idle for sequential readers.
    pub rotational: bool,
    /// Weights of groups, 10 to 1,000. Others have 500.
    pub groups: Vec<GroupWeight>,
}

impl Default for CfqOptions {
    fn default() -> Self {
        Self {
            slice_sync_ms: 100,
            slice_async_ms: 40,
            slice_async_rq: 2,
            slice_idle_ms: 8,
            quantum: 8,
            fifo_expire_sync_ms: 125,
            fifo_expire_async_ms: 250,
            back_seek_max_kib: 16_384,
            back_seek_penalty: 2,
            target_latency_ms: 300,
            rotational: true,
            groups: Vec::new(),
        }
    }
}

/// The weight of a group that has none.
const WEIGHT: u32 = 500;

impl CfqOptions {
    pub(in crate::scheduler) fn check(&self) -> Result<(), Error> {
        const MINUTE_MS: u64 = 60_000;
        let wrong = |e: trimtab_io::OutOfRange| Error::Profile(e.to_string());
        within("slice_sync_ms", self.slice_sync_ms, 1..=MINUTE_MS).map_err(wrong)?;
        within("slice_async_ms", self.slice_async_ms, 1..=MINUTE_MS).map_err(wrong)?;
        within("slice_async_rq", self.slice_async_rq, 1..=1000).map_err(wrong)?;
        within("slice_idle_ms", self.slice_idle_ms, 0..=MINUTE_MS).map_err(wrong)?;
        within("quantum", self.quantum, 1..=1 << 16).map_err(wrong)?;
        within("fifo_expire_sync_ms", self.fifo_expire_sync_ms, 0..=MINUTE_MS).map_err(wrong)?;
        within("fifo_expire_async_ms", self.fifo_expire_async_ms, 0..=MINUTE_MS).map_err(wrong)?;
        within("back_seek_max_kib", self.back_seek_max_kib, 0..=1 << 40).map_err(wrong)?;
        within("back_seek_penalty", self.back_seek_penalty, 1..=1000).map_err(wrong)?;
        within("target_latency_ms", self.target_latency_ms, 0..=MINUTE_MS).map_err(wrong)?;
        GroupWeight::check(&self.groups, 10..=1000)
    }

    pub(super) fn weight(&self, group: u16) -> u32 {
        GroupWeight::of(&self.groups, group).unwrap_or(WEIGHT)
    }

    /// The slice of a level.
    pub(super) fn slice(&self, is_sync: bool, level: u8) -> Nanos {
        let base =
            Nanos::from_millis(if is_sync { self.slice_sync_ms } else { self.slice_async_ms });
        let above_last = u64::from(Issuer::LAST_LEVEL - level.min(Issuer::LAST_LEVEL));
        // Two fifths for level 7, and a fifth more for each level above it.
        Nanos(base.0 * (2 + above_last) / 5)
    }

    /// Requests of a slice of shared writes.
    pub(super) fn most_async(&self, level: u8) -> u32 {
        2 * self.slice_async_rq * u32::from(8 - level.min(Issuer::LAST_LEVEL))
    }

    pub(super) const fn slice_idle(&self) -> Nanos {
        Nanos::from_millis(self.slice_idle_ms)
    }

    pub(super) const fn fifo_expire(&self, is_sync: bool) -> Nanos {
        Nanos::from_millis(if is_sync {
            self.fifo_expire_sync_ms
        } else {
            self.fifo_expire_async_ms
        })
    }

    pub(super) const fn back_seek(&self) -> BackSeek {
        BackSeek { most: self.back_seek_max_kib << 10, penalty: self.back_seek_penalty }
    }
}
