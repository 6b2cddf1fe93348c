//! Trees side by side.

use alloc::vec::Vec;
use core::ops::{BitOrAssign, Range};

use super::{GROUP, Line};
use crate::forest::view::{Node, View};

/// The most leaves of a tree.
const LEAVES: usize = 64;

/// The most leaves of trees whose values are kept in 16 bits.
const FEW: usize = 16;

/// The least leaves that there is room for.
const LEAST: usize = 8;

/// An element of a register.
pub(super) trait Element: Copy + Default + BitOrAssign + TryFrom<u16> {
    const BITS: usize;
    /// No other is greater.
    const MAX: Self;
    /// Only this bit set.
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

/// All trees, as many in a block as a register of 64 bytes has elements.
#[derive(Clone, Debug)]
pub(super) struct Blocks<T, const N: usize> {
    pub(super) blocks: Vec<Block>,
    slots: Vec<Slot<T, N>>,
    /// The planes of all slots: the leaves that are out where a tree goes right.
    out: Vec<Line<[T; N]>>,
    /// The values of the leaves of all trees, sixteen trees side by side.
    values: Vec<Line<[i32; GROUP]>>,
    /// Those of blocks that have short ones, all trees of a block side by side.
    short: Vec<Line<[i16; N]>>,
}

/// As many trees as fit a register.
#[derive(Clone, Debug)]
pub(super) struct Block {
    slots: Range<usize>,
    /// Where the planes of the first slot begin.
    out: usize,
    /// Leaves that there is room for: 8, 16, 32 or 64.
    pub(super) leaves: usize,
    pub(super) trees: usize,
    /// Whether its values are short.
    pub(super) is_short: bool,
    /// Where the values begin, among those of their kind: of each sixteen trees, or of
    /// all if they are short, as many as there are leaves.
    values: usize,
}

/// A forest of one block, of trees of at most eight leaves with short values.
#[derive(Clone, Copy)]
pub(super) struct Small<'a, T, const N: usize> {
    pub(super) slots: &'a [Slot<T, N>; LEAST - 1],
    pub(super) out: &'a [Line<[T; N]>; LEAST - 1],
    pub(super) values: &'a [Line<[i16; N]>; LEAST],
    pub(super) trees: usize,
}

/// One split of each tree of a block.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(super) struct Slot<T, const N: usize> {
    /// Where the number is that the split looks at.
    pub(super) lane: [T; N],
    /// The tree goes right if that is greater.
    pub(super) rank: [T; N],
}

impl<T: Element, const N: usize> Blocks<T, N> {
    pub(super) fn new(mut trees: Vec<PlainTree>) -> Self {
        // Trees of like size share a block, which is as long as its largest.
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
        let leaves = trees[0].leaves.len().next_power_of_two().max(LEAST);
        let splits = match leaves {
            // Always as many, so that nothing has to be counted.
            LEAST => LEAST - 1,
            _ => trees[0].splits.len(),
        };
        let planes = leaves.div_ceil(T::BITS);
        let (first, first_out) = (self.slots.len(), self.out.len());
        for split in 0..splits {
            let mut slot = Slot { lane: [T::default(); N], rank: [T::MAX; N] };
            let mut out = [[T::default(); N]; LEAVES / 8];
            for (place, tree) in trees.iter().enumerate() {
                // A tree with fewer splits asks what is never true: nothing is out.
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
        let short = (leaves <= FEW).then(|| short_values(trees, leaves)).flatten();
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
        let mut values = [[0; GROUP]; LEAVES];
        for (place, tree) in trees.iter().enumerate() {
            for (values, &value) in values.iter_mut().zip(&tree.leaves) {
                values[place] = value;
            }
        }
        self.values.extend(values[..leaves].iter().copied().map(Line));
    }

    /// All of a forest, if it is a small one.
    #[inline]
    pub(super) fn small(&self) -> Option<Small<'_, T, N>> {
        let [block] = &self.blocks[..] else { return None };
        (block.leaves == LEAST && block.is_short).then_some(())?;
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

    /// The short values of a block's leaves, which has such.
    #[inline]
    pub(super) fn short<const W: usize>(&self, block: &Block) -> &[Line<[i16; N]>; W] {
        self.short[block.values..].first_chunk().expect("as many as there are leaves")
    }

    /// The values of a block's leaves: for each sixteen trees, and each of `W` leaves,
    /// those of the trees.
    #[inline]
    pub(super) fn values<const W: usize>(
        &self,
        block: &Block,
    ) -> impl Iterator<Item = &[Line<[i32; GROUP]>; W]> {
        let all = self.values[block.values..].as_chunks::<W>().0;
        all.iter().take(block.trees.div_ceil(GROUP))
    }
}

/// The values of each leaf of some trees, if all fit.
fn short_values<const N: usize>(trees: &[PlainTree], leaves: usize) -> Option<Vec<[i16; N]>> {
    let mut values = alloc::vec![[0; N]; leaves];
    for (place, tree) in trees.iter().enumerate() {
        for (values, &value) in values.iter_mut().zip(&tree.leaves) {
            values[place] = value.try_into().ok()?;
        }
    }
    Some(values)
}

/// A tree as questions and leaves from left to right.
pub(super) struct PlainTree {
    splits: Vec<PlainSplit>,
    leaves: Vec<i32>,
}

struct PlainSplit {
    lane: u16,
    rank: u16,
    /// The leaves on the left side.
    left: Range<usize>,
}

impl PlainTree {
    /// All trees of a forest, `None` if one is too large. `find` says in which lane
    /// the question of a node is, and which number it is about.
    pub(super) fn all(view: View<'_>, find: impl Fn(&Node) -> (u16, u16)) -> Option<Vec<Self>> {
        (0..view.roots().len()).map(|tree| Self::new(view, tree, &find)).collect()
    }

    fn new(view: View<'_>, tree: usize, find: &impl Fn(&Node) -> (u16, u16)) -> Option<Self> {
        let first = view.roots()[tree].first as usize;
        let end = view.roots().get(tree + 1).map_or(view.nodes().len(), |r| r.first as usize);
        // So many nodes have one leaf more than half of them.
        if (end - first).div_ceil(2) > LEAVES {
            return None;
        }
        let mut new = Self { splits: Vec::new(), leaves: Vec::new() };
        new.walk(view, first, find);
        Some(new)
    }

    /// At most 64 deep.
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
