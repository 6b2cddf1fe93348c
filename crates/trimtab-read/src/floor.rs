//! The least time that a drive takes for a read: a deadline below it can only be met from
//! memory.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use trimtab_io::Nanos;

/// Reads of a window.
const WINDOW: u32 = 256;
/// Fewer reads tell nothing.
const FEWEST: u32 = 16;

/// The least latency among the last 256 to 512 reads that reached the drive. The window forgets
/// a read that only seemed to reach it, because its pages arrived in the cache meanwhile.
#[derive(Debug, Default)]
pub(super) struct Floor {
    current: Window,
    before: Window,
}

#[derive(Debug)]
struct Window {
    reads: AtomicU32,
    /// Of the reads that completed.
    least: AtomicU64,
    /// The longest time that a read was waited for in vain.
    waited: AtomicU64,
}

impl Default for Window {
    fn default() -> Self {
        Self {
            reads: AtomicU32::new(0),
            least: AtomicU64::new(u64::MAX),
            waited: AtomicU64::new(0),
        }
    }
}

impl Floor {
    /// The drive has completed a read in this time.
    pub(super) fn completed(&self, took: Nanos) {
        self.current.least.fetch_min(took.0, Relaxed);
        self.count();
    }

    /// The drive has not completed a read within this time.
    pub(super) fn abandoned(&self, after: Nanos) {
        self.current.waited.fetch_max(after.0, Relaxed);
        self.count();
    }

    /// Threads that come between lose their read: there are enough.
    fn count(&self) {
        if self.current.reads.fetch_add(1, Relaxed) + 1 == WINDOW {
            let (from, to) = (&self.current, &self.before);
            to.least.store(from.least.swap(u64::MAX, Relaxed), Relaxed);
            to.waited.store(from.waited.swap(0, Relaxed), Relaxed);
            to.reads.store(from.reads.swap(0, Relaxed), Relaxed);
        }
    }

    /// Reads that take less cannot come from the drive; `None` until enough reads are known. If
    /// none has completed, all took longer than they were waited for.
    pub(super) fn get(&self) -> Option<Nanos> {
        let windows = [&self.current, &self.before];
        let reads: u32 = windows.iter().map(|window| window.reads.load(Relaxed)).sum();
        if reads < FEWEST {
            return None;
        }
        let least = windows.iter().map(|window| window.least.load(Relaxed)).min();
        let waited = windows.iter().map(|window| window.waited.load(Relaxed)).max();
        match (least, waited) {
            (Some(u64::MAX) | None, waited) => Some(Nanos(waited?.saturating_add(1))),
            (Some(least), _) => Some(Nanos(least)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floor_is_the_least_of_recent_reads() {
        let floor = Floor::default();
        for _ in 0..FEWEST - 1 {
            floor.completed(Nanos(90_000));
        }
        assert_eq!(floor.get(), None);
        floor.completed(Nanos(70_000));
        assert_eq!(floor.get(), Some(Nanos(70_000)));
        // One that the page cache served after all is forgotten.
        floor.completed(Nanos(1_000));
        assert_eq!(floor.get(), Some(Nanos(1_000)));
        for _ in 0..2 * WINDOW {
            floor.completed(Nanos(80_000));
        }
        assert_eq!(floor.get(), Some(Nanos(80_000)));
    }

    #[test]
    fn reads_that_none_waited_for_bound_it_from_below() {
        let floor = Floor::default();
        for _ in 0..FEWEST {
            floor.abandoned(Nanos(20_000));
        }
        assert_eq!(floor.get(), Some(Nanos(20_001)));
        floor.completed(Nanos(85_000));
        assert_eq!(floor.get(), Some(Nanos(85_000)));
    }
}
