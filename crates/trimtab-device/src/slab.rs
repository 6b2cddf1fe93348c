//! A slab: entries addressed by stable, reusable indices.

/// No entry.
pub(crate) const NONE: u32 = u32::MAX;

/// A vector whose free indices are reused. An index is stable while its entry lives.
#[derive(Clone, Debug)]
pub(crate) struct Slab<T> {
    places: Vec<T>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    pub(crate) const fn new() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }

    pub(crate) fn insert(&mut self, thing: T) -> u32 {
        match self.free.pop() {
            Some(index) => {
                self.places[index as usize] = thing;
                index
            }
            None => {
                self.places.push(thing);
                (self.places.len() - 1) as u32
            }
        }
    }

    /// Frees an entry. It stays readable until its index is reused.
    pub(crate) fn remove(&mut self, index: u32) {
        self.free.push(index);
    }

    /// All entries with their indices, freed ones included.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        (0..).zip(&self.places)
    }

    /// Entries in use.
    pub(crate) const fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }
}

impl<T> std::ops::Index<u32> for Slab<T> {
    type Output = T;

    fn index(&self, index: u32) -> &T {
        &self.places[index as usize]
    }
}

impl<T> std::ops::IndexMut<u32> for Slab<T> {
    fn index_mut(&mut self, index: u32) -> &mut T {
        &mut self.places[index as usize]
    }
}
