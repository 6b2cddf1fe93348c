//! Decision trees for training and import: floating-point thresholds and values.
//!
//! For evaluation and storage; inference uses [`IntegerForest`](crate::forest::IntegerForest),
//! which is made from these.

use alloc::vec;
use alloc::vec::Vec;

use crate::Error;

/// Values closer to zero are zero to [`Missing::Zero`], as in LightGBM.
const ZERO: f64 = 1e-35_f32 as f64;

/// Which values count as missing at a split, and go the default way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Missing {
    /// None; NaN is taken for 0.
    #[default]
    Nothing,
    /// Zero and NaN.
    Zero,
    /// NaN.
    Nan,
}

/// Child of a split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Child {
    /// Another split of this tree, with a higher number.
    Split(usize),
    /// A leaf of this tree.
    Leaf(usize),
}

/// A comparison of a feature with a threshold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Split {
    /// The feature's index.
    pub feature: usize,
    /// Values up to and including this one go left.
    pub threshold: f64,
    /// Values that go the default way instead.
    pub missing: Missing,
    /// Whether the default way is left.
    pub default_left: bool,
    /// Child for small values.
    pub left: Child,
    /// Child for large values.
    pub right: Child,
}

impl Split {
    fn goes_left(&self, value: f64) -> bool {
        let value = if value.is_nan() && self.missing != Missing::Nan { 0.0 } else { value };
        let missing = match self.missing {
            Missing::Nothing => false,
            Missing::Zero => value.abs() <= ZERO,
            Missing::Nan => value.is_nan(),
        };
        if missing { self.default_left } else { value <= self.threshold }
    }
}

/// A tree: splits, with number 0 as the root, and leaves. A tree without a split is its only leaf.
#[derive(Clone, Debug, PartialEq)]
pub struct Tree {
    splits: Vec<Split>,
    leaves: Vec<f64>,
}

impl Tree {
    /// A tree of these splits and leaf values.
    ///
    /// # Errors
    /// If it is not a tree: each leaf and each split except the first has exactly one parent, with
    /// a lower number. If a threshold or value is not a number. The error counts it as tree 0.
    pub fn new(splits: Vec<Split>, leaves: Vec<f64>) -> Result<Self, Error> {
        let wrong = |node, what| Err(Error::Tree { tree: 0, node, what });
        if leaves.len() != splits.len() + 1 {
            return wrong(splits.len(), "a tree has one leaf more than it has splits");
        }
        if let Some(leaf) = leaves.iter().position(|value| !value.is_finite()) {
            return wrong(leaf, "the leaf's value is not a finite number");
        }
        let (mut split_led_to, mut leaf_led_to) =
            (vec![false; splits.len()], vec![false; leaves.len()]);
        for (node, split) in splits.iter().enumerate() {
            if split.threshold.is_nan() {
                return wrong(node, "the threshold is not a number");
            }
            for child in [split.left, split.right] {
                let led_to = match child {
                    Child::Split(n) if n > node => split_led_to.get_mut(n),
                    Child::Split(_) => None,
                    Child::Leaf(n) => leaf_led_to.get_mut(n),
                };
                match led_to {
                    Some(led_to) if !*led_to => *led_to = true,
                    _ => return wrong(node, "leads to a node that is not its child"),
                }
            }
        }
        // All children differ and there are as many as possible, so each has a parent.
        Ok(Self { splits, leaves })
    }

    /// The splits; the first is the root.
    #[must_use]
    pub fn splits(&self) -> &[Split] {
        &self.splits
    }

    /// The leaves' values.
    #[must_use]
    pub fn leaves(&self) -> &[f64] {
        &self.leaves
    }

    /// The leaf that a sample ends in.
    ///
    /// # Panics
    /// If the sample has too few features.
    #[must_use]
    pub fn leaf(&self, features: &[f64]) -> usize {
        let mut at = if self.splits.is_empty() { Child::Leaf(0) } else { Child::Split(0) };
        loop {
            match at {
                Child::Leaf(leaf) => return leaf,
                Child::Split(n) => {
                    let split = &self.splits[n];
                    let left = split.goes_left(features[split.feature]);
                    at = if left { split.left } else { split.right };
                }
            }
        }
    }
}

/// An ensemble of trees whose values are summed.
#[derive(Clone, Debug, PartialEq)]
pub struct Forest {
    features: usize,
    base: f64,
    trees: Vec<Tree>,
}

impl Forest {
    /// A forest over samples with this number of features; `base` is added to the trees' values.
    ///
    /// # Errors
    /// If a tree uses a feature that does not exist, or the base is not finite.
    pub fn new(features: usize, base: f64, trees: Vec<Tree>) -> Result<Self, Error> {
        if !base.is_finite() {
            return Err(Error::Value { what: "a forest's base is a finite number", found: base });
        }
        for (tree, it) in trees.iter().enumerate() {
            if let Some(node) = it.splits.iter().position(|split| split.feature >= features) {
                return Err(Error::Tree { tree, node, what: "uses a feature beyond the last" });
            }
        }
        Ok(Self { features, base, trees })
    }

    /// Number of features.
    #[must_use]
    pub const fn features(&self) -> usize {
        self.features
    }

    /// The constant term.
    #[must_use]
    pub const fn base(&self) -> f64 {
        self.base
    }

    /// The trees.
    #[must_use]
    pub fn trees(&self) -> &[Tree] {
        &self.trees
    }

    /// The sum of base and trees, in the order of the trees: the raw score (log-odds for a logistic
    /// objective).
    ///
    /// # Panics
    /// If the sample has too few features.
    #[must_use]
    pub fn score(&self, features: &[f64]) -> f64 {
        let value = |tree: &Tree| tree.leaves[tree.leaf(features)];
        self.trees.iter().map(value).fold(self.base, |sum, value| sum + value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stump(missing: Missing, default_left: bool) -> Tree {
        let (left, right) = (Child::Leaf(0), Child::Leaf(1));
        let split = Split { feature: 0, threshold: 2.0, missing, default_left, left, right };
        Tree::new(vec![split], vec![-1.0, 1.0]).unwrap()
    }

    #[test]
    fn missing_values_go_the_default_way() {
        let leaf = |missing, left, value| stump(missing, left).leaf(&[value]);
        assert_eq!(leaf(Missing::Nothing, false, 2.0), 0);
        assert_eq!(leaf(Missing::Nothing, false, 2.5), 1);
        assert_eq!(leaf(Missing::Nothing, false, f64::NAN), 0);
        assert_eq!(leaf(Missing::Nan, false, f64::NAN), 1);
        assert_eq!(leaf(Missing::Nan, true, f64::NAN), 0);
        assert_eq!(leaf(Missing::Zero, false, f64::NAN), 1);
        assert_eq!(leaf(Missing::Zero, false, -0.0), 1);
        assert_eq!(leaf(Missing::Zero, false, 0.1), 0);
    }

    #[test]
    fn malformed_trees_are_refused() {
        let split = stump(Missing::Nothing, false).splits()[0];
        let tree = |splits: &[Split], leaves: &[f64]| Tree::new(splits.into(), leaves.into());
        assert!(tree(&[], &[1.0]).is_ok());
        assert!(tree(&[], &[]).is_err());
        assert!(tree(&[split], &[1.0, f64::NAN]).is_err());
        assert!(tree(&[Split { right: Child::Leaf(0), ..split }], &[0.0, 1.0]).is_err());
        assert!(tree(&[Split { right: Child::Leaf(2), ..split }], &[0.0, 1.0]).is_err());
        assert!(tree(&[Split { right: Child::Split(0), ..split }], &[0.0, 1.0]).is_err());
        assert!(tree(&[Split { threshold: f64::NAN, ..split }], &[0.0, 1.0]).is_err());
        assert!(Forest::new(0, 0.0, vec![tree(&[split], &[0.0, 1.0]).unwrap()]).is_err());
    }
}
