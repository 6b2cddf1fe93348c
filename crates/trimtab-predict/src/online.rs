//! The online evaluator: how accurate is a model on a drive in use?
//!
//! `trimtab_train::evaluate` evaluates on a whole recording; an [`OnlineEvaluator`] on requests
//! as they come. It takes the same steps in the same order: before a read is sent the predictor
//! makes its forecast, from completions up to then, and when the read completes the two are
//! compared.
//!
//! The evaluator observes and does not refuse, so the outcome of reads that were predicted late
//! is known as well. Reads that something else refused are not seen at all.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use serde::Serialize;
use trimtab_io::Nanos;

use crate::drift::{DriftDetector, DriftReport};
use crate::label::Label;
use crate::model::Model;
use crate::pages::pages_of;
use crate::predictor::{Forecast, Predictor, Ticket, Verdict};
use crate::recorded::Recorded;

/// Counts of forecasts compared with outcomes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OnlineScore {
    /// Reads that completed with their data.
    pub reads: u64,
    /// How many of them were late, by the model's label.
    pub late: u64,
    /// How many had been predicted late.
    pub predicted_late: u64,
    /// Predicted fast, and late.
    pub false_submits: u64,
    /// Predicted late, but fast.
    pub false_revokes: u64,
}

impl OnlineScore {
    /// The share of reads that was predicted late, 0 to 1.
    #[must_use]
    pub fn predicted_late_share(&self) -> Option<f64> {
        ratio(self.predicted_late, self.reads)
    }

    /// Of the reads predicted fast, the share that was late, 0 to 1.
    #[must_use]
    pub fn false_submit_rate(&self) -> Option<f64> {
        ratio(self.false_submits, self.reads - self.predicted_late)
    }

    /// Of the reads predicted late, the share that was fast, 0 to 1.
    #[must_use]
    pub fn false_revoke_rate(&self) -> Option<f64> {
        ratio(self.false_revokes, self.predicted_late)
    }

    /// The sum of both.
    #[must_use]
    pub const fn and(&self, others: &Self) -> Self {
        Self {
            reads: self.reads + others.reads,
            late: self.late + others.late,
            predicted_late: self.predicted_late + others.predicted_late,
            false_submits: self.false_submits + others.false_submits,
            false_revokes: self.false_revokes + others.false_revokes,
        }
    }

    /// The difference to an `earlier` count.
    #[must_use]
    pub const fn since(&self, earlier: &Self) -> Self {
        Self {
            reads: self.reads - earlier.reads,
            late: self.late - earlier.late,
            predicted_late: self.predicted_late - earlier.predicted_late,
            false_submits: self.false_submits - earlier.false_submits,
            false_revokes: self.false_revokes - earlier.false_revokes,
        }
    }
}

fn ratio(part: u64, of: u64) -> Option<f64> {
    (of > 0).then(|| part as f64 / of as f64)
}

/// Compares a model's forecasts with a drive's completions.
///
/// ```
/// use trimtab_io::{DeviceId, Nanos, Op, Request, RequestId};
/// use trimtab_predict::{Model, OnlineEvaluator, Recorded};
///
/// # fn evaluate(model: &Model) {
/// let mut evaluator = OnlineEvaluator::new(model);
/// for i in 0..100 {
///     let sent = Nanos::from_micros(100 * i);
///     let request = Request::new(RequestId(i), DeviceId(0), sent, Op::Read, 4096 * i, 4096);
///     evaluator.take(&Recorded { request, complete: sent + Nanos(80_000), data: true });
/// }
/// evaluator.settle(Nanos::MAX);
/// assert_eq!(evaluator.score().reads, 100);
/// # }
/// ```
pub struct OnlineEvaluator {
    predictor: Box<dyn Predictor>,
    label: Label,
    /// Requests that have not completed by the arrival of the last one.
    in_flight: BinaryHeap<Reverse<InFlight>>,
    /// 4 KiB pages in flight.
    load: u32,
    taken: u64,
    /// `None` for a model with neither a reference of its training nor calibrated probabilities.
    drift: Option<DriftDetector>,
    score: OnlineScore,
}

/// A request in flight, ordered by completion, and at one instant by submission.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct InFlight {
    complete: Nanos,
    number: u64,
    what: Sent,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Sent {
    sent: Nanos,
    ticket: u32,
    pages: u32,
    load: u32,
    data: bool,
    /// Of a read.
    forecast: Option<Forecasted>,
}

/// A forecast that can be compared.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Forecasted {
    late: bool,
    /// The probability's bits.
    probability: u32,
    wait: Option<Nanos>,
}

impl OnlineEvaluator {
    /// Starts with an empty drive state.
    #[must_use]
    pub fn new(model: &Model) -> Self {
        Self {
            predictor: model.trained.predictor(),
            label: model.card.label.clone(),
            in_flight: BinaryHeap::new(),
            load: 0,
            taken: 0,
            drift: DriftDetector::of(model),
            score: OnlineScore::default(),
        }
    }

    /// Takes a request and its completion, in order of arrival.
    ///
    /// The completion lies in the future of the forecast; the predictor learns of it when its
    /// time has come.
    pub fn take(&mut self, recorded: &Recorded) {
        let Recorded { request, complete, data } = recorded;
        self.settle(request.arrival);
        let forecast = recorded.is_read().then(|| {
            let Forecast { verdict, probability, wait, .. } =
                self.predictor.predict(request.arrival, request);
            Forecasted { late: verdict == Verdict::Late, probability: probability.to_bits(), wait }
        });
        let ticket = self.predictor.sent(request.arrival, request).0;
        let (pages, load, data) = (pages_of(request), self.load, *data);
        let what = Sent { sent: request.arrival, ticket, pages, load, data, forecast };
        self.load += pages;
        self.in_flight.push(Reverse(InFlight { complete: *complete, number: self.taken, what }));
        self.taken += 1;
    }

    /// Applies all completions up to and including `now`: no request that arrived before will
    /// be taken.
    pub fn settle(&mut self, now: Nanos) {
        while let Some(Reverse(first)) = self.in_flight.peek()
            && first.complete <= now
        {
            let Reverse(InFlight { complete, what, .. }) =
                self.in_flight.pop().expect("there is a first");
            self.complete(complete, &what);
        }
    }

    fn complete(&mut self, complete: Nanos, what: &Sent) {
        self.load -= what.pages;
        self.predictor.completed(complete, Ticket(what.ticket), what.data);
        let Some(Forecasted { late: predicted_late, probability, wait }) = what.forecast else {
            return;
        };
        let latency = complete.since(what.sent);
        let late = self.label.is_slow(latency, what.pages, what.load);
        self.score.reads += 1;
        self.score.late += u64::from(late);
        self.score.predicted_late += u64::from(predicted_late);
        self.score.false_submits += u64::from(late && !predicted_late);
        self.score.false_revokes += u64::from(!late && predicted_late);
        if let Some(drift) = &mut self.drift {
            let verdict = if predicted_late { Verdict::Late } else { Verdict::Fast };
            let probability = f32::from_bits(probability);
            let forecast = Forecast { verdict, probability, wait, fast: None };
            let threshold = self.label.limit_ns(what.pages, what.load);
            drift.completed(&forecast, latency, late, threshold);
        }
    }

    /// The score so far.
    #[must_use]
    pub const fn score(&self) -> OnlineScore {
        self.score
    }

    /// Whether the model's forecasts still fit, if that can be known.
    #[must_use]
    pub fn drift(&self) -> Option<DriftReport> {
        self.drift.as_ref().map(DriftDetector::report)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_none_without_reads_to_count() {
        let none = OnlineScore::default();
        assert_eq!((none.false_submit_rate(), none.false_revoke_rate()), (None, None));
        let some = OnlineScore {
            reads: 10,
            late: 3,
            predicted_late: 2,
            false_submits: 2,
            false_revokes: 1,
        };
        assert_eq!(some.false_submit_rate(), Some(0.25));
        assert_eq!(some.false_revoke_rate(), Some(0.5));
        assert_eq!(some.since(&some), none);
        assert_eq!(some.and(&some).since(&some), some);
    }
}
