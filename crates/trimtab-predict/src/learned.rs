//! `trimtab`: our predictor.
//!
//! Two forests of small trees over what a [`Watch`] knows, trained by gradient
//! boosting: one tells late from not late, the other how long it will take.
//! Everything up to the verdict is integers. Two tables, learnt from samples that
//! the trees had not seen, turn their scores into a probability and into the
//! latency to expect; where to refuse follows from what a wrong answer costs, not
//! from the training.

use std::sync::Arc;

use trimtab_io::{Nanos, Request};
use trimtab_learn::calibrate::Table;
use trimtab_learn::forest::IntegerForest;

use crate::floor::Floor;
use crate::history::Watcher;
use crate::in_flight::pages_of;
use crate::predictor::{Forecast, Predictor, Ticket, Verdict};
use crate::units::UnitFunction;
use crate::watch::{FEATURES, Watch};

/// The unit of waits in a table: 32 bits of it are two minutes.
pub(crate) const WAIT_TICK: Nanos = Nanos(64);

/// What has been learnt of a drive.
#[derive(Debug)]
pub struct Knowledge {
    /// How it tells the drive's parallel units apart.
    pub functions: Vec<UnitFunction>,
    /// From the watch's numbers to a score, in 2^-16ths of log-odds.
    pub forest: IntegerForest,
    /// From a score to the probability of being late, in 2^-16ths.
    pub probability: Table,
    /// What a read takes in any case.
    pub floor: Floor,
    /// From the watch's numbers to a score that grows with what comes on top.
    pub wait_forest: IntegerForest,
    /// From that score to its mean, in ticks of [`WAIT_TICK`].
    pub wait: Table,
    /// From this score on a request is refused.
    pub refuse_from: i32,
}

impl Knowledge {
    /// What follows from a watch's numbers.
    pub(crate) fn forecast(&self, request: &Request, features: &[i32; FEATURES]) -> Forecast {
        let score = self.forest.score(features);
        let excess = self.wait.value(self.wait_forest.score(features));
        let wait = self.floor.latency(pages_of(request)) + Nanos(WAIT_TICK.0 * u64::from(excess.unsigned_abs()));
        Forecast {
            verdict: if score >= self.refuse_from { Verdict::Late } else { Verdict::Fast },
            probability: self.probability.value(score) as f32 / 65536.0,
            wait: Some(wait),
        }
    }
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
