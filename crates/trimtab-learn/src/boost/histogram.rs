//! Sums of gradients, bin by bin, and the best place to split.

use std::vec::Vec;

use super::Options;
use super::data::Column;

/// Gradient and second derivative of one sample, in units of a [`Scale`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Gradient {
    pub(super) first: i32,
    pub(super) second: i32,
}

/// What the units of a [`Gradient`] are worth. Powers of two, so that scaling
/// rounds but once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    pub(super) first: f64,
    pub(super) second: f64,
}

/// Sums over samples. 2³² samples of less than 2³⁰ each cannot overflow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sum {
    pub(super) first: i64,
    pub(super) second: i64,
    pub(super) count: u64,
}

impl Sum {
    pub(super) const fn add(&mut self, gradient: Gradient) {
        self.first += gradient.first as i64;
        self.second += gradient.second as i64;
        self.count += 1;
    }

    pub(super) const fn plus(self, other: Self) -> Self {
        Self {
            first: self.first + other.first,
            second: self.second + other.second,
            count: self.count + other.count,
        }
    }

    pub(super) const fn minus(self, other: Self) -> Self {
        Self {
            first: self.first - other.first,
            second: self.second - other.second,
            count: self.count - other.count,
        }
    }

    /// The value that minimises the loss of these samples.
    pub(super) fn value(self, scale: Scale, l2: f64) -> f64 {
        -(self.first as f64 * scale.first) / (self.second as f64 * scale.second + l2)
    }

    /// Twice the loss that this value saves.
    fn merit(self, scale: Scale, l2: f64) -> f64 {
        let first = self.first as f64 * scale.first;
        let second = self.second as f64 * scale.second + l2;
        if second > 0.0 { first * first / second } else { 0.0 }
    }
}

/// The histogram of each feature.
pub(super) type Histograms = Vec<Vec<Sum>>;

/// Counts samples into a feature's histogram.
pub(super) fn count(histogram: &mut [Sum], column: &Column, rows: &[u32], gradients: &[Gradient]) {
    histogram.fill(Sum::default());
    for (&row, &gradient) in rows.iter().zip(gradients) {
        histogram[usize::from(column.bins[row as usize])].add(gradient);
    }
}

/// A split that could be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Candidate {
    pub(super) gain: f64,
    pub(super) feature: usize,
    /// Bins up to this one, itself included, go left.
    pub(super) bin: u8,
    pub(super) left: Sum,
}

impl Candidate {
    /// The better of two. Of equals the first.
    pub(super) fn or(self, other: Self) -> Self {
        if other.gain > self.gain { other } else { self }
    }

    /// The best split at this feature of a leaf with this sum.
    pub(super) fn best(
        histogram: &[Sum],
        feature: usize,
        sum: Sum,
        scale: Scale,
        options: &Options,
    ) -> Option<Self> {
        let fits = |side: Sum| {
            side.count >= options.min_samples.max(1) as u64
                && side.second as f64 * scale.second >= options.min_hessian
        };
        let unsplit = sum.merit(scale, options.l2);
        let mut best: Option<Self> = None;
        let mut left = Sum::default();
        for (bin, &here) in histogram.iter().enumerate() {
            if here.count == 0 {
                continue;
            }
            left = left.plus(here);
            let right = sum.minus(left);
            if !fits(left) {
                continue;
            }
            if !fits(right) {
                break;
            }
            let gain = left.merit(scale, options.l2) + right.merit(scale, options.l2) - unsplit;
            if gain > best.map_or(options.min_gain.max(1e-12), |best| best.gain) {
                best = Some(Self { gain, feature, bin: bin as u8, left });
            }
        }
        best
    }
}
