//! Shares of the disk's time.

use trimtab_io::{Issuer, Nanos};

/// The weight of each control group, and the time slices of processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CfqWeights {
    /// Weights of groups by their number; the others have [`Self::WEIGHT`].
    pub groups: Vec<(u16, u32)>,
    /// The slice of a process at level 4. Each level is a fifth more or less (cfq-iosched.c of
    /// Linux 4.20, `cfq_prio_slice`).
    pub slice: Nanos,
}

impl CfqWeights {
    /// The weight of a group that was given none (Linux, `blkio.weight`).
    pub const WEIGHT: u32 = 500;

    /// The slice of a process at a level.
    pub(super) fn slice_of(&self, level: u8) -> Nanos {
        let fifths = 5 + 4 - u64::from(level.min(Issuer::LAST_LEVEL));
        Nanos(self.slice.0 / 5 * fifths)
    }

    pub(super) fn weight_of(&self, group: u16) -> u64 {
        let found = self.groups.iter().find(|(number, _)| *number == group);
        found.map_or(Self::WEIGHT, |(_, weight)| *weight).max(1).into()
    }
}

impl Default for CfqWeights {
    /// All groups alike, and slices of 100 ms, as CFQ has them.
    fn default() -> Self {
        Self { groups: Vec::new(), slice: Nanos::from_millis(100) }
    }
}
