//! Division by small integers, without a division.

/// `all / among`, rounded down; `all` if `among` is 0. A multiplication replaces the division,
/// which takes several times as long, for divisors below 64.
pub(crate) fn share(all: u32, among: u32) -> u32 {
    /// 2^63 / n, and a little more: too little to show in what is below 2^32.
    const PARTS: [u64; 64] = {
        let mut parts = [(1 << 63) + 1; 64];
        let mut n = 2;
        while n < parts.len() {
            parts[n] = (1 << 63) / n as u64 + 1;
            n += 1;
        }
        parts
    };
    match PARTS.get(among as usize) {
        Some(&part) => ((u128::from(part) * u128::from(all)) >> 63) as u32,
        None => all / among,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn share_equals_the_quotient() {
        for among in 1..200 {
            for all in (0..1000).chain((0..100).map(|i| u32::MAX - i)) {
                let multiple = all / among * among;
                for all in [all, multiple, multiple.wrapping_sub(1)] {
                    assert_eq!(share(all, among), all / among, "{all} / {among}");
                }
            }
        }
        assert_eq!(share(7, 0), 7);
    }
}
