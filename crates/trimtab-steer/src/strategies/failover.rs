//! Predicting, and going elsewhere.

use trimtab_io::{Nanos, Request};
use trimtab_predict::{Ticket, Verdict};

use super::hedge::Patience;
use crate::action::Why;
use crate::costs::Costs;
use crate::panel::Panel;
use crate::replica::Replica;
use crate::strategy::{Ended, Strategy};
use crate::turn::Turn;

/// Drives are asked in a read's order, each by way of its predictor: one that
/// would be late is refused and the next is tried. The last one is not predicted
/// but asked (LinnOS, §3.1). With patience, a read that has no answer after a
/// while goes to one more drive as well (LinnOS, §4.4, "masking small
/// inaccuracy").
pub struct Failover {
    name: &'static str,
    panel: Panel,
    costs: Costs,
    patience: Option<Patience>,
}

/// What a timer is for.
const NEXT: u8 = 0;
const HEDGE: u8 = 1;

impl Failover {
    /// With these predictors, by this name.
    #[must_use]
    pub const fn new(name: &'static str, panel: Panel, costs: Costs) -> Self {
        Self { name, panel, costs, patience: None }
    }

    /// Hedged.
    #[must_use]
    pub fn hedged(self, patience: Patience) -> Self {
        Self { patience: Some(patience), ..self }
    }

    /// Asks the drive whose turn it is.
    fn next(&mut self, turn: &mut Turn<'_>) {
        let (now, step) = (turn.now(), turn.memo());
        let replica = turn.order()[step as usize];
        if step as usize + 1 == turn.order().len() {
            turn.send(replica, now, Why::LeastBad);
            return;
        }
        match self.panel.forecast(now, replica, turn.request()).verdict {
            Verdict::Fast => turn.send(replica, now + self.costs.inference, Why::Fast),
            Verdict::Late => {
                turn.refuse(replica);
                self.panel.probing.avoided(now, replica);
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
        self.panel.probing.probe(turn);
        if let Some(patience) = &self.patience {
            patience.start(turn, HEDGE);
        }
    }

    fn timer(&mut self, turn: &mut Turn<'_>, purpose: u8) {
        if purpose == NEXT {
            self.next(turn);
        } else if let Some(other) = turn.untried() {
            turn.send(other, turn.now(), Why::Duplicate);
        }
    }

    fn sent(&mut self, now: Nanos, replica: Replica, request: &Request) -> Ticket {
        self.panel.sent(now, replica, request)
    }

    fn completed(&mut self, now: Nanos, ended: &Ended) {
        self.panel.completed(now, ended);
    }
}
