//! Latency distributions in constant memory.

use hdrhistogram::Histogram;

use crate::Nanos;
use crate::summary::{PERCENTILES, Percentile, Summary};

/// The longest latency told apart from longer ones: 1000 s.
const LONGEST: Nanos = Nanos::from_secs(1_000);

/// Two significant digits give 256 steps per power of two at the bottom of the
/// range and 128 above it: a bucket is at most 1/128 = 0.78% of its value wide.
const SIGNIFICANT_DIGITS: u8 = 2;

/// A distribution of latencies, in about 34 KiB however many it holds.
///
/// Any value from 1 ns to 1000 s is off by at most 1% (exact below 256 ns);
/// count, mean and maximum are exact. Longer latencies count as 1000 s in the
/// percentiles. Two histograms merge without loss, so each thread, device or
/// window can keep its own.
#[derive(Clone, Debug)]
pub struct LatencyHistogram {
    buckets: Histogram<u64>,
    sum: u128,
    max: Nanos,
}

impl LatencyHistogram {
    /// An empty histogram.
    #[must_use]
    pub fn new() -> Self {
        let buckets = Histogram::new_with_bounds(1, LONGEST.0, SIGNIFICANT_DIGITS)
            .expect("constant bounds are valid");
        Self { buckets, sum: 0, max: Nanos::ZERO }
    }

    /// Adds one latency.
    #[inline]
    pub fn record(&mut self, latency: Nanos) {
        self.buckets.saturating_record(latency.0);
        self.sum += u128::from(latency.0);
        self.max = self.max.max(latency);
    }

    /// Adds everything that `other` holds.
    pub fn merge(&mut self, other: &Self) {
        self.buckets.add(&other.buckets).expect("all histograms have the same bounds");
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }

    /// Forgets everything, and keeps the memory.
    pub fn clear(&mut self) {
        self.buckets.reset();
        self.sum = 0;
        self.max = Nanos::ZERO;
    }

    /// How many latencies it holds.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.len()
    }

    /// The exact mean, to the nearest nanosecond; `None` when empty.
    #[must_use]
    pub fn mean(&self) -> Option<Nanos> {
        let count = u128::from(self.count());
        (count > 0).then(|| Nanos(((self.sum + count / 2) / count) as u64))
    }

    /// The exact maximum; `None` when empty.
    #[must_use]
    pub fn max(&self) -> Option<Nanos> {
        (self.count() > 0).then_some(self.max)
    }

    /// The latency that a share `q` (0 to 1) of all does not exceed, within 1%;
    /// `None` when empty. It does not judge whether the samples are many enough
    /// for that: [`summary`](Self::summary) does.
    #[must_use]
    pub fn quantile(&self, q: f64) -> Option<Nanos> {
        (self.count() > 0).then(|| Nanos(self.buckets.value_at_quantile(q)).min(self.max))
    }

    /// The non-empty buckets in rising order: the highest latency of each, and
    /// how many fell into it.
    pub fn buckets(&self) -> impl Iterator<Item = (Nanos, u64)> + '_ {
        self.buckets.iter_recorded().map(|v| {
            (Nanos(self.buckets.highest_equivalent(v.value_iterated_to())), v.count_at_value())
        })
    }

    /// What a report prints of it.
    #[must_use]
    pub fn summary(&self) -> Summary {
        let count = self.count();
        let percentiles = PERCENTILES
            .iter()
            .filter(|p| p.supported_by(count))
            .map(|p| Percentile {
                name: p.name,
                value: self.quantile(p.share()).unwrap_or_default(),
            })
            .collect();
        Summary { count, mean: self.mean(), percentiles, max: self.max() }
    }
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Extend<Nanos> for LatencyHistogram {
    fn extend<I: IntoIterator<Item = Nanos>>(&mut self, latencies: I) {
        for latency in latencies {
            self.record(latency);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn exact_quantile(sorted: &[u64], q: f64) -> u64 {
        let rank = ((q * sorted.len() as f64).ceil() as usize).clamp(1, sorted.len());
        sorted[rank - 1]
    }

    proptest! {
        #[test]
        fn quantiles_are_within_one_percent(
            mut values in prop::collection::vec(100_u64..1_000_000_000_000, 1..400),
            q in 0.0..=1.0_f64,
        ) {
            let mut histogram = LatencyHistogram::new();
            histogram.extend(values.iter().copied().map(Nanos));
            values.sort_unstable();
            let exact = exact_quantile(&values, q) as f64;
            let got = histogram.quantile(q).unwrap().0 as f64;
            prop_assert!((got - exact).abs() <= 0.01 * exact, "{got} against {exact}");
        }

        #[test]
        fn merging_is_recording_all(
            a in prop::collection::vec(0_u64..u64::MAX, 0..50),
            b in prop::collection::vec(0_u64..10_000_000, 0..50),
        ) {
            let of = |values: &[u64]| {
                let mut h = LatencyHistogram::new();
                h.extend(values.iter().copied().map(Nanos));
                h
            };
            let mut merged = of(&a);
            merged.merge(&of(&b));
            let all: Vec<u64> = a.iter().chain(&b).copied().collect();
            prop_assert_eq!(merged.summary(), of(&all).summary());
            prop_assert!(merged.buckets().eq(of(&all).buckets()));
        }
    }

    #[test]
    fn empty_has_no_figures() {
        let summary = LatencyHistogram::new().summary();
        assert_eq!((summary.count, summary.mean, summary.max), (0, None, None));
        assert!(summary.percentiles.is_empty());
    }

    #[test]
    fn beyond_the_range_keeps_exact_maximum() {
        let mut histogram = LatencyHistogram::new();
        histogram.record(Nanos::from_secs(5_000));
        assert_eq!(histogram.max(), Some(Nanos::from_secs(5_000)));
        assert_eq!(histogram.mean(), Some(Nanos::from_secs(5_000)));
    }
}
