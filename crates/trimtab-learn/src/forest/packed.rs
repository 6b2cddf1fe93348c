//! Vectorised forest evaluation: all splits are evaluated at once.
//!
//! Walking a tree is a chain of dependent loads. This algorithm has no dependent loads and no
//! branches. It is QuickScorer (Lucchese et al., SIGIR'15) transposed: the elements of a register
//! are trees.
//!
//! 1. **Short numbers.** Each feature is mapped to a short number that compares the same, in a
//!    register. If all thresholds are where the twelve leading bits of a feature change (see
//!    coarse.rs), these bits are such a number, a word; AVX2 takes it as two bytes, if the trees
//!    are small (compact.rs). Otherwise it is a rank, a byte with AVX2 and a word with AVX-512: a
//!    lane counts which of up to a few dozen thresholds of one feature are below it. A feature with
//!    many thresholds has several lanes, which balances them. There are at most 128 lanes.
//! 2. **Comparisons.** A split compares the number in a lane with another. For as many trees as a
//!    register has elements (a block): one lookup among the lanes, one comparison. Where a tree
//!    goes right, the leaves to the left are excluded: bits, one per leaf, in as many elements as
//!    needed (planes).
//! 3. **Leaves.** The leftmost leaf that is not excluded is the result. Its value is looked up and
//!    added.
//!
//! A small forest, one block of trees with at most eight leaves, is evaluated without loops: the
//! number of its splits is known at compile time.

mod avx2;
mod avx512;
mod blocks;
mod compact;
mod lanes;

use alloc::vec::Vec;

use super::coarse;
use super::view::View;
use crate::Simd;
use crate::simd::Level;

use blocks::{Blocks, PlainTree};
use compact::Compact;
use lanes::{Lanes, Plan};

/// Maximum number of features.
const FEATURES: usize = 128;

/// Lanes compared together, and trees whose values are adjacent.
const GROUP: usize = 16;

/// A cache line, aligned: a load across two costs twice.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Line<T>(T);

/// A forest arranged for vector instructions.
#[derive(Clone, Debug)]
pub(super) struct Packed {
    base: i32,
    lanes: Lanes,
    /// Whether AVX-512 compares leading bits instead of ranks.
    leading_bits: bool,
    /// For AVX2, if leading bits suffice and all trees are small.
    compact: Option<Vec<Compact>>,
    /// For AVX2 otherwise.
    bytes: Blocks<u8, { avx2::BLOCK }>,
    /// For AVX-512.
    words: Blocks<u16, { avx512::BLOCK }>,
}

impl Packed {
    /// The packed forest; `None` if it has too many features or leaves.
    pub(super) fn new(view: View<'_>) -> Option<Self> {
        if view.features() > FEATURES {
            return None;
        }
        let plan = Plan::new(view)?;
        let leading_bits = coarse::suits(view);
        let words = match leading_bits {
            true => PlainTree::all(view, |node| coarse::find(node, avx512::place)),
            false => by_rank(view, &plan, avx512::place),
        };
        let compact = || Compact::all(&PlainTree::all(view, |node| coarse::find(node, |at| at))?);
        Some(Self {
            base: view.base(),
            lanes: Lanes::new(&plan),
            leading_bits,
            compact: leading_bits.then(compact).flatten(),
            bytes: Blocks::new(by_rank(view, &plan, avx2::place)?),
            words: Blocks::new(words?),
        })
    }

    /// The score of a sample with the forest's number of features; `None` if the forest must be
    /// walked.
    #[inline]
    pub(super) fn score(&self, simd: Simd, features: &[i32]) -> Option<i32> {
        match simd.level() {
            Level::Scalar => None,
            // SAFETY: a level exists only where the processor has it.
            Level::Avx2 => Some(unsafe { self.avx2(features) }),
            // SAFETY: as before.
            Level::Avx512 | Level::Avx512Vnni => Some(unsafe { self.avx512(features) }),
        }
    }

    /// The scores of two forests over the same features, if that is faster together.
    #[inline]
    pub(super) fn both(&self, other: &Self, simd: Simd, features: &[i32]) -> Option<[i32; 2]> {
        match simd.level() {
            Level::Scalar => None,
            // SAFETY: a level exists only where the processor has it.
            Level::Avx2 => unsafe { self.both_256(other, features) },
            // SAFETY: as before.
            Level::Avx512 | Level::Avx512Vnni => unsafe { self.both_512(other, features) },
        }
    }
}

/// The trees with rank comparisons; `place` maps a lane to its position.
fn by_rank(view: View<'_>, plan: &Plan, place: fn(usize) -> usize) -> Option<Vec<PlainTree>> {
    PlainTree::all(view, |node| {
        let (lane, rank) = plan.find(node);
        (place(lane) as u16, rank)
    })
}
