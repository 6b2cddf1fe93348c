//! Random numbers that are identical on every machine, from a seed.
//!
//! Only the generator comes from a library; distributions are implemented here, so that a newer
//! library version does not change models.

use rand::{Rng as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub(crate) struct Random(Pcg64Mcg);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Pcg64Mcg::seed_from_u64(seed))
    }

    /// Uniform from 0 to below `limit`. The bias is limit / 2⁶⁴.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        ((u128::from(self.0.next_u64()) * limit as u128) >> 64) as usize
    }

    /// Uniform from −1 to below 1, in steps of 2⁻²³.
    pub(crate) fn symmetric(&mut self) -> f32 {
        let steps = (self.0.next_u64() >> 40) as i32 - (1 << 23);
        steps as f32 / (1 << 23) as f32
    }

    /// Shuffles (Fisher and Yates).
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        self.draw(items, items.len());
    }

    /// Moves `count` random items to the front.
    pub(crate) fn draw<T>(&mut self, items: &mut [T], count: usize) {
        for place in 0..count.min(items.len()) {
            let other = place + self.below(items.len() - place);
            items.swap(place, other);
        }
    }
}
