//! Random permutations without a table.

use trimtab_io::SplitMix64;

/// The numbers below a bound, each once, in an order that looks random but is cache-friendly.
///
/// They are laid out in up to some thousand rows. A round takes the next number of each row, and
/// visits the rows in an order given by a Feistel network of four rounds (a bijection for any
/// keys). So successive numbers are far apart, but a round touches entries adjacent to those of the
/// previous round: a table of billions of bytes that is filled in this order stays in the caches
/// where it is being filled.
#[derive(Clone, Debug)]
pub(crate) struct Permutation {
    bound: u32,
    /// Bits of half a row's number.
    bits: u32,
    /// Numbers in a row.
    length: u32,
    random: SplitMix64,
    keys: [u32; 4],
    round: u32,
    in_round: u32,
}

/// Bits of half a row's number, at most: 4096 rows.
const MAX_BITS: u32 = 6;

impl Permutation {
    pub(crate) fn new(bound: u32, seed: u64) -> Self {
        // At least sixteen numbers per row, if there are enough.
        let bits = (bound / 16).checked_ilog2().map_or(0, |bits| bits / 2).min(MAX_BITS);
        let length = bound.div_ceil(1 << (2 * bits));
        let mut permutation = Self {
            bound,
            bits,
            length,
            random: SplitMix64::new(seed),
            keys: [0; 4],
            round: 0,
            in_round: 0,
        };
        permutation.draw_keys();
        permutation
    }

    /// Draws the keys of a round.
    fn draw_keys(&mut self) {
        for key in &mut self.keys {
            *key = (self.random.next() >> 32) as u32 | 1;
        }
    }

    const fn scramble(&self, n: u32) -> u32 {
        let mask = (1 << self.bits) - 1;
        let (mut left, mut right) = (n >> self.bits, n & mask);
        let mut i = 0;
        while i < self.keys.len() {
            let mixed = (right + self.keys[i] % 64).wrapping_mul(self.keys[i]) >> 16;
            (left, right) = (right, left ^ (mixed & mask));
            i += 1;
        }
        left << self.bits | right
    }
}

impl Iterator for Permutation {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        while self.round < self.length {
            let row = self.scramble(self.in_round);
            let number = row * self.length + self.round;
            self.in_round += 1;
            if self.in_round >> (2 * self.bits) != 0 {
                self.in_round = 0;
                self.round += 1;
                self.draw_keys();
            }
            // The last row may be shorter, or missing.
            if number < self.bound {
                return Some(number);
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
        fn permutation_yields_each_number_once(bound in 0_u32..5000, seed: u64) {
            let mut numbers: Vec<_> = Permutation::new(bound, seed).collect();
            numbers.sort_unstable();
            prop_assert!(numbers.into_iter().eq(0..bound));
        }
    }

    #[test]
    fn large_permutation_yields_each_number_once() {
        const BOUND: u32 = 1_000_003;
        let mut numbers: Vec<_> = Permutation::new(BOUND, 5).collect();
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(0..BOUND));
    }

    #[test]
    fn successive_numbers_are_far_apart() {
        const BOUND: u32 = 1 << 20;
        let numbers: Vec<_> = Permutation::new(BOUND, 3).collect();
        let near = numbers.windows(2).filter(|w| w[0].abs_diff(w[1]) < BOUND / 100).count();
        // Two random numbers are this close with a probability of 2%.
        assert!((15_000..27_000).contains(&near), "{near}");
    }
}
