//! One predictor per replica.

use trimtab_io::{Nanos, Op, Request};
use trimtab_predict::{Forecast, Predictor, Ticket};

use crate::probing::Probing;
use crate::replica::Replica;
use crate::strategy::Ended;

/// One predictor per replica, with the probing that keeps their state fresh.
#[derive(Clone)]
pub struct PredictorSet {
    predictors: Box<[Box<dyn Predictor>]>,
    /// Which replicas are due for a probe.
    pub probing: Probing,
}

impl PredictorSet {
    /// A set of predictors in the order of the replicas.
    #[must_use]
    pub fn new(predictors: impl IntoIterator<Item = Box<dyn Predictor>>) -> Self {
        Self { predictors: predictors.into_iter().collect(), probing: Probing::default() }
    }

    /// The number of replicas.
    #[must_use]
    pub fn replicas(&self) -> usize {
        self.predictors.len()
    }

    /// Predicts a request on this replica.
    #[must_use]
    pub fn forecast(&self, now: Nanos, replica: Replica, request: &Request) -> Forecast {
        self.predictors[replica.index()].predict(now, request)
    }

    /// A request goes to a replica.
    pub fn sent(&mut self, now: Nanos, replica: Replica, request: &Request) -> Ticket {
        if request.op == Op::Read {
            self.probing.read_sent(replica);
        }
        self.predictors[replica.index()].sent(now, request)
    }

    /// A request on a replica has ended.
    pub fn completed(&mut self, now: Nanos, ended: &Ended) {
        self.predictors[ended.replica.index()].completed(now, ended.ticket, ended.data);
    }
}
