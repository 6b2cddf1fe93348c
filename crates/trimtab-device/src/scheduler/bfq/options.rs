//! Keys of BFQ.

use serde::{Deserialize, Serialize};
use trimtab_io::{Nanos, within};

use crate::error::Error;
use crate::scheduler::kind::GroupWeight;
use crate::scheduler::queue::BackSeek;

/// Keys of [`Bfq`](super::Bfq); the defaults are Linux's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BfqOptions {
    /// Whether processes that have just begun to read are preferred: their weight is raised. `true`
    /// by default.
    pub low_latency: bool,
    /// How long the device is kept idle for the next request of the process in service, ms. 8 by
    /// default; 0: never.
    pub slice_idle_ms: u64,
    /// The largest budget of a process, KiB. 8,192 by default. (Linux adapts it to the measured
    /// rate of the device; its `max_budget` sets it, in sectors.)
    pub max_budget_kib: u64,
    /// How long a budget may last, ms. 125 by default.
    pub timeout_sync_ms: u64,
    /// A request that is waited for is served first in its queue after this time, ms. 125 by
    /// default.
    pub fifo_expire_sync_ms: u64,
    /// The same for shared writes, ms. 250 by default.
    pub fifo_expire_async_ms: u64,
    /// The farthest that the head goes back, KiB. 16,384 by default.
    pub back_seek_max_kib: u64,
    /// How many times as far a request behind the head counts. 2 by default.
    pub back_seek_penalty: u64,
    /// Whether the device has a head. `false` by default.
    pub rotational: bool,
    /// How long a weight stays raised, ms. By default 4,500 without a head and 13,500 with one:
    /// Linux's, before it has measured the device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raised_ms: Option<u64>,
    /// Weights of groups, 1 to 1,000. Others have 100.
    pub groups: Vec<GroupWeight>,
}

impl Default for BfqOptions {
    fn default() -> Self {
        Self {
            low_latency: true,
            slice_idle_ms: 8,
            max_budget_kib: 8192,
            timeout_sync_ms: 125,
            fifo_expire_sync_ms: 125,
            fifo_expire_async_ms: 250,
            back_seek_max_kib: 16_384,
            back_seek_penalty: 2,
            rotational: false,
            raised_ms: None,
            groups: Vec::new(),
        }
    }
}

/// The weight of a group that has none.
const WEIGHT: u32 = 100;

impl BfqOptions {
    pub(in crate::scheduler) fn check(&self) -> Result<(), Error> {
        const MINUTE_MS: u64 = 60_000;
        let wrong = |e: trimtab_io::OutOfRange| Error::Profile(e.to_string());
        within("slice_idle_ms", self.slice_idle_ms, 0..=MINUTE_MS).map_err(wrong)?;
        within("max_budget_kib", self.max_budget_kib, 16..=1 << 30).map_err(wrong)?;
        within("timeout_sync_ms", self.timeout_sync_ms, 1..=MINUTE_MS).map_err(wrong)?;
        within("fifo_expire_sync_ms", self.fifo_expire_sync_ms, 0..=MINUTE_MS).map_err(wrong)?;
        within("fifo_expire_async_ms", self.fifo_expire_async_ms, 0..=MINUTE_MS).map_err(wrong)?;
        within("back_seek_max_kib", self.back_seek_max_kib, 0..=1 << 40).map_err(wrong)?;
        within("back_seek_penalty", self.back_seek_penalty, 1..=1000).map_err(wrong)?;
        within("raised_ms", self.raised_ms.unwrap_or(0), 0..=MINUTE_MS).map_err(wrong)?;
        GroupWeight::check(&self.groups, 1..=1000)
    }

    pub(super) fn weight(&self, group: u16) -> u32 {
        GroupWeight::of(&self.groups, group).unwrap_or(WEIGHT)
    }

    pub(super) const fn slice_idle(&self) -> Nanos {
        Nanos::from_millis(self.slice_idle_ms)
    }

    /// Sectors.
    pub(super) const fn max_budget(&self) -> u64 {
        self.max_budget_kib * 2
    }

    /// The least budget, sectors.
    pub(super) const fn min_budget(&self) -> u64 {
        self.max_budget() / 32
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

    pub(super) const fn raised(&self) -> Nanos {
        let by_default = if self.rotational { 13_500 } else { 4_500 };
        Nanos::from_millis(match self.raised_ms {
            Some(ms) => ms,
            None => by_default,
        })
    }
}
