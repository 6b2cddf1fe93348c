//! The plain form: an array of nodes.

use crate::Error;
use crate::error::same;

/// Trees walked in parallel. Each step waits for two dependent loads; the steps of several trees
/// overlap.
const PARALLEL_WALKS: usize = 8;

/// A split, or a leaf, of a tree in an array.
///
/// From node `p` the walk continues at `p + skip`, or at the next one if the feature exceeds the
/// threshold. Trees are stored level by level, so each split's children directly follow those of
/// the previous split. A leaf has skip 0 and the largest threshold, so the walk stays in it without
/// a test for leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Node {
    /// Values up to and including this one go left.
    pub threshold: i32,
    /// The feature that is compared.
    pub feature: u16,
    /// Offset of the left child; the right one is next to it.
    pub skip: u16,
}

impl Node {
    /// A leaf.
    pub const LEAF: Self = Self { threshold: i32::MAX, feature: 0, skip: 0 };
}

/// Position and depth of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Root {
    /// Index of its first node.
    pub first: u32,
    /// Number of splits on the longest path.
    pub depth: u32,
}

/// Checks that the nodes are a tree in level order, not deeper than stated. An error has the node's
/// index and what is wrong.
fn check_tree(nodes: &[Node], features: usize, depth: u32) -> Result<(), (usize, &'static str)> {
    // The children of the next split, the end of the level, and its depth.
    let (mut children, mut level_end, mut level) = (1, 1, 0);
    for (place, node) in nodes.iter().enumerate() {
        if place == level_end {
            (level_end, level) = (children, level + 1);
        }
        if node.skip == 0 {
            if *node != Node::LEAF {
                return Err((place, "leads to itself, but is not a leaf"));
            }
            continue;
        }
        if place + usize::from(node.skip) != children {
            return Err((place, "its children are not the next ones of the next level"));
        }
        if usize::from(node.feature) >= features {
            return Err((place, "uses a feature beyond the last"));
        }
        children += 2;
    }
    if children != nodes.len() {
        return Err((nodes.len() - 1, "the tree ends before its last child"));
    }
    if level > depth {
        return Err((nodes.len() - 1, "the tree goes deeper than it says"));
    }
    Ok(())
}

/// A forest in borrowed arrays: in a map shared with a kernel, in a file, in a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View<'a> {
    pub(super) features: usize,
    pub(super) base: i32,
    pub(super) nodes: &'a [Node],
    pub(super) values: &'a [i32],
    pub(super) roots: &'a [Root],
}

impl<'a> View<'a> {
    /// A forest over samples with this number of features. `values` has the value of each leaf
    /// node, and anything for the others.
    ///
    /// # Errors
    /// If a walk could leave the arrays, or a sum could overflow.
    pub fn new(
        features: usize,
        base: i32,
        nodes: &'a [Node],
        values: &'a [i32],
        roots: &'a [Root],
    ) -> Result<Self, Error> {
        same("values of a forest's nodes", nodes.len(), values.len())?;
        let mut bound = u64::from(base.unsigned_abs());
        for (tree, root) in roots.iter().enumerate() {
            let wrong = |(node, what)| Error::Tree { tree, node, what };
            let first = root.first as usize;
            let end = roots.get(tree + 1).map_or(nodes.len(), |next| next.first as usize);
            if first >= end || end > nodes.len() {
                return Err(wrong((0, "a tree has at least one node, and follows the one before")));
            }
            check_tree(&nodes[first..end], features, root.depth).map_err(wrong)?;
            let values = values[first..end].iter().map(|value| value.unsigned_abs());
            bound += u64::from(values.max().unwrap_or(0));
        }
        if bound > i32::MAX as u64 {
            let what = "a forest's values add up to less than 2^31; use fewer fraction bits";
            return Err(Error::Value { what, found: bound as f64 });
        }
        Ok(Self { features, base, nodes, values, roots })
    }

    /// Number of features.
    #[must_use]
    pub const fn features(&self) -> usize {
        self.features
    }

    /// The constant term.
    #[must_use]
    pub const fn base(&self) -> i32 {
        self.base
    }

    /// The nodes of all trees.
    #[must_use]
    pub const fn nodes(&self) -> &'a [Node] {
        self.nodes
    }

    /// The values of the nodes.
    #[must_use]
    pub const fn values(&self) -> &'a [i32] {
        self.values
    }

    /// The trees.
    #[must_use]
    pub const fn roots(&self) -> &'a [Root] {
        self.roots
    }

    /// The sum of base and trees.
    ///
    /// # Panics
    /// If the sample has not as many features as the forest.
    #[must_use]
    pub fn score(&self, features: &[i32]) -> i32 {
        assert_eq!(features.len(), self.features, "features of a sample");
        let (groups, rest) = self.roots.as_chunks::<PARALLEL_WALKS>();
        let sum = groups.iter().fold(self.base, |sum, group| sum + self.walk(features, group));
        rest.iter().fold(sum, |sum, root| sum + self.walk(features, &[*root]))
    }

    /// The sum of a few trees.
    #[inline]
    fn walk<const N: usize>(&self, features: &[i32], roots: &[Root; N]) -> i32 {
        let mut at = roots.map(|root| root.first as usize);
        let depth = roots.iter().map(|root| root.depth).max().unwrap_or(0);
        for _ in 0..depth {
            for at in &mut at {
                let node = self.nodes[*at];
                let greater = features[usize::from(node.feature)] > node.threshold;
                *at += usize::from(node.skip) + usize::from(greater);
            }
        }
        at.iter().map(|&at| self.values[at]).sum()
    }
}
