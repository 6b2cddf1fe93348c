//! One predictor for each drive.

use trimtab_io::{Nanos, Op, Request};
use trimtab_predict::{Forecast, Predictor, Ticket};

use crate::probing::Probing;
use crate::replica::Replica;
use crate::strategy::Ended;

/// One predictor for each drive of an array, and the news that keep them fresh.
#[derive(Clone)]
pub struct Panel {
    predictors: Box<[Box<dyn Predictor>]>,
    /// Who is to be probed.
    pub probing: Probing,
}

impl Panel {
    /// These predictors, by number of the drive that each watches.
    #[must_use]
    pub fn new(predictors: impl IntoIterator<Item = Box<dyn Predictor>>) -> Self {
        Self { predictors: predictors.into_iter().collect(), probing: Probing::default() }
    }

    /// What would become of a request on this drive.
    #[must_use]
    pub fn forecast(&self, now: Nanos, replica: Replica, request: &Request) -> Forecast {
        self.predictors[replica.index()].predict(now, request)
    }

    /// A request goes to a drive.
    pub fn sent(&mut self, now: Nanos, replica: Replica, request: &Request) -> Ticket {
        if request.op == Op::Read {
            self.probing.read_sent(replica);
        }
        self.predictors[replica.index()].sent(now, request)
    }

    /// A drive is done with a request.
    pub fn completed(&mut self, now: Nanos, ended: &Ended) {
        self.predictors[ended.replica.index()].completed(now, ended.ticket, ended.data);
    }
}
