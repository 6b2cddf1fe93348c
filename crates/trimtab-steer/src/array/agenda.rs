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
}

#[derive(Debug)]
struct Entry {
    at: Nanos,
    number: u64,
    todo: Todo,
}

impl Agenda {
    /// Enters a thing, and says by what number.
    pub fn add(&mut self, at: Nanos, todo: Todo) -> u64 {
        let number = self.entered;
        self.heap.push(Entry { at, number, todo });
        self.entered += 1;
        number
    }

    /// When the next thing is to be done, if there is one.
    #[must_use]
    pub fn next(&self) -> Option<Nanos> {
        self.heap.peek().map(|entry| entry.at)
    }

    /// Takes the next thing, with its number.
    pub fn take(&mut self) -> Option<(u64, Todo)> {
        self.heap.pop().map(|entry| (entry.number, entry.todo))
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
