//! Paired comparison of latencies, and the correction for many comparisons.

use serde::Serialize;
use trimtab_io::{Nanos, SplitMix64};

use super::{LEAST, MARGIN};

/// One figure of two strategies that served the same reads.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Paired {
    /// The figure of the strategy that is compared with, ns.
    pub base_ns: f64,
    /// That of the strategy in question, ns.
    pub ours_ns: f64,
    /// The standard error of the difference, ns.
    pub error_ns: f64,
    /// The probability of such a difference if it were no greater than the margin.
    pub p: f64,
}

impl Paired {
    /// Whether the difference exceeds the margin, with or without confidence.
    #[must_use]
    pub fn exceeds(&self) -> bool {
        exceeds(self.base_ns, self.ours_ns)
    }
}

/// Whether a figure exceeds that of `base` by more than the margin.
pub(super) fn exceeds(base_ns: f64, ours_ns: f64) -> bool {
    ours_ns - base_ns > margin(base_ns)
}

fn margin(base_ns: f64) -> f64 {
    (MARGIN * base_ns).max(LEAST.0 as f64)
}

/// Blocks of consecutive reads, and how often they are drawn.
const BLOCKS: usize = 64;
const SAMPLES: usize = 200;

/// A figure as a function of latencies, which it may reorder.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Statistic {
    Mean,
    Quantile(f64),
}

impl Statistic {
    fn of(self, latencies: &mut [Nanos]) -> f64 {
        match self {
            Self::Mean => {
                latencies.iter().map(|l| l.0 as f64).sum::<f64>() / latencies.len().max(1) as f64
            }
            Self::Quantile(share) => {
                let rank = (share * latencies.len() as f64).ceil() as usize;
                let at = rank.clamp(1, latencies.len()) - 1;
                latencies.select_nth_unstable(at).1.0 as f64
            }
        }
    }
}

/// Compares one figure over reads in order of arrival.
///
/// # Panics
/// There are no reads, or not as many of one as of the other.
pub(super) fn paired(base: &[Nanos], ours: &[Nanos], statistic: Statistic, seed: u64) -> Paired {
    assert!(!base.is_empty() && base.len() == ours.len(), "the same reads");
    let whole = |latencies: &[Nanos]| statistic.of(&mut latencies.to_vec());
    let (base_ns, ours_ns) = (whole(base), whole(ours));
    let length = base.len().div_ceil(BLOCKS);
    let blocks = base.len().div_ceil(length);
    let mut random = SplitMix64::new(seed);
    let (mut sum, mut squares) = (0.0, 0.0);
    let (mut of_base, mut of_ours) = (Vec::new(), Vec::new());
    for _ in 0..SAMPLES {
        of_base.clear();
        of_ours.clear();
        for _ in 0..blocks {
            let from = (random.next() % blocks as u64) as usize * length;
            let to = (from + length).min(base.len());
            of_base.extend_from_slice(&base[from..to]);
            of_ours.extend_from_slice(&ours[from..to]);
        }
        let difference = statistic.of(&mut of_ours) - statistic.of(&mut of_base);
        sum += difference;
        squares += difference * difference;
    }
    let mean = sum / SAMPLES as f64;
    let error_ns = (squares / SAMPLES as f64 - mean * mean).max(0.0).sqrt();
    let mut paired = Paired { base_ns, ours_ns, error_ns, p: 1.0 };
    let excess = ours_ns - base_ns - margin(base_ns);
    paired.p = match (excess > 0.0, error_ns > 0.0) {
        (true, true) => upper_tail(excess / error_ns),
        (true, false) => 0.0,
        (false, _) => 1.0 - upper_tail(-excess / error_ns.max(1e-9)),
    };
    paired
}

/// The probability that a standard normal variable exceeds `z`, at least 0.
fn upper_tail(z: f64) -> f64 {
    0.5 * libm::erfc(z / std::f64::consts::SQRT_2)
}

/// Which of many p-values are significant at a level, by the method of Holm.
#[must_use]
pub fn holm(values: &[f64], level: f64) -> Vec<bool> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut significant = vec![false; values.len()];
    for (rank, &at) in order.iter().enumerate() {
        if values[at] > level / (values.len() - rank) as f64 {
            break;
        }
        significant[at] = true;
    }
    significant
}

#[cfg(test)]
mod tests {
    use super::*;

    fn latencies(seed: u64, slow: u64) -> Vec<Nanos> {
        let mut random = SplitMix64::new(seed);
        let of = |_| {
            let tail = if random.next().is_multiple_of(50) { 2_000_000 } else { 0 };
            Nanos(slow + 90_000 + random.next() % 20_000 + tail)
        };
        (0..20_000).map(of).collect()
    }

    #[test]
    fn a_shift_beyond_the_margin_is_found_and_one_within_is_not() {
        let base = latencies(1, 0);
        for (slow, is_worse) in [(0, false), (2_000, false), (20_000, true)] {
            let ours = latencies(1, slow);
            let mean = paired(&base, &ours, Statistic::Mean, 3);
            assert_eq!(mean.p < 1e-5, is_worse, "{slow}: {mean:?}");
        }
    }

    #[test]
    fn noise_alone_is_seldom_significant() {
        let tests = 200;
        let found = (0..tests).filter(|&seed| {
            let (base, ours) = (latencies(2 * seed, 0), latencies(2 * seed + 1, 0));
            paired(&base, &ours, Statistic::Quantile(0.99), seed).p < 0.01
        });
        let found = found.count();
        assert!(found <= 4, "{found} of {tests}");
    }

    #[test]
    fn holm_stops_at_the_first_that_is_not_significant() {
        assert_eq!(holm(&[0.04, 0.001, 0.012], 0.05), [true, true, true]);
        assert_eq!(holm(&[0.04, 0.001, 0.03], 0.05), [false, true, false]);
        assert_eq!(holm(&[], 0.05), [] as [bool; 0]);
    }
}
