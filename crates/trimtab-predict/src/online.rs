//! How right is a predictor about a drive that is at work right now?
//!
//! [`evaluate`](crate::evaluate()) judges by a whole recording; a [`Judge`] by requests
//! as they come. It goes through the same steps in the same order: before a read
//! is sent the predictor says what it thinks, knowing only what had been answered
//! by then, and when the answer has come, both are compared.
//!
//! Whoever watches does not refuse. So all reads that are seen were sent, those too
//! that were predicted late: whether that would have been a false revoke is known of
//! each of them. Reads that somebody has refused are not seen at all.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use serde::Serialize;
use trimtab_io::Nanos;

use crate::drift::{Drift, Found};
use crate::history::Recorded;
use crate::in_flight::pages_of;
use crate::model::{Kind, Model};
use crate::predictor::{Predictor, Ticket, Verdict};
use crate::{Forecast, Label};

/// What came of comparing forecasts with answers, so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Judged {
    /// Reads that were answered with their data.
    pub reads: u64,
    /// How many of them were late, by the model's label.
    pub late: u64,
    /// How many had been predicted late.
    pub predicted_late: u64,
    /// Predicted fast, and late.
    pub false_submits: u64,
    /// Predicted late, and fast all the same.
    pub false_revokes: u64,
}

impl Judged {
    /// The share of reads that was predicted late, 0 to 1.
    #[must_use]
    pub fn predicted_late_share(&self) -> Option<f64> {
        share(self.predicted_late, self.reads)
    }

    /// Of the reads predicted fast, the share that was late, 0 to 1.
    #[must_use]
    pub fn false_submit_rate(&self) -> Option<f64> {
        share(self.false_submits, self.reads - self.predicted_late)
    }

    /// Of the reads predicted late, the share that was fast, 0 to 1.
    #[must_use]
    pub fn false_revoke_rate(&self) -> Option<f64> {
        share(self.false_revokes, self.predicted_late)
    }

    /// These and others together.
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

    /// What was added since `earlier`.
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

fn share(part: u64, of: u64) -> Option<f64> {
    (of > 0).then(|| part as f64 / of as f64)
}

/// Compares what a model foretells with what a drive does.
///
/// ```
/// use trimtab_io::{DeviceId, Nanos, Op, Request, RequestId};
/// use trimtab_predict::{Judge, Model, Recorded};
///
/// # fn judge(model: &Model) {
/// let mut judge = Judge::new(model);
/// for i in 0..100 {
///     let sent = Nanos::from_micros(100 * i);
///     let request = Request::new(RequestId(i), DeviceId(0), sent, Op::Read, 4096 * i, 4096);
///     judge.take(&Recorded { request, complete: sent + Nanos(80_000), data: true });
/// }
/// judge.settle(Nanos::MAX);
/// assert_eq!(judge.judged().reads, 100);
/// # }
/// ```
pub struct Judge {
    predictor: Box<dyn Predictor>,
    label: Label,
    /// What has been sent and is not answered by the time of the last request.
    on_their_way: BinaryHeap<Reverse<OnItsWay>>,
    /// 4 KiB pages in flight.
    load: u32,
    taken: u64,
    /// Of those predictors whose probabilities say anything.
    drift: Option<Drift>,
    judged: Judged,
}

/// A request between its being sent and its answer. First comes what is answered
/// first; at one instant, what was sent first.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct OnItsWay {
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
    /// Of a read: whether it was predicted late, and the probability's bits.
    foretold: Option<(bool, u32)>,
}

impl Judge {
    /// Begins to judge a model; nothing is known of the drive yet.
    #[must_use]
    pub fn new(model: &Model) -> Self {
        Self {
            predictor: model.trained.predictor(),
            label: model.card.label.clone(),
            on_their_way: BinaryHeap::new(),
            load: 0,
            taken: 0,
            drift: (model.trained.kind() == Kind::Trimtab).then(Drift::default),
            judged: Judged::default(),
        }
    }

    /// Takes a request, with its answer. They come in order of arrival.
    ///
    /// The answer lies in the future of the forecast, and is kept from the
    /// predictor until its time has come.
    pub fn take(&mut self, recorded: &Recorded) {
        let Recorded { request, complete, data } = recorded;
        self.settle(request.arrival);
        let foretold = recorded.is_read().then(|| {
            let Forecast { verdict, probability, .. } =
                self.predictor.predict(request.arrival, request);
            (verdict == Verdict::Late, probability.to_bits())
        });
        let ticket = self.predictor.sent(request.arrival, request).0;
        let (pages, load, data) = (pages_of(request), self.load, *data);
        let what = Sent { sent: request.arrival, ticket, pages, load, data, foretold };
        self.load += pages;
        self.on_their_way.push(Reverse(OnItsWay { complete: *complete, number: self.taken, what }));
        self.taken += 1;
    }

    /// Takes in all answers up to and including `now`: no request that arrived
    /// before is to come.
    pub fn settle(&mut self, now: Nanos) {
        while let Some(Reverse(first)) = self.on_their_way.peek()
            && first.complete <= now
        {
            let Reverse(OnItsWay { complete, what, .. }) =
                self.on_their_way.pop().expect("there is a first");
            self.answered(complete, &what);
        }
    }

    fn answered(&mut self, complete: Nanos, what: &Sent) {
        self.load -= what.pages;
        self.predictor.completed(complete, Ticket(what.ticket), what.data);
        let Some((predicted_late, probability)) = what.foretold else { return };
        let late = self.label.is_slow(complete.since(what.sent), what.pages, what.load);
        self.judged.reads += 1;
        self.judged.late += u64::from(late);
        self.judged.predicted_late += u64::from(predicted_late);
        self.judged.false_submits += u64::from(late && !predicted_late);
        self.judged.false_revokes += u64::from(!late && predicted_late);
        if let Some(drift) = &mut self.drift {
            drift.answered(f32::from_bits(probability), late);
        }
    }

    /// What came of it so far.
    #[must_use]
    pub const fn judged(&self) -> Judged {
        self.judged
    }

    /// Whether the model's probabilities go on coming true, if it gives any.
    #[must_use]
    pub fn drift(&self) -> Option<Found> {
        self.drift.as_ref().map(Drift::found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{data_model, recording};
    use crate::{evaluate, reads};

    /// Judged as they come, reads have the figures that they have as a recording.
    #[test]
    fn agrees_with_the_evaluation_of_the_recording() {
        let recorded = recording();
        for kind in Kind::ALL {
            let model = data_model(kind, &recorded);
            let mut judge = Judge::new(&model);
            recorded.iter().for_each(|request| judge.take(request));
            judge.settle(Nanos::MAX);
            let score = evaluate(&model.trained, &recorded, &reads(&recorded), &model.card.label);
            let judged = judge.judged();
            assert_eq!(judged.reads, 4000);
            assert_eq!(judged.false_submit_rate(), score.false_submit_rate, "{kind:?}");
            assert_eq!(judged.false_revoke_rate(), score.false_revoke_rate, "{kind:?}");
            assert_eq!(judged.predicted_late_share(), Some(score.refused), "{kind:?}");
            assert_eq!(judge.drift(), score.drift);
            assert!(judged.late > 0 && judged.late < judged.reads);
        }
    }

    #[test]
    fn an_answer_counts_when_it_has_come() {
        let recorded = recording();
        let mut judge = Judge::new(&data_model(Kind::HeurSim, &recorded));
        judge.take(&recorded[0]);
        judge.settle(Nanos(recorded[0].complete.0 - 1));
        assert_eq!(judge.judged(), Judged::default());
        judge.settle(recorded[0].complete);
        assert_eq!(judge.judged().reads, 1);
    }

    #[test]
    fn rates_are_of_those_that_they_can_be_of() {
        let none = Judged::default();
        assert_eq!((none.false_submit_rate(), none.false_revoke_rate()), (None, None));
        let some =
            Judged { reads: 10, late: 3, predicted_late: 2, false_submits: 2, false_revokes: 1 };
        assert_eq!(some.false_submit_rate(), Some(0.25));
        assert_eq!(some.false_revoke_rate(), Some(0.5));
        assert_eq!(some.since(&some), none);
        assert_eq!(some.and(&some).since(&some), some);
    }
}
