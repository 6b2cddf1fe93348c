//! The in-flight request table.

use std::ops::{Index, IndexMut};

/// Requests in flight under stable slot numbers.
///
/// A number is free again after [`remove`](Self::remove), and the last one freed is
/// taken first: its memory is still in the processor's cache. The table allocates only
/// while it grows to the greatest number of requests in flight.
#[derive(Clone, Debug)]
pub struct InFlightTable<T> {
    slots: Vec<T>,
    free: Vec<u32>,
}

impl<T> Default for InFlightTable<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T> InFlightTable<T> {
    /// An empty table that holds `capacity` requests before it allocates.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        Self { slots: Vec::with_capacity(capacity), free: Vec::with_capacity(capacity) }
    }

    /// Requests in flight.
    #[must_use]
    #[inline]
    pub const fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether no request is in flight.
    #[must_use]
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The first slot in flight whose value fits. It looks at all of them.
    pub fn find(&self, fits: impl Fn(&T) -> bool) -> Option<u32> {
        let slots = (0..).zip(&self.slots).filter(|(_, value)| fits(value)).map(|(slot, _)| slot);
        { slots }.find(|slot| !self.free.contains(slot))
    }

    /// Enters a request and returns its slot.
    #[inline]
    pub fn insert(&mut self, value: T) -> u32 {
        self.insert_with(|_| value)
    }

    /// Enters the request that `make` builds from the slot's previous occupant, if it
    /// had one, and returns its slot.
    #[inline]
    pub fn insert_with(&mut self, make: impl FnOnce(Option<&T>) -> T) -> u32 {
        if let Some(slot) = self.free.pop() {
            let place = &mut self.slots[slot as usize];
            *place = make(Some(place));
            return slot;
        }
        self.slots.push(make(None));
        (self.slots.len() - 1) as u32
    }

    /// Frees a slot. Its value stays readable until the slot is used again.
    ///
    /// A slot must not be freed twice.
    #[inline]
    pub fn remove(&mut self, slot: u32) {
        debug_assert!(self.free.len() < self.slots.len(), "slot {slot} is freed twice");
        self.free.push(slot);
    }
}

impl<T> Index<u32> for InFlightTable<T> {
    type Output = T;

    #[inline]
    fn index(&self, slot: u32) -> &T {
        &self.slots[slot as usize]
    }
}

impl<T> IndexMut<u32> for InFlightTable<T> {
    #[inline]
    fn index_mut(&mut self, slot: u32) -> &mut T {
        &mut self.slots[slot as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_freed_slot_is_reused_first() {
        let mut table = InFlightTable::default();
        let slots: Vec<u32> = (0..4).map(|value| table.insert(value)).collect();
        assert_eq!((slots.as_slice(), table.len()), (&[0, 1, 2, 3][..], 4));
        table.remove(1);
        table.remove(3);
        assert_eq!((table.len(), table[3]), (2, 3), "readable until reused");
        assert_eq!(table.insert_with(|before| before.unwrap() + 10), 3);
        assert_eq!((table[3], table.insert(7), table.insert(8)), (13, 1, 4));
        table.remove(4);
        assert_eq!(
            (table.find(|&value| value == 8), table.find(|&value| value == 7)),
            (None, Some(1))
        );
        assert_eq!(table.insert(8), 4);
        (0..5).for_each(|slot| table.remove(slot));
        assert!(table.is_empty());
    }
}
