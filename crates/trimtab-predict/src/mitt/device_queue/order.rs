//! How a disk serves its queue, and how closely it is followed.

use trimtab_io::Nanos;

/// The order in which a disk serves its device queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueOrder {
    /// First come, first served.
    Fifo,
    /// Shortest seek first among this many requests at most (MittOS, §4.9); those beyond wait in
    /// the dispatch queue, first come, first served.
    Sstf {
        /// The device queue's depth.
        depth: usize,
    },
    /// The shortest time to the first sector first, among as many: NCQ.
    Ncq {
        /// The device queue's depth.
        depth: usize,
        /// A request that has waited on the disk for so long goes first.
        starvation: Nanos,
    },
}

impl QueueOrder {
    /// How many requests are sorted; `None`: they are served as they come.
    pub(super) const fn depth(self) -> Option<usize> {
        match self {
            Self::Fifo => None,
            Self::Sstf { depth } | Self::Ncq { depth, .. } => Some(depth),
        }
    }
}

/// Terms of a disk's expected latency. For experiments: each can be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskPrecision {
    /// Completions correct the next free time (T_diff; MittOS, §4.2.1).
    pub feedback: bool,
    /// Requests take longer the larger they are. Without it each counts as one of 4 KiB.
    pub sizes: bool,
}

impl Default for DiskPrecision {
    fn default() -> Self {
        Self { feedback: true, sizes: true }
    }
}
