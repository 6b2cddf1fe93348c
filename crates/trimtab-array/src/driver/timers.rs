//! Work that is due at a later time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use trimtab_io::Nanos;

use crate::planner::PartTimer;

/// Work that is due.
#[derive(Clone, Copy, Debug)]
pub(super) enum Due {
    /// A timer of the planner has expired.
    Timer(PartTimer),
    /// A computation is done.
    Computed(u32),
}

/// Work in order of time, and at one instant in the order in which it was entered.
#[derive(Debug, Default)]
pub(super) struct Timers {
    /// Time, number, and place in `work`.
    heap: BinaryHeap<Reverse<(Nanos, u64, u32)>>,
    work: Vec<Due>,
    free: Vec<u32>,
    entered: u64,
}

impl Timers {
    pub(super) fn add(&mut self, at: Nanos, due: Due) {
        let place = match self.free.pop() {
            Some(place) => place,
            None => {
                self.work.push(due);
                self.work.len() as u32 - 1
            }
        };
        self.work[place as usize] = due;
        self.heap.push(Reverse((at, self.entered, place)));
        self.entered += 1;
    }

    /// Drops the next timers as long as they are over: waiting for them would be in vain.
    pub(super) fn skip(&mut self, is_over: impl Fn(PartTimer) -> bool) {
        while let Some(&Reverse((_, _, place))) = self.heap.peek()
            && let Due::Timer(timer) = self.work[place as usize]
            && is_over(timer)
        {
            self.heap.pop();
            self.free.push(place);
        }
    }

    /// When the next work is due; [`Nanos::MAX`] if there is none.
    pub(super) fn next(&self) -> Nanos {
        self.heap.peek().map_or(Nanos::MAX, |&Reverse((at, ..))| at)
    }

    /// Takes the next work.
    pub(super) fn take(&mut self) -> Option<Due> {
        let Reverse((_, _, place)) = self.heap.pop()?;
        self.free.push(place);
        Some(self.work[place as usize])
    }
}
