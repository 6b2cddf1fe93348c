//! `trimtab`: our predictor.
//!
//! Three forests of small trees over what a [`Watch`] knows, trained by gradient
//! boosting: one tells late from not late, one how long a request takes that is
//! not late, one how long any takes. The first two are asked together, and the last
//! about what is late: what tells two idle drives apart is not what tells two busy ones.
//! Everything is integers up to the verdict. Tables, learnt from samples that the
//! trees had not seen, turn their scores into a probability and into the latency
//! to expect; where to refuse follows from what a wrong answer costs, not from the
//! training.

use std::sync::Arc;

use trimtab_io::{Nanos, Request};
use trimtab_learn::calibrate::Table;
use trimtab_learn::forest::IntegerForest;

use crate::floor::Floor;
use crate::history::Watcher;
use crate::in_flight::pages_of;
use crate::predictor::{Forecast, Predictor, Ticket, Verdict};
use crate::state::FEATURES;
use crate::units::UnitFunction;
use crate::watch::Watch;

/// The unit of waits in a table: 32 bits of it are two minutes.
pub(crate) const WAIT_TICK: Nanos = Nanos(64);

/// What has been learnt of a drive.
#[derive(Debug)]
pub struct Knowledge {
    /// How it tells the drive's parallel units apart.
    pub functions: Vec<UnitFunction>,
    /// From the watch's numbers to a score, log-odds.
    pub forest: IntegerForest,
    /// From a score to the probability of being late, in 2^-16ths.
    pub probability: Table,
    /// What a read takes in any case.
    pub floor: Floor,
    /// From the watch's numbers to a score that grows with what comes on top.
    pub wait_forest: IntegerForest,
    /// From that score to the mean of what comes on top, in ticks of 64 ns.
    pub wait: Table,
    /// The same, of reads that are not late.
    pub fast_forest: IntegerForest,
    /// See `fast_forest`.
    pub fast: Table,
    /// The mean latency of reads that would have been sent, and were late.
    pub late: Nanos,
    /// From this score on a request is refused.
    pub refuse_from: i32,
}

impl Knowledge {
    /// What follows from a watch's numbers.
    pub(crate) fn forecast(&self, request: &Request, features: &[i32; FEATURES]) -> Forecast {
        // Most are not refused, and then both of these are wanted.
        let [score, fast] = self.forest.both_scores(&self.fast_forest, features);
        if score >= self.refuse_from {
            return self.late(request, features, score);
        }
        let probability = self.probability.value(score);
        let fast = self.expected(&self.fast, fast, request);
        let risk = self.late.since(fast).0 * u64::from(probability.unsigned_abs());
        Forecast {
            verdict: Verdict::Fast,
            probability: share_of_one(probability),
            wait: Some(fast + Nanos(risk >> 16)),
            fast: Some(fast),
        }
    }

    /// The same; of what is not late, nothing but that it is not.
    pub(crate) fn forecast_if_late(
        &self,
        request: &Request,
        features: &[i32; FEATURES],
    ) -> Forecast {
        let score = self.forest.score(features);
        if score >= self.refuse_from {
            return self.late(request, features, score);
        }
        Forecast::bare(Verdict::Fast)
    }

    /// Of a request with this score, which is late.
    fn late(&self, request: &Request, features: &[i32; FEATURES], score: i32) -> Forecast {
        Forecast {
            verdict: Verdict::Late,
            probability: share_of_one(self.probability.value(score)),
            wait: Some(self.expected(&self.wait, self.wait_forest.score(features), request)),
            fast: None,
        }
    }

    /// The latency that a table says of a score.
    fn expected(&self, table: &Table, score: i32, request: &Request) -> Nanos {
        let above = Nanos(WAIT_TICK.0 * u64::from(table.value(score).unsigned_abs()));
        self.floor.latency(pages_of(request)) + above
    }
}

/// A probability in 2^-16ths.
fn share_of_one(probability: i32) -> f32 {
    probability as f32 / 65536.0
}

/// Our predictor, watching a drive.
#[derive(Clone, Debug)]
pub struct Learned {
    watch: Watch,
    knowledge: Arc<Knowledge>,
}

impl Learned {
    /// A drive of which nothing is known but what was learnt.
    #[must_use]
    pub fn new(knowledge: Arc<Knowledge>) -> Self {
        Self { watch: Watch::new(&knowledge.functions), knowledge }
    }
}

impl Predictor for Learned {
    fn name(&self) -> &'static str {
        "trimtab"
    }

    fn predict(&self, now: Nanos, request: &Request) -> Forecast {
        self.knowledge.forecast(request, &self.watch.features(now, request))
    }

    fn sent(&mut self, now: Nanos, request: &Request) -> Ticket {
        self.watch.sent(now, request)
    }

    fn completed(&mut self, now: Nanos, ticket: Ticket, data: bool) {
        self.watch.completed(now, ticket, data);
    }

    fn boxed_clone(&self) -> Box<dyn Predictor> {
        Box::new(self.clone())
    }
}

impl Watcher for Watch {
    fn sent(&mut self, now: Nanos, request: &Request) -> Ticket {
        Self::sent(self, now, request)
    }

    fn completed(&mut self, now: Nanos, ticket: Ticket, data: bool) {
        Self::completed(self, now, ticket, data);
    }
}
