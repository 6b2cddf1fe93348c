//! When a read is refused, and how sure that is.

use trimtab_io::{Nanos, Op, Request};

use crate::predictor::{Forecast, Verdict};

/// A read is refused if its expected latency exceeds deadline − hop, and another replica would have
/// the data earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The deadline of reads that have none of their own, counted from the decision; `None`: they
    /// are all admitted.
    pub deadline: Option<Nanos>,
    /// The time of a failover to another replica.
    pub hop: Nanos,
    /// The latency to expect there. A read that is served here within it and the hop gains nothing
    /// by going there, even if it is late: with a deadline about as short as the hop, all reads
    /// would be refused. `None`: not regarded (as published).
    pub elsewhere: Option<Nanos>,
}

impl Limit {
    /// The hop of the paper's testbed (MittOS, §4.2.1): 0.3 ms.
    pub const HOP: Nanos = Nanos::from_micros(300);

    /// This deadline, and the hop of the paper.
    #[must_use]
    pub const fn new(deadline: Option<Nanos>) -> Self {
        Self { deadline, hop: Self::HOP, elsewhere: None }
    }

    /// The longest latency at which this request is admitted; `None`: any.
    #[inline]
    pub(crate) fn of(&self, now: Nanos, request: &Request) -> Option<Nanos> {
        if request.op != Op::Read {
            return None;
        }
        let deadline = request.deadline.map(|at| at.since(now)).or(self.deadline)?;
        let there = self.elsewhere.map_or(Nanos::ZERO, |elsewhere| self.hop + elsewhere);
        Some(deadline.since(self.hop).max(there))
    }
}

impl Default for Limit {
    fn default() -> Self {
        Self::new(None)
    }
}

/// The recent mean error of expected latencies.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sureness {
    /// Times [`Self::WEIGHT`], ns.
    error: u64,
}

impl Sureness {
    /// An error loses half of its influence after 44 others.
    const WEIGHT: u64 = 64;

    /// A read took `actual`, and `expected` had been forecast.
    #[inline]
    pub(super) fn learn(&mut self, expected: Nanos, actual: Nanos) {
        let error = expected.0.abs_diff(actual.0).min(u64::MAX / (4 * Self::WEIGHT));
        self.error = self.error - self.error / Self::WEIGHT + error;
    }

    /// The forecast for an expected latency.
    #[inline]
    pub(super) fn forecast(&self, expected: Nanos, limit: Option<Nanos>) -> Forecast {
        let late = limit.is_some_and(|limit| expected > limit);
        let probability = limit.map_or(0.0, |limit| self.probability(expected, limit));
        Forecast {
            verdict: if late { Verdict::Late } else { Verdict::Fast },
            probability,
            wait: Some(expected),
            fast: (!late).then_some(expected),
        }
    }

    /// The probability that a read with this expected latency exceeds the limit.
    #[inline]
    fn probability(&self, expected: Nanos, limit: Nanos) -> f32 {
        let spread = 4.0 * (self.error / Self::WEIGHT).max(1) as f32;
        let above = expected.0.wrapping_sub(limit.0) as i64 as f32;
        (0.5 + above / spread).clamp(0.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::request;

    #[test]
    fn own_deadlines_come_first_and_hops_count() {
        let limit = Limit::new(Some(Nanos::from_millis(2)));
        let read = request(Op::Read, 0, 4096);
        assert_eq!(limit.of(Nanos(5), &read), Some(Nanos::from_micros(1700)));
        let own = Request { deadline: Some(Nanos::from_millis(1)), ..read };
        assert_eq!(limit.of(Nanos::from_micros(400), &own), Some(Nanos::from_micros(300)));
        assert_eq!(limit.of(Nanos::from_millis(7), &own), Some(Nanos::ZERO));
        assert_eq!(limit.of(Nanos(5), &request(Op::Write, 0, 4096)), None);
        assert_eq!(Limit::default().of(Nanos(5), &read), None);
        // The other replica has the data after 380 µs.
        let elsewhere = Limit { elsewhere: Some(Nanos::from_micros(80)), ..limit };
        assert_eq!(elsewhere.of(Nanos(5), &read), Some(Nanos::from_micros(1700)));
        assert_eq!(elsewhere.of(Nanos::from_millis(7), &own), Some(Nanos::from_micros(380)));
    }

    #[test]
    fn probability_is_a_half_at_the_limit_and_sharpens_with_accuracy() {
        let mut sure = Sureness::default();
        let of = |sure: &Sureness, us: u64| {
            sure.forecast(Nanos::from_micros(us), Some(Nanos::from_micros(100))).probability
        };
        assert_eq!((of(&sure, 99), of(&sure, 100), of(&sure, 101)), (0.0, 0.5, 1.0));
        (0..1000).for_each(|_| sure.learn(Nanos::from_micros(10), Nanos::from_micros(30)));
        assert!((of(&sure, 120) - 0.75).abs() < 0.01 && (of(&sure, 60) - 0.0).abs() < 0.01);
        let late = sure.forecast(Nanos(2), Some(Nanos(1)));
        assert_eq!((late.verdict, late.wait, late.fast), (Verdict::Late, Some(Nanos(2)), None));
    }
}
