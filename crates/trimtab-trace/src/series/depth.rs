//! Requests in flight over time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::bins::{AdaptiveBins, Merge};

/// Tracks the number of requests that have arrived and not completed.
///
/// Requests are in arrival order. So when one arrives at `t`, all completions before are known, and
/// are taken from a heap of the requests in flight.
#[derive(Clone, Debug)]
pub(super) struct DepthMeter {
    /// Future completions.
    ends: BinaryHeap<Reverse<u64>>,
    depth: u64,
    /// Time counted so far.
    counted: u64,
    bins: AdaptiveBins<DepthBin>,
}

/// Depth during one bin.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DepthBin {
    /// Integral of the depth over nanoseconds: `u128`, because thousands in flight for a year
    /// exceed 64 bits.
    pub(super) sum: u128,
    pub(super) max: u64,
}

impl Merge for DepthBin {
    fn merge(&mut self, other: Self) {
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }
}

impl DepthMeter {
    pub(super) const fn new(most_bins: usize) -> Self {
        Self { ends: BinaryHeap::new(), depth: 0, counted: 0, bins: AdaptiveBins::new(most_bins) }
    }

    /// Adds a request that arrived at `arrival` (not before earlier ones) and completed at `end`.
    pub(super) fn add(&mut self, arrival: u64, end: u64) {
        self.advance(arrival);
        if arrival < end {
            self.hold(arrival);
            self.depth += 1;
            self.ends.push(Reverse(end));
        }
    }

    /// Processes completions up to `until`. At one instant completions come first, so that
    /// back-to-back requests count as one in flight.
    fn advance(&mut self, until: u64) {
        while let Some(&Reverse(at)) = self.ends.peek() {
            if at > until {
                break;
            }
            self.ends.pop();
            self.hold(at);
            self.depth -= 1;
        }
    }

    /// Holds the current depth until `until`.
    fn hold(&mut self, until: u64) {
        while self.counted < until {
            let depth = self.depth;
            let bin = self.bins.at(self.counted);
            bin.max = bin.max.max(depth);
            // Behind `at`, which may change the width.
            let bin_end = (self.counted / self.bins.width() + 1).saturating_mul(self.bins.width());
            let end = until.min(bin_end);
            self.bins.at(self.counted).sum += u128::from(depth) * u128::from(end - self.counted);
            self.counted = end;
        }
    }

    /// Processes the remaining completions; returns the bins and the time of the last completion.
    pub(super) fn finish(mut self) -> (AdaptiveBins<DepthBin>, u64) {
        self.advance(u64::MAX);
        (self.bins, self.counted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn back_to_back_requests_have_depth_one() {
        let mut meter = DepthMeter::new(512);
        for i in 0..100 {
            meter.add(i * 10, i * 10 + 10);
        }
        let (bins, end) = meter.finish();
        assert_eq!(end, 1000);
        assert!(bins.bins().iter().all(|b| b.max == 1));
        assert_eq!(bins.bins().iter().map(|b| b.sum).sum::<u128>(), 1000);
    }

    proptest! {
        #[test]
        fn depth_integral_equals_total_time_in_flight(
            gaps in prop::collection::vec((0_u64..1000, 0_u64..100_000), 1..100),
            max in 2_usize..64,
        ) {
            let mut meter = DepthMeter::new(max);
            let (mut arrival, mut total) = (0, 0_u128);
            let mut spans = Vec::new();
            for (gap, response) in gaps {
                arrival += gap;
                let end = arrival + response;
                meter.add(arrival, end);
                spans.push((arrival, end));
                total += u128::from(response);
            }
            let (bins, _) = meter.finish();
            prop_assert_eq!(bins.bins().iter().map(|b| b.sum).sum::<u128>(), total);
            // The maximum is just after some arrival.
            let depth_at = |t: u64| spans.iter().filter(|s| s.0 <= t && t < s.1).count() as u64;
            let deepest = spans.iter().filter(|s| s.0 < s.1).map(|s| depth_at(s.0)).max();
            prop_assert_eq!(bins.bins().iter().map(|b| b.max).max().unwrap_or(0), deepest.unwrap_or(0));
        }
    }
}
