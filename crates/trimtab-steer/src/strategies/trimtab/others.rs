//! What requests cost the other requests on a replica, and how rare those are to be that a read's
//! data do not need; and why a read would leave its primary.

use trimtab_io::Nanos;

use super::{Best, PROBE, Trimtab};
use crate::calibration::Calibration;
use crate::control::ControlGroup;
use crate::drain::Ahead;
use crate::median::RunningMedian;
use crate::question::{Move, Question};
use crate::replica::{Replica, Replicas};
use crate::turn::Turn;

/// How long a replica is avoided before it is probed, at most, where probes cost other reads.
const RARE_PROBE: Nanos = Nanos::from_secs(1);
/// A replica that only returns errors is left alone for such a share of the time since its last data, at least for so
/// long: no read waits behind a probe there, and all wait where they are served in its place.
const FAILED_SHARE: u64 = 128;
const FAILED_PROBE: Nanos = Nanos::from_millis(1);
/// Where a move costs other reads as much as a read usually takes, pairs and probes are so many
/// times as rare.
const RARITY: f64 = 200.0;
/// The longest read that probes a replica, as a multiple of the mean length.
const MOST_PROBED: f64 = 2.0;

impl Trimtab {
    /// Sends the read to a replica that is due for a probe as well; a long read waits for a short one
    /// to do it.
    pub(super) fn probe(&mut self, turn: &mut Turn<'_>) {
        if self.weight(turn.request().length) > MOST_PROBED {
            return;
        }
        // A read of any primary may carry a probe, so the mean decides: one primary's large toll must not
        // make probes rare for all.
        let rarity = self.rarity(turn.primary(), self.externality.mean_toll());
        let rare = Nanos((PROBE.0 as f64 * rarity) as u64).min(RARE_PROBE);
        let (now, has_budget) = (turn.now(), self.hedging.has_budget_for_probes());
        let every = |replica: Replica| {
            let failed = self.queues[replica.index()].fails_for(now);
            match failed.filter(|_| self.out[replica.index()] == 0) {
                Some(time) if has_budget => Nanos(time.0 / FAILED_SHARE).clamp(FAILED_PROBE, PROBE),
                Some(_) => PROBE,
                None => rare,
            }
        };
        if let Some(replica) = self.predictors.probing.probe_after(turn, every) {
            self.probed.add(replica);
            self.hedging.probed(self.weight(turn.request().length));
        }
    }

    /// What is in flight on this replica.
    pub(super) fn ahead(&self, now: Nanos, replica: Replica) -> Ahead {
        let queue = &self.queues[replica.index()];
        let (reads, requests) = (self.out[replica.index()], queue.in_flight());
        Ahead { reads, requests, drain: queue.drain(), stuck: queue.is_stuck(now) }
    }

    /// What another request for this read to this replica costs the other requests there, ns.
    pub(super) fn price(&self, replica: Replica, length: u64) -> f64 {
        let at = replica.index();
        let pace = self.queues[at].pace();
        let usual = self.typical[at].get();
        let price = |calibration: &Calibration| calibration.price(self.out[at], pace, usual);
        self.weight(length) * self.calibrations.get(at).map(price).unwrap_or_default()
    }

    /// How many times as rare as usual requests are to be that this read's data does not need, where
    /// a move costs other reads `toll` ns: each such request costs as much.
    pub(super) fn rarity(&self, primary: Replica, toll: f64) -> f64 {
        let usual = self.typical[primary.index()].get().0 as f64;
        1.0 + RARITY * toll / usual.max(1.0)
    }

    /// What moving a read of this length away from its primary costs other reads, ns.
    pub(super) fn toll(&self, primary: Replica, length: u64) -> f64 {
        self.weight(length) * self.externality.toll(primary)
    }

    /// Notes that a read comes behind those of this primary replica that could be elsewhere.
    pub(super) fn note_arrival(&mut self, primary: Replica) {
        self.externality.comes(primary);
        let at = primary.index();
        let pace = self.queues[at].pace();
        let delay = |calibration: &Calibration| calibration.delay(self.out[at], pace);
        if self.externality.concerns(primary)
            && let Some(delay) = self.calibrations.get(at).map(delay)
        {
            self.externality.arrived(primary, delay);
        }
    }

    /// How many usual reads a read of this length is worth: a duplicate of a long one takes more
    /// of the drives' time.
    pub(super) fn weight(&self, length: u64) -> f64 {
        if self.settings.control { (length as f64 / self.length).max(1.0) } else { 1.0 }
    }

    /// Sends the read to another replica if its primary only returns errors; returns whether it
    /// was sent.
    pub(super) fn leave_failed(&mut self, turn: &mut Turn<'_>) -> bool {
        let (now, primary) = (turn.now(), turn.primary());
        if self.control.is_none() || !self.queues[primary.index()].fails() {
            return false;
        }
        let works = |replica: &Replica| !self.queues[replica.index()].fails();
        let working: Replicas = turn.order().iter().copied().filter(works).collect();
        // The next in order takes the primary's place: all reads of the failed drive leave it, and where forecasts
        // are a little wrong the one with the least wait would get most of them.
        let next = turn.order().iter().copied().find(|&replica| working.has(replica));
        let at_next = self.least_wait(turn, None, |replica| Some(replica) == next);
        let (Some(next), Some(at_next)) = (next, at_next) else { return false };
        let (stays, there) = (at_next.wait.unwrap_or_default(), at_next.forecast);
        let is_other = |replica| replica != next && working.has(replica);
        let best = self.least_wait(turn, Some(at_next), is_other).map(|best| {
            let gain = stays.since(best.wait.unwrap_or_default()).0 as f64;
            Best { gain, ..best }
        });
        let question = self.question(next, best.as_ref());
        let holds = |control: &ControlGroup| control.holds(next, question);
        let moves = question.is_urgent() && self.control.as_ref().is_some_and(holds);
        let better = best.filter(|_| moves).map(|best| (best.replica, best.forecast));
        let (replica, forecast) = better.unwrap_or((next, there));
        let costs = self.settings.costs;
        self.predictors.probing.avoided(now, primary);
        let at = if self.settings.charge_moves { now + costs.failover } else { now };
        self.send(turn, replica, &forecast, at);
        self.probe(turn);
        true
    }

    /// Why the read would leave its primary.
    pub(super) fn question(&self, primary: Replica, best: Option<&Best>) -> Question {
        let is_refused = best.is_some_and(|best| best.late.has(primary));
        let moves = best.filter(|best| best.replica != primary);
        let (Some(control), Some(best)) = (&self.control, moves) else {
            return if is_refused { Question::Refused } else { Question::Ranked };
        };
        let typical = |replica: Replica| self.typical[replica.index()].get();
        let inference = self.settings.costs.inference.0 * self.predictors.replicas() as u64;
        let it = Move {
            is_refused,
            gain: best.gain,
            wait: best.wait.unwrap_or_default().0 as f64,
            primary: typical(primary),
            other: typical(best.replica),
            usual: self.usual(),
            mean: control.mean(),
            inference: inference as f64,
        };
        it.question()
    }

    /// The median latency of half of the drives is at most this.
    fn usual(&self) -> Nanos {
        let mut medians = self.typical.map(RunningMedian::get);
        let medians = &mut medians[..self.predictors.replicas()];
        let middle = (medians.len() - 1) / 2;
        *medians.select_nth_unstable(middle).1
    }
}
