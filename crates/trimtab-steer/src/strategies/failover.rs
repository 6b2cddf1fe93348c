//! Prediction and failover.

use trimtab_io::{Nanos, Request};
use trimtab_predict::{Ticket, Verdict};

use super::hedge::Patience;
use crate::action::Reason;
use crate::costs::Costs;
use crate::predictors::PredictorSet;
use crate::replica::Replica;
use crate::strategy::{Ended, Strategy};
use crate::turn::Turn;

/// Replicas are considered in a read's order, each through its predictor: one that would
/// be late is refused and the next is considered. The last one is asked without a
/// prediction (LinnOS, §3.1). With patience, a read that has not completed after a while
/// goes to one more replica as well (LinnOS, §4.4, "masking small inaccuracy").
pub struct Failover {
    name: &'static str,
    predictors: PredictorSet,
    costs: Costs,
    patience: Option<Patience>,
}

/// The purposes of timers.
const NEXT: u8 = 0;
const HEDGE: u8 = 1;

impl Failover {
    /// The strategy under this name, with these predictors.
    #[must_use]
    pub const fn new(name: &'static str, predictors: PredictorSet, costs: Costs) -> Self {
        Self { name, predictors, costs, patience: None }
    }

    /// The same strategy, hedged.
    #[must_use]
    pub fn hedged(self, patience: Patience) -> Self {
        Self { patience: Some(patience), ..self }
    }

    /// Asks or refuses the replica that is next in order.
    fn next(&mut self, turn: &mut Turn<'_>) {
        let (now, step) = (turn.now(), turn.memo());
        let replica = turn.order()[step as usize];
        if step as usize + 1 == turn.order().len() {
            turn.send(replica, now, Reason::LeastBad);
            return;
        }
        match self.predictors.forecast(now, replica, turn.request()).verdict {
            Verdict::Fast => turn.send(replica, now + self.costs.inference, Reason::Fast),
            Verdict::Late => {
                turn.refuse(replica);
                self.predictors.probing.avoided(now, replica);
                turn.set_memo(step + 1);
                turn.timer(now + self.costs.inference + self.costs.failover, NEXT);
            }
        }
    }
}

impl Strategy for Failover {
    fn name(&self) -> &'static str {
        self.name
    }

    fn read(&mut self, turn: &mut Turn<'_>) {
        self.next(turn);
        self.predictors.probing.probe(turn);
        if let Some(patience) = &self.patience {
            patience.start(turn, HEDGE);
        }
    }

    fn timer(&mut self, turn: &mut Turn<'_>, purpose: u8) {
        if purpose == NEXT {
            self.next(turn);
        } else if let Some(other) = turn.untried() {
            turn.send(other, turn.now(), Reason::Duplicate);
        }
    }

    fn sent(&mut self, now: Nanos, replica: Replica, request: &Request) -> Ticket {
        self.predictors.sent(now, replica, request)
    }

    fn completed(&mut self, now: Nanos, ended: &Ended) {
        self.predictors.completed(now, ended);
    }
}
