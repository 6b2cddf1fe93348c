//! One integer scrambler for everything that needs one.

/// Mixes all bits of `x` into all bits of the result, one to one: a step of
/// `SplitMix64` (G. Steele, D. Lea, C. Flood, "Fast splittable pseudorandom
/// number generators", OOPSLA 2014).
pub(crate) const fn mix64(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    #[test]
    fn agrees_with_the_published_generator() {
        // The first output of SplitMix64 seeded with 0.
        assert_eq!(super::mix64(0), 0xe220_a839_7b1d_cdaf);
    }
}
