//! `trimtab`: forests over the tracked state of the drive.
//!
//! Three forests of small trees, trained by gradient boosting, take the
//! [features](crate::FEATURE_NAMES) of a request. One tells late from not late, one gives the
//! latency of a request that is not late, one that of any request. The first two are evaluated
//! together, and the third only for a request that is late: what separates two idle drives
//! differs from what separates two busy ones. All arithmetic up to the verdict is integer.
//! Tables, from samples that the trees have not seen, map scores to a probability and to the
//! expected latency. The score to refuse from follows from the costs of both errors, not from
//! training.

use std::sync::Arc;

use trimtab_io::{Nanos, Request};
use trimtab_learn::calibrate::Table;
use trimtab_learn::forest::IntegerForest;

use crate::base_latency::BaseLatency;
use crate::pages::pages_of;
use crate::predictor::{Forecast, Predictor, Ticket, Verdict};
use crate::state::FEATURES;
use crate::tracker::DriveTracker;
use crate::units::UnitFunction;

/// The unit of latencies in [`ForestModel`]'s tables: 32 bits of it are two minutes.
pub const WAIT_TICK: Nanos = Nanos(64);

/// The parameters of the predictor `trimtab` for one drive.
#[derive(Debug)]
pub struct ForestModel {
    /// The functions that tell the drive's parallel units apart.
    pub functions: Vec<UnitFunction>,
    /// From features to a score: log-odds of being late.
    pub forest: IntegerForest,
    /// From a score to the probability of being late, in 2^-16ths.
    pub probability: Table,
    /// The latency of a read on an idle drive.
    pub base_latency: BaseLatency,
    /// From features to a score that grows with the latency in excess of the base latency.
    pub wait_forest: IntegerForest,
    /// From that score to the mean excess, in ticks of 64 ns ([`WAIT_TICK`]).
    pub wait: Table,
    /// As `wait_forest`, for reads that are not late.
    pub fast_forest: IntegerForest,
    /// As `wait`, for reads that are not late.
    pub fast: Table,
    /// The mean latency of false submits: reads predicted fast that were late.
    pub late: Nanos,
    /// A request with this score or more is refused.
    pub refuse_from: i32,
}

impl ForestModel {
    /// The forecast for a request with these features.
    #[must_use]
    pub fn forecast(&self, request: &Request, features: &[i32; FEATURES]) -> Forecast {
        // Most requests are not refused, and need both scores.
        let [score, fast] = self.forest.both_scores(&self.fast_forest, features);
        if score >= self.refuse_from {
            return self.late(request, features, score);
        }
        self.admitted(pages_of(request), score, fast)
    }

    /// The forecast for a request of this many pages, from scores that its features would have
    /// got: in training, from trees that have not seen it.
    #[must_use]
    pub fn forecast_of_scores(&self, pages: u32, scores: UnseenScore) -> Forecast {
        let UnseenScore { late, fast, wait } = scores;
        match late >= self.refuse_from {
            true => self.refused(pages, late, wait),
            false => self.admitted(pages, late, fast),
        }
    }

    /// As [`forecast`](Self::forecast) for a request that is late; for any other the
    /// [bare](Forecast::bare) verdict.
    #[must_use]
    pub fn forecast_if_late(&self, request: &Request, features: &[i32; FEATURES]) -> Forecast {
        let score = self.forest.score(features);
        if score >= self.refuse_from {
            return self.late(request, features, score);
        }
        Forecast::bare(Verdict::Fast)
    }

    /// The forecast for a late request.
    fn late(&self, request: &Request, features: &[i32; FEATURES], score: i32) -> Forecast {
        self.refused(pages_of(request), score, self.wait_forest.score(features))
    }

    fn refused(&self, pages: u32, score: i32, wait: i32) -> Forecast {
        Forecast {
            verdict: Verdict::Late,
            probability: share_of_one(self.probability.value(score)),
            wait: Some(self.expected(&self.wait, wait, pages)),
            fast: None,
        }
    }

    fn admitted(&self, pages: u32, score: i32, fast: i32) -> Forecast {
        let probability = self.probability.value(score);
        let fast = self.expected(&self.fast, fast, pages);
        let risk = self.late.since(fast).0 * u64::from(probability.unsigned_abs());
        Forecast {
            verdict: Verdict::Fast,
            probability: share_of_one(probability),
            wait: Some(fast + Nanos(risk >> 16)),
            fast: Some(fast),
        }
    }

    /// The latency that a table gives for a score.
    fn expected(&self, table: &Table, score: i32, pages: u32) -> Nanos {
        let above = Nanos(WAIT_TICK.0 * u64::from(table.value(score).unsigned_abs()));
        self.base_latency.latency(pages) + above
    }
}

/// The scores of a sample by the three forests of a training.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnseenScore {
    /// By the forest that tells late from not late.
    pub late: i32,
    /// By that of the latency of a request that is not late.
    pub fast: i32,
    /// By that of the latency of any request.
    pub wait: i32,
}

/// A probability in 2^-16ths.
fn share_of_one(probability: i32) -> f32 {
    probability as f32 / 65536.0
}

/// The predictor `trimtab` for one drive.
#[derive(Clone, Debug)]
pub struct ForestPredictor {
    tracker: DriveTracker,
    model: Arc<ForestModel>,
}

impl ForestPredictor {
    /// Starts tracking a drive.
    #[must_use]
    pub fn new(model: Arc<ForestModel>) -> Self {
        Self { tracker: DriveTracker::new(&model.functions), model }
    }
}

impl Predictor for ForestPredictor {
    fn name(&self) -> &'static str {
        "trimtab"
    }

    fn predict(&self, now: Nanos, request: &Request) -> Forecast {
        self.model.forecast(request, &self.tracker.features(now, request))
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
