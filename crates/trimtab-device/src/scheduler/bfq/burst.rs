//! Bursts of new queues: a boot, a build, many threads of one service.

use trimtab_io::Nanos;

/// Queues that were made shortly after each other. Many of them are work that no user waits for
/// one by one, so that none of them is preferred.
#[derive(Clone, Debug, Default)]
pub(super) struct Burst {
    /// Queues of the burst so far.
    members: Vec<u32>,
    is_large: bool,
    last: Nanos,
}

/// A later queue begins another burst.
const INTERVAL: Nanos = Nanos::from_millis(180);
/// So many queues are a large burst.
const LARGE: usize = 8;

impl Burst {
    /// A queue was made. Returns those that turn out to be in a large burst.
    pub(super) fn add(&mut self, now: Nanos, queue: u32, others_are_busy: bool) -> Vec<u32> {
        if self.members.is_empty() && !self.is_large && others_are_busy {
            return Vec::new();
        }
        let is_new = now.since(self.last) > INTERVAL;
        self.last = now;
        if is_new {
            self.is_large = false;
            self.members.clear();
            if !others_are_busy {
                self.members.push(queue);
            }
            return Vec::new();
        }
        if self.is_large {
            return vec![queue];
        }
        self.members.push(queue);
        if self.members.len() < LARGE {
            return Vec::new();
        }
        self.is_large = true;
        std::mem::take(&mut self.members)
    }

    /// A queue was freed.
    pub(super) fn forget(&mut self, queue: u32) {
        self.members.retain(|&member| member != queue);
    }
}
