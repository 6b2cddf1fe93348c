//! LinnOS's two heuristics (LinnOS, §5.3), by the queue's length.

use serde::{Deserialize, Serialize};
use trimtab_io::{Nanos, Request};

use crate::digits::DigitTracker;
use crate::predictor::{Forecast, Predictor, Ticket, Verdict};

/// `heur-sim`: a request is late if more than a limit are in flight.
#[derive(Clone, Debug)]
pub struct SimpleHeuristic {
    tracker: DigitTracker,
    /// Requests in flight from which on the next one is refused.
    limit: usize,
}

/// `heur-adv`: as `heur-sim`, and a drive that was slow at a low queue depth counts as
/// internally busy. Until its last four completions were all fast, requests are sent to it
/// only while next to nothing is in flight.
#[derive(Clone, Debug)]
pub struct AdvancedHeuristic {
    tracker: DigitTracker,
    limits: HeuristicLimits,
    busy: bool,
}

/// The heuristics' limits, from a recording of the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeuristicLimits {
    /// Longer is slow: the inflection point.
    pub slow: Nanos,
    /// Requests in flight at the inflection point's percentile.
    pub high: usize,
    /// The median of the requests in flight.
    pub median: usize,
    /// The lower quartile of the requests in flight.
    pub low: usize,
}

/// The forecast by a queue's length. The probability stands in for one: it grows with the
/// length and passes one half at the limit.
pub(crate) fn forecast_by_length(length: usize, limit: usize) -> Forecast {
    let verdict = if length > limit { Verdict::Late } else { Verdict::Fast };
    let probability = length as f32 / (length + limit + 1) as f32;
    Forecast { verdict, probability, wait: None, fast: None }
}

impl SimpleHeuristic {
    /// Refuses a request if more than `limit` are in flight.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { tracker: DigitTracker::default(), limit }
    }
}

impl Predictor for SimpleHeuristic {
    fn name(&self) -> &'static str {
        "heur-sim"
    }

    fn predict(&self, _: Nanos, _: &Request) -> Forecast {
        forecast_by_length(self.tracker.queue_length(), self.limit)
    }

    fn sent(&mut self, now: Nanos, request: &Request) -> Ticket {
        self.tracker.sent(now, request)
    }

    fn completed(&mut self, now: Nanos, ticket: Ticket, data: bool) {
        self.tracker.completed(now, ticket, data);
    }

    fn boxed_clone(&self) -> Box<dyn Predictor> {
        Box::new(self.clone())
    }
}

impl AdvancedHeuristic {
    /// Starts with an empty queue and history.
    #[must_use]
    pub fn new(limits: HeuristicLimits) -> Self {
        Self { tracker: DigitTracker::default(), limits, busy: false }
    }
}

impl Predictor for AdvancedHeuristic {
    fn name(&self) -> &'static str {
        "heur-adv"
    }

    fn predict(&self, _: Nanos, _: &Request) -> Forecast {
        let HeuristicLimits { high, low, .. } = self.limits;
        // "Less than the lower quartile" while it is busy.
        let limit = if self.busy { low.saturating_sub(1) } else { high };
        forecast_by_length(self.tracker.queue_length(), limit)
    }

    fn sent(&mut self, now: Nanos, request: &Request) -> Ticket {
        // The queue depth of the history is the one before the request came.
        self.tracker.sent(now, request)
    }

    fn completed(&mut self, now: Nanos, ticket: Ticket, data: bool) {
        if !self.tracker.completed(now, ticket, data) {
            return;
        }
        let HeuristicLimits { slow, median, .. } = self.limits;
        let mut history = self.tracker.history.iter();
        if self.busy {
            self.busy = history.any(|io| io.latency > slow);
        } else {
            // An empty queue is low even where the median is 0, as on drives with little
            // load; else such a drive would never count as internally busy.
            self.busy =
                history.any(|io| io.latency > slow && (io.queue_then as usize) < median.max(1));
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
    fn refuses_above_the_queue_limit() {
        let mut simple = SimpleHeuristic::new(2);
        for _ in 0..2 {
            simple.sent(Nanos::ZERO, &request(Op::Read, 0, 4096));
        }
        assert_eq!(verdict(&simple), Verdict::Fast);
        let third = simple.sent(Nanos::ZERO, &request(Op::Write, 0, 4096));
        assert_eq!(verdict(&simple), Verdict::Late);
        simple.completed(Nanos(1), third, true);
        assert_eq!(verdict(&simple), Verdict::Fast);
    }

    /// A drive with little load has a median queue depth of 0.
    #[test]
    fn empty_queue_is_below_a_median_of_zero() {
        let limits = HeuristicLimits { slow: Nanos(100), high: 10, median: 0, low: 0 };
        let mut advanced = AdvancedHeuristic::new(limits);
        let slow = advanced.sent(Nanos::ZERO, &request(Op::Read, 0, 4096));
        advanced.completed(Nanos(101), slow, true);
        assert!(advanced.busy);
    }

    #[test]
    fn slow_completion_at_low_depth_refuses_until_four_are_fast() {
        let limits = HeuristicLimits { slow: Nanos(100), high: 10, median: 4, low: 2 };
        let mut advanced = AdvancedHeuristic::new(limits);
        let mut now = Nanos::ZERO;
        let mut one = |advanced: &mut AdvancedHeuristic, latency: u64| {
            let ticket = advanced.sent(now, &request(Op::Read, 0, 4096));
            now += Nanos(latency);
            advanced.completed(now, ticket, true);
        };
        one(&mut advanced, 100);
        assert!(!advanced.busy);
        one(&mut advanced, 101);
        assert!(advanced.busy);
        // Below the lower quartile of the queue depth, requests are still sent.
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
