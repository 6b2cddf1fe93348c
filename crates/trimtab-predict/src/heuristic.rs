//! LinnOS's two heuristics (LinnOS, §5.3): what an engineer would write by hand.

use serde::{Deserialize, Serialize};
use trimtab_io::{Nanos, Request};

use crate::digits::Watched;
use crate::predictor::{Forecast, Predictor, Ticket, Verdict};

/// `heur-sim`: a request is late if many are in flight.
#[derive(Clone, Debug)]
pub struct Simple {
    watched: Watched,
    /// Requests in flight from which on the next one is refused.
    limit: usize,
}

/// `heur-adv`: the same, and a drive that was slow though little was asked of it
/// is taken to be busy with itself: until its last answers are all fast, it is
/// only sent something when hardly anything is in flight.
#[derive(Clone, Debug)]
pub struct Advanced {
    watched: Watched,
    limits: Limits,
    busy: bool,
}

/// What the heuristics go by, from a recording of the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Longer is slow: the inflection point.
    pub slow: Nanos,
    /// Requests in flight at the inflection point's percentile.
    pub high: usize,
    /// The median of the requests in flight.
    pub median: usize,
    /// The lower quartile of the requests in flight.
    pub low: usize,
}

/// A verdict by a queue's length, and for want of a probability something that
/// grows with the length and passes one half at the limit.
pub(crate) fn by_length(length: usize, limit: usize) -> Forecast {
    let verdict = if length > limit { Verdict::Late } else { Verdict::Fast };
    let probability = length as f32 / (length + limit + 1) as f32;
    Forecast { verdict, probability, wait: None, fast: None }
}

impl Simple {
    /// Refuses what more than `limit` requests are in flight before.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { watched: Watched::default(), limit }
    }
}

impl Predictor for Simple {
    fn name(&self) -> &'static str {
        "heur-sim"
    }

    fn predict(&self, _: Nanos, _: &Request) -> Forecast {
        by_length(self.watched.queue_length(), self.limit)
    }

    fn sent(&mut self, now: Nanos, request: &Request) -> Ticket {
        self.watched.sent(now, request)
    }

    fn completed(&mut self, now: Nanos, ticket: Ticket, data: bool) {
        self.watched.completed(now, ticket, data);
    }

    fn boxed_clone(&self) -> Box<dyn Predictor> {
        Box::new(self.clone())
    }
}

impl Advanced {
    /// A drive of which nothing is known but the limits.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self { watched: Watched::default(), limits, busy: false }
    }
}

impl Predictor for Advanced {
    fn name(&self) -> &'static str {
        "heur-adv"
    }

    fn predict(&self, _: Nanos, _: &Request) -> Forecast {
        let Limits { high, low, .. } = self.limits;
        // "Less than the lower quartile" while it is busy.
        let limit = if self.busy { low.saturating_sub(1) } else { high };
        by_length(self.watched.queue_length(), limit)
    }

    fn sent(&mut self, now: Nanos, request: &Request) -> Ticket {
        // That a queue was short is told by what was in flight before the
        // request came.
        self.watched.sent(now, request)
    }

    fn completed(&mut self, now: Nanos, ticket: Ticket, data: bool) {
        if !self.watched.completed(now, ticket, data) {
            return;
        }
        let Limits { slow, median, .. } = self.limits;
        let mut history = self.watched.history.iter();
        if self.busy {
            self.busy = history.any(|answer| answer.latency > slow);
        } else {
            // An empty queue is low even where the median is 0, as on drives with
            // little to do; else such a drive would never be busy with itself.
            self.busy =
                history.any(|a| a.latency > slow && (a.queue_then as usize) < median.max(1));
        }
    }

    fn boxed_clone(&self) -> Box<dyn Predictor> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::request;
    use trimtab_io::Op;

    fn verdict(predictor: &dyn Predictor) -> Verdict {
        predictor.predict(Nanos::ZERO, &request(Op::Read, 0, 4096)).verdict
    }

    #[test]
    fn many_in_flight_are_too_many() {
        let mut simple = Simple::new(2);
        for _ in 0..2 {
            simple.sent(Nanos::ZERO, &request(Op::Read, 0, 4096));
        }
        assert_eq!(verdict(&simple), Verdict::Fast);
        let third = simple.sent(Nanos::ZERO, &request(Op::Write, 0, 4096));
        assert_eq!(verdict(&simple), Verdict::Late);
        simple.completed(Nanos(1), third, true);
        assert_eq!(verdict(&simple), Verdict::Fast);
    }

    /// A drive with little to do has a median queue of nothing.
    #[test]
    fn an_empty_queue_is_a_low_one() {
        let limits = Limits { slow: Nanos(100), high: 10, median: 0, low: 0 };
        let mut advanced = Advanced::new(limits);
        let slow = advanced.sent(Nanos::ZERO, &request(Op::Read, 0, 4096));
        advanced.completed(Nanos(101), slow, true);
        assert!(advanced.busy);
    }

    #[test]
    fn slow_for_no_reason_is_busy_until_four_are_fast() {
        let limits = Limits { slow: Nanos(100), high: 10, median: 4, low: 2 };
        let mut advanced = Advanced::new(limits);
        let mut now = Nanos::ZERO;
        let mut one = |advanced: &mut Advanced, latency: u64| {
            let ticket = advanced.sent(now, &request(Op::Read, 0, 4096));
            now += Nanos(latency);
            advanced.completed(now, ticket, true);
        };
        one(&mut advanced, 100);
        assert!(!advanced.busy);
        one(&mut advanced, 101);
        assert!(advanced.busy);
        // With less than the lower quartile in flight it may go on.
        assert_eq!(verdict(&advanced), Verdict::Fast);
        let _ = advanced.sent(Nanos(300), &request(Op::Read, 0, 4096));
        let held = advanced.sent(Nanos(300), &request(Op::Read, 0, 4096));
        assert_eq!(verdict(&advanced), Verdict::Late);
        advanced.completed(Nanos(301), held, true);
        for _ in 0..3 {
            assert!(advanced.busy);
            one(&mut advanced, 10);
        }
        assert!(!advanced.busy);
    }
}
