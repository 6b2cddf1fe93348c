//! The timer queue: work that is due at a later time.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use trimtab_io::Nanos;

use crate::action::{Attempt, Reason, Timer};

/// Work that is due.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Due {
    /// A timer of the strategy has expired.
    Timer(Timer),
    /// An attempt is to be submitted.
    Send(Attempt, Reason),
}

/// Work in order of time, and at one instant in the order in which it was entered.
#[derive(Debug, Default)]
pub(crate) struct TimerQueue {
    heap: BinaryHeap<Entry>,
    entered: u64,
    /// The attempts in the queue by their entries' numbers, without the cancelled ones.
    attempts: Vec<(u64, Attempt)>,
}

#[derive(Debug)]
struct Entry {
    at: Nanos,
    number: u64,
    due: Due,
}

impl TimerQueue {
    /// Enters a timer.
    pub(crate) fn add_timer(&mut self, at: Nanos, timer: Timer) {
        self.add(at, Due::Timer(timer));
    }

    /// Enters an attempt that is to be sent later.
    pub(crate) fn add_send(&mut self, at: Nanos, attempt: Attempt, reason: Reason) {
        self.attempts.push((self.entered, attempt));
        self.add(at, Due::Send(attempt, reason));
    }

    fn add(&mut self, at: Nanos, due: Due) {
        self.heap.push(Entry { at, number: self.entered, due });
        self.entered += 1;
    }

    /// Removes an attempt; false if it is not in the queue.
    pub(crate) fn cancel(&mut self, attempt: Attempt) -> bool {
        let place = self.attempts.iter().position(|(_, other)| *other == attempt);
        place.map(|place| self.attempts.swap_remove(place)).is_some()
    }

    /// Drops the next timers as long as they are over: waiting for them would be in vain.
    pub(crate) fn skip(&mut self, is_over: impl Fn(Timer) -> bool) {
        while let Some(Entry { due: Due::Timer(timer), .. }) = self.heap.peek()
            && is_over(*timer)
        {
            self.heap.pop();
        }
    }

    /// When the next work is due.
    pub(crate) fn next(&self) -> Option<Nanos> {
        self.heap.peek().map(|entry| entry.at)
    }

    /// Takes the next work; none if it was cancelled.
    pub(crate) fn take(&mut self) -> Option<Due> {
        let entry = self.heap.pop()?;
        if let Due::Send(..) = entry.due {
            let place = self.attempts.iter().position(|(number, _)| *number == entry.number)?;
            self.attempts.swap_remove(place);
        }
        Some(entry.due)
    }
}

impl Ord for Entry {
    /// The earliest is the greatest, so that it is at the top of the heap.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Entry {}
