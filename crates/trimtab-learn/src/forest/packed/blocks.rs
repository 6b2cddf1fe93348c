//! Blocks of trees.

use alloc::vec::Vec;
use core::ops::{BitOrAssign, Range};

use super::{GROUP, Line};
use crate::forest::view::{Node, View};

/// Maximum number of leaves of a tree.
const MAX_LEAVES: usize = 64;

/// Maximum number of leaves of trees with 16-bit values.
const MAX_SHORT_LEAVES: usize = 16;

/// Minimum number of leaves allocated.
const MIN_LEAVES: usize = 8;

/// An element of a register.
pub(super) trait Element: Copy + Default + BitOrAssign + TryFrom<u16> {
    const BITS: usize;
    /// The largest value.
    const MAX: Self;
    /// A single set bit.
    fn bit(number: usize) -> Self;
}

impl Element for u8 {
    const BITS: usize = 8;
    const MAX: Self = Self::MAX;
    fn bit(number: usize) -> Self {
        1 << number
    }
}

impl Element for u16 {
    const BITS: usize = 16;
    const MAX: Self = Self::MAX;
    fn bit(number: usize) -> Self {
        1 << number
    }
}

/// All trees, in blocks of as many as a 64-byte register has elements.
#[derive(Clone, Debug)]
pub(super) struct Blocks<T, const N: usize> {
    pub(super) blocks: Vec<Block>,
    slots: Vec<Slot<T, N>>,
    /// The planes of all slots: leaves excluded where a tree goes right.
    out: Vec<Line<[T; N]>>,
    /// Leaf values of all trees, sixteen trees interleaved.
    values: Vec<Line<[i32; GROUP]>>,
    /// Leaf values of blocks with short ones, all trees of a block interleaved.
    short: Vec<Line<[i16; N]>>,
}

/// As many trees as a register has elements.
#[derive(Clone, Debug)]
pub(super) struct Block {
    slots: Range<usize>,
    /// Start of the first slot's planes.
    out: usize,
    /// Leaves allocated: 8, 16, 32 or 64.
    pub(super) leaves: usize,
    pub(super) trees: usize,
    /// Whether its values are short.
    pub(super) is_short: bool,
    /// Start of its values among those of their kind: as many per sixteen trees, or per block if
    /// short, as there are leaves.
    values: usize,
}

/// A forest of one block, of trees with at most eight leaves and short values.
#[derive(Clone, Copy)]
pub(super) struct Small<'a, T, const N: usize> {
    pub(super) slots: &'a [Slot<T, N>; MIN_LEAVES - 1],
    pub(super) out: &'a [Line<[T; N]>; MIN_LEAVES - 1],
    pub(super) values: &'a [Line<[i16; N]>; MIN_LEAVES],
    pub(super) trees: usize,
}

/// One split of each tree of a block.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(super) struct Slot<T, const N: usize> {
    /// Position of the number that the split compares.
    pub(super) lane: [T; N],
    /// The tree goes right if the number exceeds this.
    pub(super) rank: [T; N],
}

impl<T: Element, const N: usize> Blocks<T, N> {
    pub(super) fn new(mut trees: Vec<PlainTree>) -> Self {
        // Trees of similar size share a block, whose length is that of its largest.
        trees.sort_by_key(|tree| core::cmp::Reverse(tree.leaves.len()));
        let mut new = Self {
            blocks: Vec::new(),
            slots: Vec::new(),
            out: Vec::new(),
            values: Vec::new(),
            short: Vec::new(),
        };
        trees.chunks(N).for_each(|trees| new.add(trees));
        new
    }

    fn add(&mut self, trees: &[PlainTree]) {
        let leaves = trees[0].leaves.len().next_power_of_two().max(MIN_LEAVES);
        let splits = match leaves {
            // Padded to a constant number, so that no count is needed.
            MIN_LEAVES => MIN_LEAVES - 1,
            _ => trees[0].splits.len(),
        };
        let planes = leaves.div_ceil(T::BITS);
        let (first, first_out) = (self.slots.len(), self.out.len());
        for split in 0..splits {
            let mut slot = Slot { lane: [T::default(); N], rank: [T::MAX; N] };
            let mut out = [[T::default(); N]; MAX_LEAVES / 8];
            for (place, tree) in trees.iter().enumerate() {
                // A tree with fewer splits gets comparisons that are never true and exclude
                // nothing.
                let Some(split) = tree.splits.get(split) else { continue };
                let element =
                    |number: u16| number.try_into().ok().expect("fits a byte if it has to");
                slot.lane[place] = element(split.lane);
                slot.rank[place] = element(split.rank);
                for leaf in split.left.clone() {
                    out[leaf / T::BITS][place] |= T::bit(leaf % T::BITS);
                }
            }
            self.out.extend(out[..planes].iter().copied().map(Line));
            self.slots.push(slot);
        }
        let short = (leaves <= MAX_SHORT_LEAVES).then(|| short_values(trees, leaves)).flatten();
        self.blocks.push(Block {
            slots: first..self.slots.len(),
            out: first_out,
            leaves,
            trees: trees.len(),
            is_short: short.is_some(),
            values: if short.is_some() { self.short.len() } else { self.values.len() },
        });
        match short {
            Some(short) => self.short.extend(short.into_iter().map(Line)),
            None => trees.chunks(GROUP).for_each(|trees| self.add_values(trees, leaves)),
        }
    }

    /// The values of sixteen trees.
    fn add_values(&mut self, trees: &[PlainTree], leaves: usize) {
        let mut values = [[0; GROUP]; MAX_LEAVES];
        for (place, tree) in trees.iter().enumerate() {
            for (values, &value) in values.iter_mut().zip(&tree.leaves) {
                values[place] = value;
            }
        }
        self.values.extend(values[..leaves].iter().copied().map(Line));
    }

    /// The whole forest, if it is small.
    #[inline]
    pub(super) fn small(&self) -> Option<Small<'_, T, N>> {
        let [block] = &self.blocks[..] else { return None };
        (block.leaves == MIN_LEAVES && block.is_short).then_some(())?;
        Some(Small {
            slots: self.slots.first_chunk()?,
            out: self.out.first_chunk()?,
            values: self.short.first_chunk()?,
            trees: block.trees,
        })
    }

    /// The slots of a block, each with its planes.
    #[inline]
    pub(super) fn slots<const P: usize>(
        &self,
        block: &Block,
    ) -> impl Iterator<Item = (&Slot<T, N>, &[Line<[T; N]>; P])> {
        self.slots[block.slots.clone()].iter().zip(self.out[block.out..].as_chunks::<P>().0)
    }

    /// The short values of a block's leaves.
    #[inline]
    pub(super) fn short<const W: usize>(&self, block: &Block) -> &[Line<[i16; N]>; W] {
        self.short[block.values..].first_chunk().expect("as many as there are leaves")
    }

    /// The values of a block's leaves: per sixteen trees, and per leaf of `W`, those of the trees.
    #[inline]
    pub(super) fn values<const W: usize>(
        &self,
        block: &Block,
    ) -> impl Iterator<Item = &[Line<[i32; GROUP]>; W]> {
        let all = self.values[block.values..].as_chunks::<W>().0;
        all.iter().take(block.trees.div_ceil(GROUP))
    }
}

/// Short values of each leaf of some trees, if all fit.
fn short_values<const N: usize>(trees: &[PlainTree], leaves: usize) -> Option<Vec<[i16; N]>> {
    let mut values = alloc::vec![[0; N]; leaves];
    for (place, tree) in trees.iter().enumerate() {
        for (values, &value) in values.iter_mut().zip(&tree.leaves) {
            values[place] = value.try_into().ok()?;
        }
    }
    Some(values)
}

/// A tree as splits and leaves from left to right.
pub(super) struct PlainTree {
    splits: Vec<PlainSplit>,
    leaves: Vec<i32>,
}

pub(super) struct PlainSplit {
    pub(super) lane: u16,
    pub(super) rank: u16,
    /// Leaves on the left side.
    pub(super) left: Range<usize>,
}

impl PlainTree {
    /// All trees of a forest, `None` if one is too large. `find` returns a node's lane and the
    /// number to compare with.
    pub(super) fn all(view: View<'_>, find: impl Fn(&Node) -> (u16, u16)) -> Option<Vec<Self>> {
        (0..view.roots().len()).map(|tree| Self::new(view, tree, &find)).collect()
    }

    pub(super) fn splits(&self) -> &[PlainSplit] {
        &self.splits
    }

    /// From left to right.
    pub(super) fn leaves(&self) -> &[i32] {
        &self.leaves
    }

    fn new(view: View<'_>, tree: usize, find: &impl Fn(&Node) -> (u16, u16)) -> Option<Self> {
        let first = view.roots()[tree].first as usize;
        let end = view.roots().get(tree + 1).map_or(view.nodes().len(), |r| r.first as usize);
        // A binary tree of n nodes has (n + 1) / 2 leaves.
        if (end - first).div_ceil(2) > MAX_LEAVES {
            return None;
        }
        let mut new = Self { splits: Vec::new(), leaves: Vec::new() };
        new.walk(view, first, find);
        Some(new)
    }

    /// Recursion depth is at most 64.
    fn walk(&mut self, view: View<'_>, place: usize, find: &impl Fn(&Node) -> (u16, u16)) {
        let node = &view.nodes()[place];
        if *node == Node::LEAF {
            return self.leaves.push(view.values()[place]);
        }
        let left = place + usize::from(node.skip);
        let first = self.leaves.len();
        self.walk(view, left, find);
        let (lane, rank) = find(node);
        self.splits.push(PlainSplit { lane, rank, left: first..self.leaves.len() });
        self.walk(view, left + 1, find);
    }
}
