//! One predictor per replica.

use trimtab_io::{HostEvent, Nanos, Op, Request};
use trimtab_predict::mitt::Together;
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
    refuses: bool,
}

impl PredictorSet {
    /// A set of predictors in the order of the replicas.
    #[must_use]
    pub fn new(predictors: impl IntoIterator<Item = Box<dyn Predictor>>) -> Self {
        let predictors = predictors.into_iter().collect();
        Self { predictors, probing: Probing::default(), refuses: true }
    }

    /// The same set, whose predictors all [never refuse](trimtab_predict::Label::Never): by their
    /// training no read gains by going to another replica. `trimtab` does not ask such a set
    /// before it sends a read, as that would cost time and gain nothing.
    #[must_use]
    pub fn never_refusing(self) -> Self {
        Self { refuses: false, ..self }
    }

    /// The same set, with each predictor changed; `change` gets the replica's number too.
    #[must_use]
    pub fn map(
        self,
        mut change: impl FnMut(usize, Box<dyn Predictor>) -> Box<dyn Predictor>,
    ) -> Self {
        let changed = self.predictors.into_iter().enumerate();
        Self { predictors: changed.map(|(number, one)| change(number, one)).collect(), ..self }
    }

    /// Whether any of the predictors may refuse a read.
    #[must_use]
    pub const fn refuses(&self) -> bool {
        self.refuses
    }

    /// Both of two sets: a request is late if either says so.
    #[must_use]
    pub fn together(self, other: Self) -> Self {
        let mut others = other.predictors.into_iter();
        let refuses = self.refuses || other.refuses;
        let both = self.map(|_, one| match others.next() {
            Some(other) => Box::new(Together::new(one, other)),
            None => one,
        });
        Self { refuses, ..both }
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
        self.predictors[ended.replica.index()].completed(now, ended.ticket, ended.data());
    }

    /// A request on a replica has left the scheduler's queues.
    pub fn dispatched(&mut self, now: Nanos, replica: Replica, ticket: Ticket) {
        self.predictors[replica.index()].dispatched(now, ticket);
    }

    /// A read that was sent to a replica, and will be late because of what was sent after it.
    pub fn next_bumped(&mut self, replica: Replica) -> Option<Ticket> {
        self.predictors[replica.index()].next_cancelled()
    }

    /// The host has learnt something of a replica that no request tells.
    pub fn observe(&mut self, replica: Replica, event: &HostEvent) {
        self.predictors[replica.index()].observe(event);
    }
}
