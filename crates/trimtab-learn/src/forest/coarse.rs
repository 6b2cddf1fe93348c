//! Features by their leading bits.

use super::view::{Node, View};

/// How many features there are room for.
const FEATURES: usize = 64;

/// Leading bits that are kept, but for the first, which is always 1.
const BITS: u32 = 11;

/// A number of 16 bits that grows with `x`: its length in bits and what follows the
/// first, as a floating-point number has it. Exact up to 4095, and to one part in
/// 2048 above; what is not positive is 0.
const fn coarse(x: i32) -> u16 {
    if x <= 0 {
        return 0;
    }
    let exponent = x.ilog2();
    let leading = (x as u64) << BITS >> exponent;
    (exponent << BITS) as u16 + (leading as u16 & ((1 << BITS) - 1)) + 1
}

/// The greatest number that has the same leading bits. (Of what is negative none is
/// kept; it stays what it is.)
pub(super) const fn rounded(threshold: i32) -> i32 {
    match threshold.checked_ilog2() {
        Some(exponent) => threshold | ((1 << exponent.saturating_sub(BITS)) - 1),
        None => threshold,
    }
}

/// Whether all thresholds are such that leading bits say on which side of them a
/// feature is.
pub(super) fn suits(view: View<'_>) -> bool {
    let suits = |node: &Node| node.threshold >= 0 && rounded(node.threshold) == node.threshold;
    view.features() <= FEATURES && view.nodes().iter().all(suits)
}

/// Where the feature of a split stands, and the number that it has to exceed for a
/// sample to go right.
pub(super) fn find(node: &Node, place: fn(usize) -> usize) -> (u16, u16) {
    (place(usize::from(node.feature)) as u16, coarse(node.threshold))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rises_where_thresholds_may_lie() {
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
