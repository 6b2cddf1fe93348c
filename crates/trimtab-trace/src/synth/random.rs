//! Random numbers that are identical on every machine.

use rand::Rng;
use rand_pcg::Pcg64;
use trimtab_io::mix64;

use super::Purpose;

/// A seeded generator with the distributions needed here.
#[derive(Clone, Debug)]
pub(super) struct Random(Pcg64);

impl Random {
    /// The generator for one purpose. Purposes start at unrelated states: PCG streams that share a
    /// state are correlated.
    pub(super) fn new(seed: u64, purpose: Purpose) -> Self {
        let high = mix64(seed.wrapping_add(mix64(purpose as u64)));
        let low = mix64(high);
        Self(Pcg64::new(u128::from(high) << 64 | u128::from(low), purpose as u128))
    }

    /// Uniform in [0, 1), in steps of 2⁻⁵³.
    #[inline]
    pub(super) fn unit(&mut self) -> f64 {
        const STEP: f64 = 1.0 / (1_u64 << 53) as f64;
        (self.0.next_u64() >> 11) as f64 * STEP
    }

    /// True with this probability.
    #[inline]
    pub(super) fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// Uniform in [0, n). The high half of a product is biased by at most n / 2⁶⁴, which is not
    /// measurable.
    #[inline]
    pub(super) fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.0.next_u64()) * u128::from(n)) >> 64) as u64
    }

    /// Exponential with this mean, to the nearest integer.
    pub(super) fn exponential(&mut self, mean: f64) -> u64 {
        // 1 - unit() is never zero, so its logarithm is finite.
        (-mean * libm::log(1.0 - self.unit()) + 0.5) as u64
    }
}
