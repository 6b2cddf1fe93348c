//! The owned form, arranged for the processor at hand.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::coarse::rounded;
use super::packed::Packed;
use super::view::{Node, Root, View};
use crate::tree::{Child, Forest, Missing, Split, Tree};
use crate::{Error, Rows, Simd};

/// A forest over integer features.
#[derive(Clone, Debug)]
pub struct IntegerForest {
    features: usize,
    base: i32,
    fraction_bits: u32,
    nodes: Box<[Node]>,
    values: Box<[i32]>,
    roots: Box<[Root]>,
    packed: Option<Packed>,
}

impl IntegerForest {
    /// The integer form of a forest. Thresholds are rounded down, which is exact for integer
    /// features; values and base are rounded to multiples of 2^-`fraction_bits` (16 is good for
    /// log-odds).
    ///
    /// # Errors
    /// If a split treats zero as missing and sends it to the wrong side of its threshold, which
    /// integer comparison cannot express; if the sum of the values could overflow.
    pub fn new(forest: &Forest, fraction_bits: u32) -> Result<Self, Error> {
        let scale = (1_u64 << fraction_bits.min(62)) as f64;
        let mut trees: Vec<(usize, u32)> = forest.trees().iter().map(depth).enumerate().collect();
        // Trees of similar depth are walked together.
        trees.sort_by_key(|&(tree, depth)| (core::cmp::Reverse(depth), tree));
        let (mut nodes, mut values, mut roots) = (Vec::new(), Vec::new(), Vec::new());
        for (tree, depth) in trees {
            roots.push(Root { first: nodes.len() as u32, depth });
            lay_out(&forest.trees()[tree], scale, &mut nodes, &mut values)
                .map_err(|(node, what)| Error::Tree { tree, node, what })?;
        }
        let base = fixed(forest.base(), scale).unwrap_or(i32::MAX);
        Self::from_parts(
            forest.features(),
            base,
            fraction_bits,
            nodes.into(),
            values.into(),
            roots.into(),
        )
    }

    pub(crate) fn from_parts(
        features: usize,
        base: i32,
        fraction_bits: u32,
        nodes: Box<[Node]>,
        values: Box<[i32]>,
        roots: Box<[Root]>,
    ) -> Result<Self, Error> {
        if fraction_bits > 31 {
            let found = f64::from(fraction_bits);
            return Err(Error::Value { what: "fraction bits are at most 31", found });
        }
        let packed = Packed::new(View::new(features, base, &nodes, &values, &roots)?);
        Ok(Self { features, base, fraction_bits, nodes, values, roots, packed })
    }

    /// The forest with each threshold rounded up to the next number whose successor differs in its
    /// twelve leading bits: unchanged below 4096, and by less than one part in 2048 otherwise (the
    /// largest become `i32::MAX`, where everything goes left). With up to 64 features and no negative
    /// threshold such a forest is faster: it compares leading bits. With AVX2 its trees must have
    /// at most eight leaves, with 16-bit values.
    #[must_use]
    pub fn rounded(&self) -> Self {
        let mut nodes = self.nodes.clone();
        nodes.iter_mut().for_each(|node| node.threshold = rounded(node.threshold));
        let Self { features, base, fraction_bits, .. } = *self;
        let (values, roots) = (self.values.clone(), self.roots.clone());
        Self::from_parts(features, base, fraction_bits, nodes, values, roots)
            .expect("thresholds may be anything")
    }

    /// The forest as plain arrays.
    #[must_use]
    pub fn view(&self) -> View<'_> {
        let Self { features, base, .. } = *self;
        View { features, base, nodes: &self.nodes, values: &self.values, roots: &self.roots }
    }

    /// Number of features.
    #[must_use]
    pub const fn features(&self) -> usize {
        self.features
    }

    /// Scores are multiples of 2^-this.
    #[must_use]
    pub const fn fraction_bits(&self) -> u32 {
        self.fraction_bits
    }

    /// The score as a real number.
    #[must_use]
    pub fn real(&self, score: i32) -> f64 {
        f64::from(score) / (1_u64 << self.fraction_bits) as f64
    }

    /// The sum of base and trees, in units of 2^-[`fraction_bits`](Self::fraction_bits), with the
    /// best available instructions.
    ///
    /// # Panics
    /// If the sample has not as many features as the forest.
    #[must_use]
    #[inline]
    pub fn score(&self, features: &[i32]) -> i32 {
        self.score_with(Simd::best(), features)
    }

    /// The same with the given instructions. A forest with more than 128 features, or a tree with
    /// more than 64 leaves, is walked tree by tree.
    ///
    /// # Panics
    /// If the sample has not as many features as the forest.
    #[must_use]
    #[inline]
    pub fn score_with(&self, simd: Simd, features: &[i32]) -> i32 {
        assert_eq!(features.len(), self.features, "features of a sample");
        let packed = self.packed.as_ref().and_then(|packed| packed.score(simd, features));
        packed.unwrap_or_else(|| self.view().score(features))
    }

    /// The scores of this forest and another over the same features; may be faster together.
    ///
    /// # Panics
    /// If the sample has not as many features as each of the forests.
    #[must_use]
    #[inline]
    pub fn both_scores(&self, other: &Self, features: &[i32]) -> [i32; 2] {
        self.both_scores_with(Simd::best(), other, features)
    }

    /// The same with the given instructions.
    ///
    /// # Panics
    /// If the sample has not as many features as each of the forests.
    #[must_use]
    #[inline]
    pub fn both_scores_with(&self, simd: Simd, other: &Self, features: &[i32]) -> [i32; 2] {
        assert_eq!(features.len(), self.features, "features of a sample");
        assert_eq!(features.len(), other.features, "features of a sample");
        let packed = self.packed.as_ref().zip(other.packed.as_ref());
        let both = packed.and_then(|(one, other)| one.both(other, simd, features));
        both.unwrap_or_else(|| [self, other].map(|forest| forest.score_with(simd, features)))
    }

    /// The scores of many samples.
    ///
    /// # Panics
    /// If a sample has not as many features as the forest, or there are not as
    /// many scores as samples.
    pub fn scores(&self, simd: Simd, samples: Rows<'_, i32>, scores: &mut [i32]) {
        assert_eq!(samples.len(), scores.len(), "as many scores as samples");
        for (score, features) in scores.iter_mut().zip(samples.iter()) {
            *score = self.score_with(simd, features);
        }
    }
}

/// Number of splits on the longest path.
fn depth(tree: &Tree) -> u32 {
    let mut of_split = alloc::vec![1_u32; tree.splits().len()];
    // Children have higher numbers than their parents.
    for (n, split) in tree.splits().iter().enumerate() {
        for child in [split.left, split.right] {
            if let Child::Split(child) = child {
                of_split[child] = of_split[n] + 1;
            }
        }
    }
    of_split.into_iter().max().unwrap_or(0)
}

/// Appends a tree in level order, so that siblings are adjacent.
fn lay_out(
    tree: &Tree,
    scale: f64,
    nodes: &mut Vec<Node>,
    values: &mut Vec<i32>,
) -> Result<(), (usize, &'static str)> {
    let first = nodes.len();
    let root = if tree.splits().is_empty() { Child::Leaf(0) } else { Child::Split(0) };
    let mut order = alloc::vec![root];
    let mut next = 0;
    while let Some(&child) = order.get(next) {
        match child {
            Child::Leaf(leaf) => {
                nodes.push(Node::LEAF);
                let value = fixed(tree.leaves()[leaf], scale);
                values.push(value.ok_or((leaf, "the leaf's value does not fit 32 bits"))?);
            }
            Child::Split(n) => {
                let split = &tree.splits()[n];
                nodes.push(Node {
                    threshold: threshold(split).ok_or((n, "sends zero to the wrong side"))?,
                    feature: split.feature.try_into().map_err(|_| (n, "feature beyond 65535"))?,
                    skip: (order.len() - next)
                        .try_into()
                        .map_err(|_| (n, "the tree has too many leaves"))?,
                });
                values.push(0);
                order.extend([split.left, split.right]);
            }
        }
        next += 1;
    }
    debug_assert_eq!(nodes.len(), first + order.len());
    Ok(())
}

/// The threshold for integer comparison; `None` if there is none.
fn threshold(split: &Split) -> Option<i32> {
    let zero_goes_left = split.threshold >= 0.0;
    if split.missing == Missing::Zero && zero_goes_left != split.default_left {
        return None;
    }
    // Saturates. With the largest threshold everything goes left, as required.
    let down = split.threshold as i64;
    let down = down - i64::from(down as f64 > split.threshold);
    Some(down.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32)
}

/// The nearest multiple of 1 / `scale`, ties away from zero.
fn fixed(value: f64, scale: f64) -> Option<i32> {
    let scaled = value * scale;
    let half = if scaled < 0.0 { -0.5 } else { 0.5 };
    let rounded = (scaled + half) as i64;
    i32::try_from(rounded).ok()
}
