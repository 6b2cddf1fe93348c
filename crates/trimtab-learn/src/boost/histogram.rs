//! Gradient histograms, and the best split.

use super::BoostOptions;
use super::data::QUAD;

/// Gradient and second derivative of one sample, in units of a [`Scale`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Gradient {
    pub(super) first: i32,
    pub(super) second: i32,
}

/// Value of a unit of [`Gradient`]. Powers of two, so that scaling rounds only once.
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

    /// Twice the reduction of the loss by this value.
    fn merit(self, scale: Scale, l2: f64) -> f64 {
        let first = self.first as f64 * scale.first;
        let second = self.second as f64 * scale.second + l2;
        if second > 0.0 { first * first / second } else { 0.0 }
    }
}

/// Samples loaded before they are counted.
const BLOCK: usize = 64;

/// The histograms of four features: as many bins as a byte has values.
pub(super) type Histograms = [[Sum; 256]; QUAD];

/// Adds samples to the histograms of four features.
pub(super) fn count(
    histograms: &mut Histograms,
    quad: &[[u8; QUAD]],
    rows: &[u32],
    gradients: &[Gradient],
) {
    histograms.as_flattened_mut().fill(Sum::default());
    // Rows are far apart: all loads of a block are issued before the first is needed.
    let mut bins = [[0; QUAD]; BLOCK];
    for (rows, gradients) in rows.chunks(BLOCK).zip(gradients.chunks(BLOCK)) {
        for (bins, &row) in bins.iter_mut().zip(rows) {
            *bins = quad[row as usize];
        }
        for (bins, &gradient) in bins.iter().zip(gradients) {
            for (histogram, &bin) in histograms.iter_mut().zip(bins) {
                histogram[usize::from(bin)].add(gradient);
            }
        }
    }
}

/// A possible split.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Candidate {
    pub(super) gain: f64,
    pub(super) feature: usize,
    /// Bins up to and including this one go left.
    pub(super) bin: u8,
    pub(super) left: Sum,
}

impl Candidate {
    /// The better of two; the first of equals.
    pub(super) fn better(first: Option<Self>, second: Option<Self>) -> Option<Self> {
        match (first, second) {
            (Some(a), Some(b)) if b.gain > a.gain => second,
            (None, _) => second,
            _ => first,
        }
    }

    /// The best split of a leaf at this feature.
    pub(super) fn best(
        histogram: &[Sum],
        feature: usize,
        sum: Sum,
        scale: Scale,
        options: &BoostOptions,
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
