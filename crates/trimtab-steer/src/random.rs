//! Random numbers from a seed.

/// `SplitMix64` (Steele, Lea and Flood, "Fast splittable pseudorandom number
/// generators", OOPSLA 2014): eight bytes of state, enough for choices.
#[derive(Clone, Copy, Debug)]
pub struct Random(u64);

impl Random {
    /// Begins at a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number, all 64 bits random.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = self.0;
        let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in (0, 1].
    pub const fn unit(&mut self) -> f64 {
        const STEP: f64 = 1.0 / (1_u64 << 53) as f64;
        ((self.next() >> 11) + 1) as f64 * STEP
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn agrees_with_the_published_generator() {
        // The first output of SplitMix64 seeded with 0.
        assert_eq!(super::Random::new(0).next(), 0xe220_a839_7b1d_cdaf);
    }
}
