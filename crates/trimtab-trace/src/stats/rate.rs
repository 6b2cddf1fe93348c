//! Rates over windows, and inter-arrival times.

use trimtab_io::{LatencyHistogram, Nanos};

use super::report::{InterArrival, PeakRate};

/// Adjacent windows of one length, of which the busiest is kept.
#[derive(Debug)]
pub(super) struct Window {
    length: Nanos,
    /// End of the current window, from the first arrival.
    end: Nanos,
    requests: u64,
    bytes: u64,
    most_requests: u64,
    most_bytes: u64,
}

impl Window {
    pub(super) const fn new(length: Nanos) -> Self {
        Self { length, end: length, requests: 0, bytes: 0, most_requests: 0, most_bytes: 0 }
    }

    /// Adds a request that arrived `at` after the first.
    pub(super) fn add(&mut self, at: Nanos, bytes: u64) {
        if at >= self.end {
            self.end =
                Nanos((at.0 / self.length.0).saturating_add(1).saturating_mul(self.length.0));
            self.requests = 0;
            self.bytes = 0;
        }
        self.requests += 1;
        self.bytes += bytes;
        self.most_requests = self.most_requests.max(self.requests);
        self.most_bytes = self.most_bytes.max(self.bytes);
    }

    /// The highest rates, if the trace covers a whole window.
    pub(super) fn peak(&self, duration: Nanos) -> Option<PeakRate> {
        let seconds = self.length.as_secs_f64();
        (duration >= self.length).then(|| PeakRate {
            window_s: self.length.0 / Nanos::from_secs(1).0,
            iops: self.most_requests as f64 / seconds,
            mb_s: self.most_bytes as f64 / 1e6 / seconds,
        })
    }
}

/// Inter-arrival times.
#[derive(Debug, Default)]
pub(super) struct Gaps {
    times: LatencyHistogram,
    sum: u64,
    /// Cannot overflow: a sum of squares is at most the square of the sum, and
    /// the sum is at most the span of 64-bit times.
    sum_of_squares: u128,
}

impl Gaps {
    pub(super) fn add(&mut self, gap: Nanos) {
        self.times.record(gap);
        self.sum += gap.0;
        self.sum_of_squares += u128::from(gap.0) * u128::from(gap.0);
    }

    pub(super) fn figures(&self) -> Option<InterArrival> {
        let times = self.times.summary();
        let count = times.count as f64;
        let mean = self.sum as f64 / count;
        let coefficient_of_variation = (self.sum > 0).then(|| {
            let variance = self.sum_of_squares as f64 / count - mean * mean;
            variance.max(0.0).sqrt() / mean
        });
        (times.count > 0).then_some(InterArrival { times, coefficient_of_variation })
    }
}
