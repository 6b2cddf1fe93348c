//! Places for things that come and go, found by number.

/// No place.
pub(crate) const NONE: u32 = u32::MAX;

/// A list of places whose numbers are used again. A number stays the same as
/// long as its thing lives.
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
            Some(place) => {
                self.places[place as usize] = thing;
                place
            }
            None => {
                self.places.push(thing);
                (self.places.len() - 1) as u32
            }
        }
    }

    /// Gives a place up. What stood there stays readable until the place is
    /// used again.
    pub(crate) fn remove(&mut self, place: u32) {
        self.free.push(place);
    }

    /// How many places are in use.
    pub(crate) const fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }
}

impl<T> std::ops::Index<u32> for Slab<T> {
    type Output = T;

    fn index(&self, place: u32) -> &T {
        &self.places[place as usize]
    }
}

impl<T> std::ops::IndexMut<u32> for Slab<T> {
    fn index_mut(&mut self, place: u32) -> &mut T {
        &mut self.places[place as usize]
    }
}
