//! Features reduced to their leading bits.

use super::view::{Node, View};

/// Maximum number of features.
const FEATURES: usize = 64;

/// Leading bits kept, without the first, which is always 1.
const BITS: u32 = 11;

/// A monotone 16-bit number: the bit length of `x` and the bits after the first, as in a
/// floating-point number. Exact up to 4095, and to one part in 2048 above; 0 for zero and negative
/// numbers.
const fn coarse(x: i32) -> u16 {
    if x <= 0 {
        return 0;
    }
    let exponent = x.ilog2();
    let leading = (x as u64) << BITS >> exponent;
    (exponent << BITS) as u16 + (leading as u16 & ((1 << BITS) - 1)) + 1
}

/// The largest number with the same leading bits. (Negative numbers have none; they stay as they
/// are.)
pub(super) const fn rounded(threshold: i32) -> i32 {
    match threshold.checked_ilog2() {
        Some(exponent) => threshold | ((1 << exponent.saturating_sub(BITS)) - 1),
        None => threshold,
    }
}

/// Whether leading bits suffice to compare with all thresholds.
pub(super) fn suits(view: View<'_>) -> bool {
    let suits = |node: &Node| node.threshold >= 0 && rounded(node.threshold) == node.threshold;
    view.features() <= FEATURES && view.nodes().iter().all(suits)
}

/// The position of a split's feature, and the number it has to exceed for a sample to go right.
pub(super) fn find(node: &Node, place: fn(usize) -> usize) -> (u16, u16) {
    (place(usize::from(node.feature)) as u16, coarse(node.threshold))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coarse_is_monotone_at_valid_thresholds() {
        let edges = (0..31).flat_map(|bit| (-2..=2).map(move |off| (1_i32 << bit) + off));
        let more = (0..4200).chain(edges).chain([i32::MAX - 1, i32::MIN, -1]);
        for x in more {
            let t = rounded(x);
            assert!(t >= x && coarse(t) == coarse(x), "{x}");
            assert!(t < 0 || t == i32::MAX || coarse(t + 1) > coarse(t), "{x}");
        }
        assert_eq!((coarse(0), coarse(1), coarse(2), coarse(3)), (0, 1, 2049, 3073));
        assert_eq!(coarse(i32::MAX), 31 << 11);
    }
}
