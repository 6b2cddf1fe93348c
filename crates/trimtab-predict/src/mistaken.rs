//! A predictor that errs on purpose.

use trimtab_io::{HostEvent, Nanos, Op, Request, mix64};

use crate::predictor::{Forecast, Predictor, Ticket, Verdict};

/// The shares of a predictor's decisions that are turned around (MittOS, §4.5.7).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ErrorShares {
    /// Of the reads that it would refuse, those that are sent, 0 to 1.
    pub false_negatives: f64,
    /// Of the reads that it would send, those that are refused, 0 to 1.
    pub false_positives: f64,
}

/// A predictor some of whose decisions are turned around: how much does accuracy matter?
///
/// Which ones depends on the seed, the request and the drive only, so that a read gets the same
/// answer each time it asks.
#[derive(Clone)]
pub struct Mistaken {
    inner: Box<dyn Predictor>,
    errors: ErrorShares,
    seed: u64,
}

impl Mistaken {
    /// This predictor with these errors.
    #[must_use]
    pub const fn new(inner: Box<dyn Predictor>, errors: ErrorShares, seed: u64) -> Self {
        Self { inner, errors, seed }
    }

    /// Whether a decision on a request is one of this share.
    fn is_wrong(&self, request: &Request, share: f64) -> bool {
        let drawn = mix64(self.seed ^ mix64(request.id.0)) >> 11;
        (drawn as f64) < share * (1_u64 << 53) as f64
    }
}

impl Predictor for Mistaken {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn predict(&self, now: Nanos, request: &Request) -> Forecast {
        let forecast = self.inner.predict(now, request);
        let (share, verdict) = match forecast.verdict {
            Verdict::Late => (self.errors.false_negatives, Verdict::Fast),
            Verdict::Fast => (self.errors.false_positives, Verdict::Late),
        };
        if request.op == Op::Read && self.is_wrong(request, share) {
            let probability = 1.0 - forecast.probability;
            let fast = forecast.wait.filter(|_| verdict == Verdict::Fast);
            return Forecast { verdict, probability, fast, ..forecast };
        }
        forecast
    }

    fn sent(&mut self, now: Nanos, request: &Request) -> Ticket {
        self.inner.sent(now, request)
    }

    fn completed(&mut self, now: Nanos, ticket: Ticket, data: bool) {
        self.inner.completed(now, ticket, data);
    }

    fn dispatched(&mut self, now: Nanos, ticket: Ticket) {
        self.inner.dispatched(now, ticket);
    }

    fn next_cancelled(&mut self) -> Option<Ticket> {
        self.inner.next_cancelled()
    }

    fn observe(&mut self, event: &HostEvent) {
        self.inner.observe(event);
    }

    fn boxed_clone(&self) -> Box<dyn Predictor> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use trimtab_io::{DeviceId, RequestId};

    use super::*;
    use crate::SimpleHeuristic;

    #[test]
    fn shares_are_kept_and_answers_repeat() {
        let read = |i: u64| Request::new(RequestId(i), DeviceId(0), Nanos(0), Op::Read, 0, 4096);
        let late = |queue: u32, errors| {
            let mut inner = SimpleHeuristic::new(0);
            (0..queue).for_each(|i| _ = inner.sent(Nanos(0), &read(i.into())));
            let mistaken = Mistaken::new(Box::new(inner), errors, 7);
            let verdict = |i| mistaken.predict(Nanos(1), &read(i)).verdict;
            assert!((0..100).all(|i| verdict(i) == verdict(i)));
            (0..10_000).filter(|&i| verdict(i) == Verdict::Late).count()
        };
        let none = ErrorShares::default();
        assert_eq!((late(0, none), late(3, none)), (0, 10_000));
        let some = ErrorShares { false_negatives: 0.2, false_positives: 0.4 };
        assert!(late(3, some).abs_diff(8000) < 200 && late(0, some).abs_diff(4000) < 200);
        let all = ErrorShares { false_negatives: 1.0, false_positives: 1.0 };
        assert_eq!((late(0, all), late(3, all)), (10_000, 0));
    }
}
