//! A forest for vector instructions: all questions are asked at once.
//!
//! Walking a tree is a chain of loads, each waiting for the one before. Here
//! nothing waits, and nothing branches. It is QuickScorer's idea (Lucchese et
//! al., SIGIR'15) turned by 90 degrees: bytes of a register are trees.
//!
//! 1. **Ranks.** A lane compares one feature with up to a few dozen of the
//!    thresholds that the forest has for it, and counts those that lie below. A
//!    feature with many thresholds has several lanes, so that no lane has much
//!    more to do than another. There are at most 128 lanes, and a rank is a byte.
//! 2. **Answers.** A split asks whether the rank of a lane exceeds a number. For
//!    64 trees at a time (a block): one lookup of the ranks among the lanes, one
//!    comparison. Where a tree goes right, the leaves to the left are out: bits,
//!    one for each leaf, in as many bytes as are needed (planes).
//! 3. **Leaves.** The leftmost leaf that is not out is the answer. Its value is
//!    looked up and added.

mod avx2;
mod avx512;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;

use super::view::{Node, View};
use crate::Simd;
use crate::simd::Level;

/// The greatest number of features.
const FEATURES: usize = 128;

/// Lanes that are compared together.
const GROUP: usize = 16;

/// The greatest number of lanes.
const LANES: usize = 128;

/// Trees that are answered together.
const BLOCK: usize = 64;

/// Bits of a plane.
const PLANE: usize = 8;

/// The greatest number of planes: trees have up to 64 leaves.
const PLANES: usize = 8;

/// What a group costs in any case, in comparisons of 16 thresholds.
const GROUP_COST: usize = 6;

/// A byte for each tree of a block, or for each of 64 lanes.
type Bytes = [u8; BLOCK];

/// A cache line, and at the beginning of one: a load that lies in two costs twice.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Line<T>(T);

/// A forest arranged for vector instructions.
#[derive(Clone, Debug)]
pub(super) struct Packed {
    groups: Vec<Group>,
    /// Of all groups: thresholds, lane by lane, comparison by comparison.
    thresholds: Vec<Line<[i32; GROUP]>>,
    blocks: Vec<Block>,
    slots: Vec<Slot>,
    /// The planes of all slots: the leaves that are out where a tree goes right.
    out: Vec<Line<Bytes>>,
    /// The values of the leaves of all trees, sixteen trees side by side.
    values: Vec<Line<[i32; GROUP]>>,
    base: i32,
}

/// Sixteen lanes.
#[derive(Clone, Debug)]
struct Group {
    /// Which feature each lane looks at.
    features: [i32; GROUP],
    /// Which thresholds are compared.
    thresholds: Range<usize>,
}

/// Sixty-four trees.
#[derive(Clone, Debug)]
struct Block {
    slots: Range<usize>,
    /// Where the planes of the first slot begin.
    out: usize,
    /// Planes of each slot: 1, 2, 4 or 8.
    planes: usize,
    trees: usize,
    /// Where the values of the first trees' leaves begin; each sixteen trees have
    /// `planes` × 8 of them.
    values: usize,
}

/// One split of each tree of a block.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
struct Slot {
    /// Where the rank of the split's lane is.
    lane: Bytes,
    /// The tree goes right if the rank is greater.
    rank: Bytes,
}

impl Packed {
    /// The forest arranged; `None` if it has too many features or leaves for
    /// that.
    pub(super) fn new(view: View<'_>) -> Option<Self> {
        if view.features() > FEATURES {
            return None;
        }
        let lanes = Lanes::new(view)?;
        let trees: Option<Vec<PlainTree>> =
            (0..view.roots().len()).map(|tree| PlainTree::new(view, tree, &lanes)).collect();
        let mut trees = trees?;
        // Trees of like size share a block, which is as long as its largest.
        trees.sort_by_key(|tree| core::cmp::Reverse(tree.leaves.len()));
        let (groups, thresholds) = lanes.groups();
        let mut new = Self {
            groups,
            thresholds: thresholds.into_iter().map(Line).collect(),
            blocks: Vec::new(),
            slots: Vec::new(),
            out: Vec::new(),
            values: Vec::new(),
            base: view.base(),
        };
        trees.chunks(BLOCK).for_each(|trees| new.add_block(trees));
        Some(new)
    }

    /// The score of a sample of as many features as the forest has; `None` if the
    /// forest is to be walked.
    #[inline]
    pub(super) fn score(&self, simd: Simd, features: &[i32]) -> Option<i32> {
        match simd.level() {
            Level::Scalar => None,
            // SAFETY: a level exists only where the processor has it.
            Level::Avx2 => Some(unsafe { self.avx2(features) }),
            // SAFETY: as before.
            Level::Avx512 | Level::Avx512Vnni => Some(unsafe { self.avx512(features) }),
            // SAFETY: as before.
            Level::Avx512Vbmi => Some(unsafe { self.avx512_vbmi(features) }),
        }
    }

    fn add_block(&mut self, trees: &[PlainTree]) {
        let leaves = trees[0].leaves.len();
        let planes = leaves.div_ceil(PLANE).next_power_of_two();
        let (first, first_out) = (self.slots.len(), self.out.len());
        for split in 0..leaves - 1 {
            let mut slot = Slot { lane: [0; BLOCK], rank: [u8::MAX; BLOCK] };
            let mut out = [[0; BLOCK]; PLANES];
            for (place, tree) in trees.iter().enumerate() {
                // A tree with fewer splits asks what is never true: nothing is out.
                let Some(split) = tree.splits.get(split) else { continue };
                slot.lane[place] = split.lane;
                slot.rank[place] = split.rank;
                for leaf in split.left.clone() {
                    out[leaf / PLANE][place] |= 1 << (leaf % PLANE);
                }
            }
            self.out.extend(out[..planes].iter().copied().map(Line));
            self.slots.push(slot);
        }
        self.blocks.push(Block {
            slots: first..self.slots.len(),
            out: first_out,
            planes,
            trees: trees.len(),
            values: self.values.len(),
        });
        for trees in trees.chunks(GROUP) {
            let mut values = [[0; GROUP]; PLANE * PLANES];
            for (place, tree) in trees.iter().enumerate() {
                for (values, &value) in values.iter_mut().zip(&tree.leaves) {
                    values[place] = value;
                }
            }
            self.values.extend(values[..planes * PLANE].iter().copied().map(Line));
        }
    }

    /// The slots of a block, each with its planes.
    #[inline]
    fn slots<const P: usize>(
        &self,
        block: &Block,
    ) -> impl Iterator<Item = (&Slot, &[Line<Bytes>; P])> {
        self.slots[block.slots.clone()].iter().zip(self.out[block.out..].as_chunks::<P>().0)
    }

    /// The values of a block's leaves: for each sixteen trees, and each of `W` leaves,
    /// those of the trees.
    #[inline]
    fn values<const W: usize>(
        &self,
        block: &Block,
    ) -> impl Iterator<Item = &[Line<[i32; GROUP]>; W]> {
        let all = self.values[block.values..].as_chunks::<W>().0;
        all.iter().take(block.trees.div_ceil(GROUP))
    }
}

/// Which thresholds each lane compares with.
struct Lanes {
    /// The feature, and its thresholds in rising order.
    lanes: Vec<(usize, Box<[i32]>)>,
}

impl Lanes {
    fn new(view: View<'_>) -> Option<Self> {
        let mut questions: Vec<(usize, i32)> = view
            .nodes()
            .iter()
            .filter(|node| **node != Node::LEAF)
            .map(|node| (usize::from(node.feature), node.threshold))
            .collect();
        questions.sort_unstable();
        questions.dedup();
        let features: Vec<&[(usize, i32)]> = questions.chunk_by(|a, b| a.0 == b.0).collect();
        let longest = features.iter().map(|of_feature| of_feature.len()).max().unwrap_or(1);
        let most = (1..=longest.min(usize::from(u8::MAX)))
            .filter_map(|most| Some((Self::cost(&features, most)?, most)))
            .min()?
            .1;
        let mut lanes: Vec<(usize, Box<[i32]>)> = features
            .iter()
            .flat_map(|of_feature| of_feature.chunks(most))
            .map(|lane| (lane[0].0, lane.iter().map(|question| question.1).collect()))
            .collect();
        lanes.sort_by_key(|lane| core::cmp::Reverse(lane.1.len()));
        Some(Self { lanes })
    }

    /// What lanes of at most so many thresholds cost; `None` if they are too many.
    fn cost(features: &[&[(usize, i32)]], most: usize) -> Option<usize> {
        if features.iter().map(|of_feature| of_feature.len().div_ceil(most)).sum::<usize>() > LANES
        {
            return None;
        }
        let lanes = features.iter().flat_map(|of_feature| of_feature.chunks(most));
        let mut lengths: Vec<usize> = lanes.map(<[_]>::len).collect();
        lengths.sort_unstable_by_key(|length| core::cmp::Reverse(*length));
        Some(lengths.chunks(GROUP).map(|group| GROUP_COST + group[0]).sum())
    }

    /// The lane in which a question is, and the rank that a sample exceeds which
    /// goes right.
    fn find(&self, node: &Node) -> (u8, u8) {
        let place =
            |(_, thresholds): &(usize, Box<[i32]>)| thresholds.binary_search(&node.threshold).ok();
        self.lanes
            .iter()
            .enumerate()
            .filter(|(_, lane)| lane.0 == usize::from(node.feature))
            .find_map(|(number, lane)| Some((position(number) as u8, place(lane)? as u8)))
            .expect("every question has a lane")
    }

    fn groups(&self) -> (Vec<Group>, Vec<[i32; GROUP]>) {
        let (mut groups, mut all) = (Vec::new(), Vec::new());
        for lanes in self.lanes.chunks(GROUP) {
            let first = all.len();
            // Nothing is greater than the padding.
            let mut features = [0; GROUP];
            let mut thresholds = alloc::vec![[i32::MAX; GROUP]; lanes[0].1.len()];
            for (lane, (feature, of_lane)) in lanes.iter().enumerate() {
                features[lane] = *feature as i32;
                for (thresholds, &threshold) in thresholds.iter_mut().zip(of_lane) {
                    thresholds[lane] = threshold;
                }
            }
            all.extend(thresholds);
            groups.push(Group { features, thresholds: first..all.len() });
        }
        (groups, all)
    }
}

/// Where the rank of a lane ends up. Narrowing four registers to one takes four
/// numbers from each in turn.
const fn position(lane: usize) -> usize {
    let (half, group, lane) = (lane / 64, lane / GROUP % 4, lane % GROUP);
    half * 64 + lane / 4 * 16 + group * 4 + lane % 4
}

/// A tree as questions and leaves from left to right.
struct PlainTree {
    splits: Vec<PlainSplit>,
    leaves: Vec<i32>,
}

struct PlainSplit {
    lane: u8,
    rank: u8,
    /// The leaves on the left side.
    left: Range<usize>,
}

impl PlainTree {
    fn new(view: View<'_>, tree: usize, lanes: &Lanes) -> Option<Self> {
        let first = view.roots()[tree].first as usize;
        let end = view.roots().get(tree + 1).map_or(view.nodes().len(), |r| r.first as usize);
        // So many nodes have one leaf more than half of them.
        if (end - first).div_ceil(2) > PLANE * PLANES {
            return None;
        }
        let mut new = Self { splits: Vec::new(), leaves: Vec::new() };
        new.walk(view, first, lanes);
        Some(new)
    }

    /// At most 64 deep.
    fn walk(&mut self, view: View<'_>, place: usize, lanes: &Lanes) {
        let node = &view.nodes()[place];
        if *node == Node::LEAF {
            return self.leaves.push(view.values()[place]);
        }
        let left = place + usize::from(node.skip);
        let first = self.leaves.len();
        self.walk(view, left, lanes);
        let (lane, rank) = lanes.find(node);
        self.splits.push(PlainSplit { lane, rank, left: first..self.leaves.len() });
        self.walk(view, left + 1, lanes);
    }
}
