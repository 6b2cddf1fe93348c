//! Small trees that compare leading bits, for AVX2.
//!
//! Ranks (lanes.rs) compare each feature with each of its thresholds. That is the larger part of a
//! decision, and every forest has thresholds of its own. Leading bits need no comparison: they are
//! computed once for all forests over the same features. AVX2 permutes bytes only, so a number is
//! looked up as two bytes, in one register of 32 trees each. A split is two cache lines.

use alloc::vec::Vec;

use super::avx2;
use super::blocks::PlainTree;

/// Trees per block.
pub(super) const TREES: usize = 32;
/// Maximum number of leaves of a tree.
pub(super) const LEAVES: usize = 8;

/// Inverts the highest bit of a byte: signed comparison is then that of unsigned bytes.
pub(super) const SIGN: u8 = 0x80;

/// One split of each of 32 trees. The tree goes right if the number at `place` exceeds the
/// threshold.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(super) struct Split {
    pub(super) place: [u8; TREES],
    /// The threshold's bytes, with [`SIGN`].
    pub(super) low: [u8; TREES],
    pub(super) high: [u8; TREES],
    /// Leaves excluded where the tree goes right.
    pub(super) out: [u8; TREES],
}

/// 32 trees with at most eight leaves and 16-bit values.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(super) struct Compact {
    pub(super) splits: [Split; LEAVES - 1],
    pub(super) values: [[i16; TREES]; LEAVES],
}

impl Compact {
    /// The blocks of a forest, whose splits compare leading bits at a feature's
    /// [place](avx2::byte_place); `None` if a tree or a value is too large.
    pub(super) fn all(trees: &[PlainTree]) -> Option<Vec<Self>> {
        trees.chunks(TREES).map(Self::new).collect()
    }

    fn new(trees: &[PlainTree]) -> Option<Self> {
        // A tree with fewer splits gets comparisons that are never true.
        let never = Split {
            place: [0; TREES],
            low: [u8::MAX ^ SIGN; TREES],
            high: [u8::MAX ^ SIGN; TREES],
            out: [0; TREES],
        };
        let mut new = Self { splits: [never; LEAVES - 1], values: [[0; TREES]; LEAVES] };
        for (number, tree) in trees.iter().enumerate() {
            if tree.leaves().len() > LEAVES {
                return None;
            }
            for (split, of_tree) in new.splits.iter_mut().zip(tree.splits()) {
                let [low, high] = of_tree.rank.to_le_bytes();
                split.place[number] = avx2::byte_place(usize::from(of_tree.lane)) as u8;
                (split.low[number], split.high[number]) = (low ^ SIGN, high ^ SIGN);
                split.out[number] = of_tree.left.clone().fold(0, |out, leaf| out | 1 << leaf);
            }
            for (values, &value) in new.values.iter_mut().zip(tree.leaves()) {
                values[number] = value.try_into().ok()?;
            }
        }
        Some(new)
    }
}
