//! Requests in flight, in the order in which they were sent.

use crate::predictor::Ticket;

/// No slot.
pub(super) const NONE: u32 = u32::MAX;

/// Values by ticket. Slots are used again, so nothing is allocated after the deepest queue has
/// been seen.
#[derive(Clone, Debug)]
pub(super) struct Slots<T> {
    entries: Vec<Entry<T>>,
    free: Vec<u32>,
    first: u32,
    last: u32,
}

#[derive(Clone, Debug)]
struct Entry<T> {
    value: T,
    used: bool,
    before: u32,
    after: u32,
}

impl<T: Copy> Slots<T> {
    pub(super) const fn new() -> Self {
        Self { entries: Vec::new(), free: Vec::new(), first: NONE, last: NONE }
    }

    pub(super) const fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.first == NONE
    }

    /// The one that was added first.
    pub(super) fn oldest(&self) -> Option<&T> {
        self.entries.get(self.first as usize).map(|entry| &entry.value)
    }

    /// All tickets, the oldest first.
    pub(super) fn tickets(&self) -> impl Iterator<Item = Ticket> {
        let after = |slot: &u32| Some(self.entries.get(*slot as usize)?.after);
        std::iter::successors(Some(self.first), after).take_while(|&slot| slot != NONE).map(Ticket)
    }

    pub(super) fn add(&mut self, value: T) -> Ticket {
        let entry = Entry { value, used: true, before: self.last, after: NONE };
        let slot = if let Some(slot) = self.free.pop() {
            self.entries[slot as usize] = entry;
            slot
        } else {
            self.entries.push(entry);
            // As many as there are entries, so that removing never allocates.
            self.free.reserve(self.entries.capacity());
            (self.entries.len() - 1) as u32
        };
        match self.last {
            NONE => self.first = slot,
            last => self.entries[last as usize].after = slot,
        }
        self.last = slot;
        Ticket(slot)
    }

    pub(super) fn get(&self, ticket: Ticket) -> Option<&T> {
        let entry = self.entries.get(ticket.0 as usize)?;
        entry.used.then_some(&entry.value)
    }

    pub(super) fn get_mut(&mut self, ticket: Ticket) -> Option<&mut T> {
        let entry = self.entries.get_mut(ticket.0 as usize)?;
        entry.used.then_some(&mut entry.value)
    }

    /// Removes the value of a ticket; `None` if there is none.
    pub(super) fn remove(&mut self, ticket: Ticket) -> Option<T> {
        let entry = self.entries.get_mut(ticket.0 as usize).filter(|entry| entry.used)?;
        entry.used = false;
        let (value, before, after) = (entry.value, entry.before, entry.after);
        match before {
            NONE => self.first = after,
            before => self.entries[before as usize].after = after,
        }
        match after {
            NONE => self.last = before,
            after => self.entries[after as usize].before = before,
        }
        self.free.push(ticket.0);
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_that_of_adding_and_tickets_end_once() {
        let mut slots = Slots::new();
        let tickets = [1, 2, 3].map(|value| slots.add(value));
        assert_eq!(slots.remove(tickets[0]), Some(1));
        assert_eq!(slots.remove(tickets[0]), None);
        assert_eq!(slots.oldest(), Some(&2));
        let again = slots.add(4);
        assert_eq!(again, tickets[0]);
        assert_eq!(slots.remove(tickets[1]), Some(2));
        assert_eq!((slots.len(), slots.oldest()), (2, Some(&3)));
        assert_eq!((slots.remove(tickets[2]), slots.remove(again)), (Some(3), Some(4)));
        assert!(slots.is_empty() && slots.oldest().is_none());
    }
}
