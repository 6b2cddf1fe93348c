//! What is to be done at a later time.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use trimtab_io::Nanos;

use crate::action::{Attempt, Timer, Why};

/// Something to do.
#[derive(Clone, Copy, Debug)]
pub enum Todo {
    /// Tell the strategy that a timer has gone off.
    Timer(Timer),
    /// Submit an attempt.
    Send(Attempt, Why),
}

/// Things to do, in order of time, and at one instant in the order in which they
/// were thought of.
#[derive(Debug, Default)]
pub struct Agenda {
    heap: BinaryHeap<Entry>,
    entered: u64,
    /// The attempts on it, by their entries' numbers, but for the cancelled.
    attempts: Vec<(u64, Attempt)>,
}

#[derive(Debug)]
struct Entry {
    at: Nanos,
    number: u64,
    todo: Todo,
}

impl Agenda {
    /// Enters a timer.
    pub fn add_timer(&mut self, at: Nanos, timer: Timer) {
        self.add(at, Todo::Timer(timer));
    }

    /// Enters an attempt that is to be sent later.
    pub fn add_send(&mut self, at: Nanos, attempt: Attempt, why: Why) {
        self.attempts.push((self.entered, attempt));
        self.add(at, Todo::Send(attempt, why));
    }

    fn add(&mut self, at: Nanos, todo: Todo) {
        self.heap.push(Entry { at, number: self.entered, todo });
        self.entered += 1;
    }

    /// Takes an attempt off; false if it is not on it.
    pub fn cancel(&mut self, attempt: Attempt) -> bool {
        let place = self.attempts.iter().position(|(_, other)| *other == attempt);
        place.map(|place| self.attempts.swap_remove(place)).is_some()
    }

    /// When the next thing is to be done, if there is one.
    #[must_use]
    pub fn next(&self) -> Option<Nanos> {
        self.heap.peek().map(|entry| entry.at)
    }

    /// Takes the next thing; nothing, if that was cancelled.
    pub fn take(&mut self) -> Option<Todo> {
        let entry = self.heap.pop()?;
        if let Todo::Send(..) = entry.todo {
            let place = self.attempts.iter().position(|(number, _)| *number == entry.number)?;
            self.attempts.swap_remove(place);
        }
        Some(entry.todo)
    }
}

impl Ord for Entry {
    /// The earliest is the greatest: it stands on top of the heap.
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
