//! Latency distributions in constant memory.

use hdrhistogram::Histogram;

use crate::Nanos;
use crate::summary::{PERCENTILES, Percentile, Summary};

/// Latencies beyond are not distinguished: 1000 s.
const MAX_LATENCY: Nanos = Nanos::from_secs(1_000);

/// Two significant digits give 256 steps per power of two at the bottom of the
/// range and 128 above it: a bucket is at most 1/128 = 0.78% of its value wide.
const SIGNIFICANT_DIGITS: u8 = 2;

/// A latency distribution in about 34 KiB, for any number of samples.
///
/// Any value from 1 ns to 1000 s is off by at most 1% (exact below 256 ns); count, mean and maximum
/// are exact. Longer latencies count as 1000 s in the percentiles. Histograms merge without loss,
/// so each thread, device or window can have its own.
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
        let buckets = Histogram::new_with_bounds(1, MAX_LATENCY.0, SIGNIFICANT_DIGITS)
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

    /// Adds the samples of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.buckets.add(&other.buckets).expect("all histograms have the same bounds");
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }

    /// The distribution of the sum of two independent latencies: the convolution of both
    /// histograms. Its count is the product of both counts, exact for up to 4 × 10⁹ in each.
    ///
    /// Its mean is the sum of the means, exact to a nanosecond, and its maximum that of the
    /// maxima. A bucket counts as its middle, which is off by 0.4%, and sums go into buckets of
    /// the same width again: percentiles are within 1.2%.
    #[must_use]
    pub fn convolved(&self, other: &Self) -> Self {
        let mut sums = Self::new();
        let others: Vec<_> = other.middles().collect();
        for (latency, count) in self.middles() {
            for &(more, times) in &others {
                sums.buckets.saturating_record_n(latency + more, count.saturating_mul(times));
            }
        }
        if sums.count() > 0 {
            let (counts, of_other) = (u128::from(self.count()), u128::from(other.count()));
            let product = self.sum.saturating_mul(of_other);
            sums.sum = product.saturating_add(other.sum.saturating_mul(counts));
            sums.max = Nanos(self.max.0.saturating_add(other.max.0));
        }
        sums
    }

    /// The middle of each non-empty bucket, and its count.
    fn middles(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.buckets.iter_recorded().map(|bucket| {
            (self.buckets.median_equivalent(bucket.value_iterated_to()), bucket.count_at_value())
        })
    }

    /// Removes all samples, and keeps the memory.
    pub fn clear(&mut self) {
        self.buckets.reset();
        self.sum = 0;
        self.max = Nanos::ZERO;
    }

    /// Number of samples.
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

    /// The quantile `q` (0 to 1), within 1%; `None` when empty. Does not check whether there are
    /// enough samples: [`summary`](Self::summary) does.
    #[must_use]
    pub fn quantile(&self, q: f64) -> Option<Nanos> {
        (self.count() > 0).then(|| Nanos(self.buckets.value_at_quantile(q)).min(self.max))
    }

    /// The non-empty buckets in rising order: highest latency and count.
    pub fn buckets(&self) -> impl Iterator<Item = (Nanos, u64)> + '_ {
        self.buckets.iter_recorded().map(|v| {
            (Nanos(self.buckets.highest_equivalent(v.value_iterated_to())), v.count_at_value())
        })
    }

    /// Count, mean, percentiles and maximum.
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
        fn merging_equals_recording_all(
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

    fn near(histogram: &LatencyHistogram, q: f64, expected: f64) {
        let got = histogram.quantile(q).unwrap().0 as f64;
        assert!((got - expected).abs() <= 0.012 * expected, "{q}: {got} against {expected}");
    }

    fn of(latencies: impl Iterator<Item = f64>) -> LatencyHistogram {
        let mut histogram = LatencyHistogram::new();
        histogram.extend(latencies.map(|latency| Nanos(latency.round() as u64)));
        histogram
    }

    #[test]
    fn convolution_with_a_constant_shifts() {
        let spread = of((1..=1000).map(|i| f64::from(i) * 1000.0));
        let moved = spread.convolved(&of(std::iter::repeat_n(250_000.0, 40)));
        assert_eq!(moved.count(), 40_000);
        assert_eq!(moved.mean(), Some(Nanos(500_500 + 250_000)));
        assert_eq!(moved.max(), Some(Nanos(1_250_000)));
        for q in [0.01, 0.5, 0.9, 0.99] {
            near(&moved, q, 250_000.0 + 1_000_000.0 * q);
        }
    }

    #[test]
    fn sum_of_uniform_latencies_is_triangular() {
        let uniform = of((0..2000).map(|i| 10_000.0 + 5.0 * f64::from(i)));
        let sums = uniform.convolved(&uniform);
        // Density rises from 20 to 30 µs and falls to 40 µs.
        for q in [0.001, 0.02, 0.25, 0.5] {
            near(&sums, q, 20_000.0 + 10_000.0 * (2.0_f64 * q).sqrt());
            near(&sums, 1.0 - q, 40_000.0 - 10_000.0 * (2.0_f64 * q).sqrt());
        }
    }

    #[test]
    fn sum_of_exponential_latencies_is_erlang() {
        let share = |i: u32| (f64::from(i) + 0.5) / 20_000.0;
        let exponential = of((0..20_000).map(|i| -100_000.0 * (1.0 - share(i)).ln()));
        let sums = exponential.convolved(&exponential);
        // The roots of 1 - exp(-x) (1 + x) = q.
        for (q, x) in [(0.5, 1.678_35), (0.9, 3.889_72), (0.99, 6.638_35), (0.999, 9.233_41)] {
            near(&sums, q, 100_000.0 * x);
        }
    }

    #[test]
    fn convolution_with_empty_is_empty() {
        let one = of(std::iter::once(5.0));
        for sums in
            [one.convolved(&LatencyHistogram::new()), LatencyHistogram::new().convolved(&one)]
        {
            assert_eq!((sums.count(), sums.mean(), sums.max()), (0, None, None));
        }
    }

    #[test]
    fn empty_histogram_has_no_figures() {
        let summary = LatencyHistogram::new().summary();
        assert_eq!((summary.count, summary.mean, summary.max), (0, None, None));
        assert!(summary.percentiles.is_empty());
    }

    #[test]
    fn maximum_is_exact_beyond_the_range() {
        let mut histogram = LatencyHistogram::new();
        histogram.record(Nanos::from_secs(5_000));
        assert_eq!(histogram.max(), Some(Nanos::from_secs(5_000)));
        assert_eq!(histogram.mean(), Some(Nanos::from_secs(5_000)));
    }
}
