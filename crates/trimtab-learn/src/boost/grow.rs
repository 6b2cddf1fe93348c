//! Growth of one tree.

use core::ops::Range;
use std::vec;
use std::vec::Vec;

use super::data::{Data, QUAD};
use super::histogram::{Candidate, Gradient, Histograms, Scale, Sum, count};
use super::objective::Objective;
use super::{BoostOptions, parallel};
use crate::Error;
use crate::random::Random;
use crate::tree::{Child, Missing, Split, Tree};

/// Samples per unit of work of a thread.
const BLOCK: usize = 16_384;

/// Grows trees on the same data.
pub(super) struct Grower<'a> {
    data: &'a Data,
    options: &'a BoostOptions,
    gradients: Vec<Gradient>,
    scale: Scale,
    /// The samples of the growing tree, grouped by leaf.
    rows: Vec<u32>,
    /// Buffer for the gradients of a leaf's samples, in their order.
    ordered: Vec<Gradient>,
    /// Buffer for the samples that go right.
    aside: Vec<u32>,
    /// Unused histograms.
    spare: Vec<Vec<Histograms>>,
}

/// A leaf of the growing tree.
struct Leaf {
    rows: Range<usize>,
    sum: Sum,
    depth: usize,
    best: Option<Candidate>,
    /// By four features.
    histograms: Vec<Histograms>,
}

impl<'a> Grower<'a> {
    pub(super) fn new(data: &'a Data, options: &'a BoostOptions) -> Self {
        Self {
            data,
            options,
            gradients: vec![Gradient::default(); data.len()],
            scale: Scale { first: 1.0, second: 1.0 },
            rows: Vec::new(),
            ordered: Vec::new(),
            aside: Vec::new(),
            spare: Vec::new(),
        }
    }

    /// Computes the gradients at these scores; returns the mean loss.
    pub(super) fn set_gradients(&mut self, objective: Objective, scores: &[f64]) -> f64 {
        #[derive(Clone, Default)]
        struct Block {
            derivatives: Vec<(f64, f64)>,
            greatest: (f64, f64),
            loss: f64,
            weight: f64,
        }
        let data = self.data;
        let mut blocks = vec![Block::default(); scores.len().div_ceil(BLOCK)];
        parallel::each(self.options.threads, &mut blocks, |number, block| {
            let first = number * BLOCK;
            let scores = &scores[first..scores.len().min(first + BLOCK)];
            for (row, &score) in (first..).zip(scores) {
                let weight = data.weight(row);
                let (g, h, loss) = objective.derive(score, f64::from(data.targets[row]));
                let (g, h) = (g * weight, h * weight);
                block.derivatives.push((g, h));
                block.greatest = (block.greatest.0.max(g.abs()), block.greatest.1.max(h));
                block.loss += weight * loss;
                block.weight += weight;
            }
        });
        let greatest = blocks.iter().fold((0.0, 0.0), |all: (f64, f64), b| {
            (all.0.max(b.greatest.0), all.1.max(b.greatest.1))
        });
        self.scale = Scale { first: unit(greatest.0), second: unit(greatest.1) };
        let scale = self.scale;
        let derivatives = blocks.iter().flat_map(|block| &block.derivatives);
        for (gradient, &(g, h)) in self.gradients.iter_mut().zip(derivatives) {
            *gradient = Gradient {
                first: (g / scale.first).round_ties_even() as i32,
                second: (h / scale.second).round_ties_even() as i32,
            };
        }
        blocks.iter().map(|b| b.loss).sum::<f64>() / blocks.iter().map(|b| b.weight).sum::<f64>()
    }

    /// Grows a tree; `None` if no split has enough gain.
    pub(super) fn grow(&mut self, random: &mut Random) -> Option<Grown> {
        let active = self.draw(random);
        let mut tree = Grown::default();
        let mut leaves = vec![self.root(&active)];
        while leaves.len() < self.options.leaves {
            let gain = |leaf: &Leaf| leaf.best.map_or(f64::NEG_INFINITY, |best| best.gain);
            // The first of equals.
            let (number, _) = leaves
                .iter()
                .enumerate()
                .reduce(|best, next| if gain(next.1) > gain(best.1) { next } else { best })?;
            let Some(split) = leaves[number].best else { break };
            tree.split(number, split, leaves.len());
            let (left, right) = self.split(&mut leaves[number], split, &active);
            leaves[number] = left;
            leaves.push(right);
        }
        tree.values = leaves
            .iter()
            .map(|leaf| self.options.learning_rate * leaf.sum.value(self.scale, self.options.l2))
            .collect();
        self.spare.extend(leaves.into_iter().map(|leaf| leaf.histograms));
        (!tree.nodes.is_empty()).then_some(tree)
    }

    /// Draws the tree's samples and features.
    fn draw(&mut self, random: &mut Random) -> Vec<usize> {
        let rows = 0..self.data.len() as u32;
        self.rows.clear();
        if self.options.row_share < 1.0 {
            const WHOLE: usize = 1 << 32;
            let limit = (self.options.row_share * WHOLE as f64) as usize;
            self.rows.extend(rows.filter(|_| random.below(WHOLE) < limit));
        } else {
            self.rows.extend(rows);
        }
        let mut features: Vec<usize> = (0..self.data.features()).collect();
        let share = (self.options.feature_share * features.len() as f64).ceil() as usize;
        if share < features.len() {
            random.draw(&mut features, share);
            features.truncate(share);
            features.sort_unstable();
        }
        features
    }

    fn root(&mut self, active: &[usize]) -> Leaf {
        let rows = 0..self.rows.len();
        let mut sum = Sum::default();
        for &row in &self.rows {
            sum.add(self.gradients[row as usize]);
        }
        let mut leaf =
            Leaf { rows, sum, depth: 0, best: None, histograms: self.spare_histograms() };
        self.search(&mut leaf, None, active);
        leaf
    }

    fn spare_histograms(&mut self) -> Vec<Histograms> {
        let new = || vec![[[Sum::default(); 256]; QUAD]; self.data.quads.len()];
        self.spare.pop().unwrap_or_else(new)
    }

    /// Splits a leaf into two, with their best splits.
    fn split(&mut self, leaf: &mut Leaf, split: Candidate, active: &[usize]) -> (Leaf, Leaf) {
        let middle = leaf.rows.start + self.partition(leaf.rows.clone(), split);
        let depth = leaf.depth + 1;
        let new = |rows, sum, histograms| Leaf { rows, sum, depth, best: None, histograms };
        let of_parent = core::mem::take(&mut leaf.histograms);
        let left_is_smaller = split.left.count * 2 <= leaf.sum.count;
        let fresh = self.spare_histograms();
        let (for_left, for_right) =
            if left_is_smaller { (fresh, of_parent) } else { (of_parent, fresh) };
        let mut left = new(leaf.rows.start..middle, split.left, for_left);
        let mut right = new(middle..leaf.rows.end, leaf.sum.minus(split.left), for_right);
        let (smaller, larger) =
            if left_is_smaller { (&mut left, &mut right) } else { (&mut right, &mut left) };
        self.search(smaller, Some(larger), active);
        (left, right)
    }

    /// Partitions a leaf's samples: those that go left first, both sides in order; returns their
    /// number.
    fn partition(&mut self, rows: Range<usize>, split: Candidate) -> usize {
        let quad = &self.data.quads[split.feature / QUAD];
        let rows = &mut self.rows[rows];
        self.aside.resize(rows.len(), 0);
        let (mut left, mut right) = (0, 0);
        // Both writes are done and one counts, because the branch is unpredictable.
        for i in 0..rows.len() {
            let row = rows[i];
            let goes_left = quad[row as usize][split.feature % QUAD] <= split.bin;
            rows[left] = row;
            self.aside[right] = row;
            left += usize::from(goes_left);
            right += usize::from(!goes_left);
        }
        rows[left..].copy_from_slice(&self.aside[..right]);
        left
    }

    /// Computes the histograms of a leaf and finds its best split. Its larger sibling has the
    /// histograms of their parent and gets the difference.
    fn search(&mut self, smaller: &mut Leaf, mut larger: Option<&mut Leaf>, active: &[usize]) {
        /// Work on four features.
        struct Task<'a> {
            quad: usize,
            active: &'a [usize],
            smaller: &'a mut Histograms,
            larger: Option<&'a mut Histograms>,
            best: [Option<Candidate>; 2],
        }
        let rows = &self.rows[smaller.rows.clone()];
        self.ordered.clear();
        self.ordered.extend(rows.iter().map(|&row| self.gradients[row as usize]));

        let sums = [smaller.sum, larger.as_ref().map_or(Sum::default(), |leaf| leaf.sum)];
        let mut of_larger = larger.as_mut().map(|leaf| leaf.histograms.iter_mut());
        let mut of_active = active.chunk_by(|a, b| a / QUAD == b / QUAD).peekable();
        let mut tasks = Vec::with_capacity(smaller.histograms.len());
        for (quad, smaller) in smaller.histograms.iter_mut().enumerate() {
            let larger = of_larger.as_mut().and_then(Iterator::next);
            if let Some(active) = of_active.next_if(|active| active[0] / QUAD == quad) {
                tasks.push(Task { quad, active, smaller, larger, best: [None; 2] });
            }
        }

        let (data, options, scale, gradients) =
            (self.data, self.options, self.scale, &self.ordered);
        // Few samples do not pay for starting a thread.
        let threads = if rows.len() * active.len() < 100_000 { 1 } else { options.threads };
        parallel::each(threads, &mut tasks, |_, task| {
            count(task.smaller, &data.quads[task.quad], rows, gradients);
            for &feature in task.active {
                let bins = data.thresholds[feature].len() + 1;
                let best = |histogram: &[Sum], sum| {
                    Candidate::best(histogram, feature, sum, scale, options)
                };
                let smaller = &task.smaller[feature % QUAD][..bins];
                task.best[0] = Candidate::better(task.best[0], best(smaller, sums[0]));
                if let Some(larger) = &mut task.larger {
                    let larger = &mut larger[feature % QUAD][..bins];
                    for (larger, smaller) in larger.iter_mut().zip(smaller) {
                        *larger = larger.minus(*smaller);
                    }
                    task.best[1] = Candidate::better(task.best[1], best(larger, sums[1]));
                }
            }
        });

        let best = |which: usize| {
            tasks.iter().fold(None, |best, task| Candidate::better(best, task.best[which]))
        };
        let best = [best(0), best(1)];
        let deep_enough = |depth| options.depth > 0 && depth >= options.depth;
        if !deep_enough(smaller.depth) {
            smaller.best = best[0];
        }
        if let Some(larger) = larger.filter(|larger| !deep_enough(larger.depth)) {
            larger.best = best[1];
        }
    }
}

/// A power of two, such that `greatest` is below 2³⁰ of it.
fn unit(greatest: f64) -> f64 {
    let (_, exponent) = libm::frexp(greatest);
    libm::ldexp(1.0, exponent - 30)
}

/// A tree over bins.
#[derive(Default)]
pub(super) struct Grown {
    /// Feature, last bin that goes left, children.
    nodes: Vec<(usize, u8, [Child; 2])>,
    /// The leaves' values.
    values: Vec<f64>,
    /// Gain and feature of each split.
    pub(super) gains: Vec<(usize, f64)>,
}

impl Grown {
    /// Replaces a leaf by a split: the leaf keeps its number on the left, the new leaf is on the
    /// right.
    fn split(&mut self, leaf: usize, split: Candidate, new_leaf: usize) {
        let node = self.nodes.len();
        let parent = self.nodes.iter_mut().flat_map(|(_, _, children)| children);
        if let Some(child) = parent.into_iter().find(|child| **child == Child::Leaf(leaf)) {
            *child = Child::Split(node);
        }
        let children = [Child::Leaf(leaf), Child::Leaf(new_leaf)];
        self.nodes.push((split.feature, split.bin, children));
        self.gains.push((split.feature, split.gain));
    }

    /// Adds the tree's value to each sample's score.
    pub(super) fn add_to(&self, scores: &mut [f64], data: &Data, threads: usize) {
        let mut blocks: Vec<&mut [f64]> = scores.chunks_mut(BLOCK).collect();
        parallel::each(threads, &mut blocks, |number, scores| {
            for (row, score) in (number * BLOCK..).zip(scores.iter_mut()) {
                *score += self.values[self.leaf(data, row)];
            }
        });
    }

    fn leaf(&self, data: &Data, row: usize) -> usize {
        let mut at = 0;
        loop {
            let (feature, bin, children) = self.nodes[at];
            let goes_right = data.bin(row, feature) > bin;
            match children[usize::from(goes_right)] {
                Child::Split(node) => at = node,
                Child::Leaf(leaf) => return leaf,
            }
        }
    }

    /// The tree with thresholds of the original features.
    pub(super) fn tree(self, data: &Data) -> Result<Tree, Error> {
        let split = |&(feature, bin, [left, right]): &(usize, u8, [Child; 2])| Split {
            feature,
            threshold: data.thresholds[feature][usize::from(bin)],
            missing: Missing::Nothing,
            default_left: false,
            left,
            right,
        };
        Tree::new(self.nodes.iter().map(split).collect(), self.values)
    }
}
