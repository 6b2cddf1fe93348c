//! A process, as CFQ serves it.

use trimtab_io::{IoClass, Nanos};

/// A process with requests that have not been dispatched; or, to be used again, without.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) process: u32,
    /// Whether its process waits for the requests. Others are in a node that processes share.
    pub(super) is_sync: bool,
    /// Its group's place in `groups`.
    pub(super) group: u16,
    pub(super) class: IoClass,
    pub(super) slice: Nanos,
    /// Predicted time of its requests.
    pub(super) pending: Nanos,
    /// Those that have not completed.
    pub(super) requests: u32,
    /// The first bytes of those that wait, in order.
    pub(super) waiting: Vec<u64>,
    /// The end of its last request.
    pub(super) end: u64,
}

impl Node {
    /// How many of its requests go before one at this offset: CFQ serves them upwards from the
    /// `position` of the arm, and then from the lowest.
    pub(super) fn before(&self, offset: u64, position: u64) -> usize {
        let up_to = |place| self.waiting.partition_point(|&other| other < place);
        let below = self.waiting.partition_point(|&other| other <= offset);
        let passed = up_to(position);
        if offset >= position {
            below - passed.min(below)
        } else {
            self.waiting.len() - passed + below
        }
    }

    /// The predicted time of so many of those that wait.
    pub(super) fn time_of(&self, requests: usize) -> Nanos {
        let time =
            u128::from(self.pending.0) * requests as u128 / self.waiting.len().max(1) as u128;
        Nanos(time as u64)
    }

    pub(super) fn insert(&mut self, offset: u64, time: Nanos) {
        let at = self.waiting.partition_point(|&other| other < offset);
        self.waiting.insert(at, offset);
        self.pending += time;
    }

    pub(super) fn remove(&mut self, offset: u64, time: Nanos) {
        if let Ok(at) = self.waiting.binary_search(&offset) {
            self.waiting.remove(at);
        }
        self.pending = self.pending - time;
    }
}
