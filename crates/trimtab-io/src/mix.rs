//! `SplitMix64`: the one integer mixer of the project, and a small generator made of it.

/// 2⁶⁴ divided by the golden ratio: the generator's increment.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Mixes a number over all 64 bits, so that adjacent inputs give unrelated outputs: the output
/// function of splitmix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators",
/// OOPSLA'14, Fig. 17). A bijection, the same on every machine.
#[must_use]
pub const fn mix64(x: u64) -> u64 {
    let x = x.wrapping_add(GOLDEN);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The seed of the `number`th of several things that share one seed: the `number`th
/// output of [`SplitMix64`] from that seed, counted from 0.
#[must_use]
pub const fn derived_seed(seed: u64, number: u64) -> u64 {
    mix64(seed.wrapping_add(number.wrapping_mul(GOLDEN)))
}

/// `SplitMix64` as a generator: eight bytes of state, enough for choices.
///
/// ```
/// let mut random = trimtab_io::SplitMix64::new(0);
/// // The first output of the published generator from seed 0.
/// assert_eq!(random.next(), 0xe220_a839_7b1d_cdaf);
/// assert!((0.0..=1.0).contains(&random.unit()));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// Starts from a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number, all 64 bits random.
    pub const fn next(&mut self) -> u64 {
        let mixed = mix64(self.0);
        self.0 = self.0.wrapping_add(GOLDEN);
        mixed
    }

    /// Uniform in (0, 1].
    pub const fn unit(&mut self) -> f64 {
        const STEP: f64 = 1.0 / (1_u64 << 53) as f64;
        ((self.next() >> 11) + 1) as f64 * STEP
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_published_generator() {
        assert_eq!(mix64(0), 0xe220_a839_7b1d_cdaf);
    }

    #[test]
    fn derived_seeds_are_generator_outputs() {
        let mut random = SplitMix64::new(7);
        for number in 0..10 {
            assert_eq!(derived_seed(7, number), random.next());
        }
    }
}
