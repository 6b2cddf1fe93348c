//! All numbers below a bound in random order, without a table of them.

/// The numbers below a bound, each once, in an order that looks random.
///
/// A Feistel network of four rounds is a bijection of the numbers of a few more
/// bits; what lies beyond the bound is passed over (Black and Rogaway, "Ciphers
/// with Arbitrary Finite Domains", 2002).
#[derive(Clone, Debug)]
pub(crate) struct Permutation {
    bound: u32,
    /// Bits of each half.
    bits: u32,
    keys: [u64; 4],
    next: u64,
}

impl Permutation {
    pub(crate) fn new(bound: u32, seed: u64) -> Self {
        let bits = (32 - bound.saturating_sub(1).leading_zeros()).max(2).div_ceil(2);
        let key = |i: u64| seed.wrapping_add(i).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        Self { bound, bits, keys: [1, 2, 3, 4].map(key), next: 0 }
    }

    fn scramble(&self, n: u64) -> u64 {
        let mask = (1_u64 << self.bits) - 1;
        let (mut left, mut right) = (n >> self.bits, n & mask);
        for key in self.keys {
            let mixed = (right.wrapping_mul(key) ^ (key >> 29)).wrapping_mul(key) >> 40;
            (left, right) = (right, left ^ (mixed & mask));
        }
        left << self.bits | right
    }
}

impl Iterator for Permutation {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        while self.next >> (2 * self.bits) == 0 {
            let n = self.scramble(self.next);
            self.next += 1;
            if n < u64::from(self.bound) {
                return Some(n as u32);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn has_each_number_once(bound in 0_u32..5000, seed: u64) {
            let mut numbers: Vec<_> = Permutation::new(bound, seed).collect();
            numbers.sort_unstable();
            prop_assert!(numbers.into_iter().eq(0..bound));
        }
    }

    #[test]
    fn neighbours_are_far_apart() {
        const BOUND: u32 = 1 << 20;
        let numbers: Vec<_> = Permutation::new(BOUND, 3).collect();
        let near = numbers.windows(2).filter(|w| w[0].abs_diff(w[1]) < BOUND / 100).count();
        // Two at random are so near with a probability of 2%.
        assert!((15_000..27_000).contains(&near), "{near}");
    }
}
