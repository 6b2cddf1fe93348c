//! When a read is sent a second time: after a delay, within a budget, and where it pays.

use trimtab_io::Nanos;
use trimtab_predict::Verdict;

use super::{Best, Trimtab, TrimtabSettings};
use crate::action::Reason;
use crate::delay::Delay;
use crate::hedge_gain::{HedgeGain, expected_gain};
use crate::replica::{Replica, Replicas};
use crate::turn::Turn;

/// The budget of duplicates, and the delay before one is sent.
pub(super) struct Hedging {
    delay: Delay,
    /// Duplicates that may still be sent.
    budget: f64,
    /// The same for probes, which are sent even if it is overdrawn.
    probes: f64,
    /// Duplicates that were planned and not sent.
    planned: f64,
    /// The last one.
    hedged: Nanos,
    /// What came of them.
    pub(super) gain: HedgeGain,
}

/// Hedges that can be saved up, and probes that can be owed: a quiet array needs more
/// probes than its reads pay for.
const MOST_SAVED: f64 = 100.0;
/// The share of reads that the delay is set to hedge; the rest of the budget is for worse times.
const PLANNED: f64 = 0.024;
/// The same where each hedge must gain more than it costs.
const PLANNED_IF_IT_PAYS: f64 = 0.05;

/// The budget is unspent with this many duplicates saved and none sent for this long.
const UNSPENT: f64 = 10.0;
const UNSPENT_FOR: Nanos = Nanos::from_millis(500);

/// A hedge is to gain such a share of a usual read: it takes some of a replica's time, even if the
/// price does not tell.
const WORTHWHILE: f64 = 0.3;

/// The purpose of the timers.
pub(super) const HEDGE: u8 = 0;
/// How often a hedge checks for a replica that would be sooner; with a control group it goes on,
/// each time after another share of the wait so far.
const LOOKS: u32 = 8;
const LOOK_AFTER: f64 = 0.25;

impl Hedging {
    pub(super) fn new(settings: &TrimtabSettings) -> Self {
        let planned = if settings.control { PLANNED_IF_IT_PAYS } else { PLANNED };
        Self {
            delay: Delay::new(settings.usual, planned.min(0.8 * settings.most_extra)),
            budget: 1.0,
            probes: MOST_SAVED,
            planned: 1.0,
            hedged: Nanos::ZERO,
            gain: HedgeGain::new(),
        }
    }

    /// By how much a read exceeds its expected latency before it is hedged.
    pub(super) fn delay(&self) -> Nanos {
        self.delay.get()
    }

    pub(super) fn has_budget(&self) -> bool {
        self.budget >= 1.0
    }

    /// Whether probes may be more frequent than they must be.
    pub(super) fn has_budget_for_probes(&self) -> bool {
        self.probes >= 1.0
    }

    /// Whether late reads are hedged, and are known to gain by it.
    pub(super) fn pays(&self) -> bool {
        self.has_budget() && self.gain.is_kept()
    }

    /// Each read adds its share to the budget: half for probes, and of that what they do not need
    /// for hedges. So probes, which a small array of many slow drives needs all the time, do not
    /// take what hedges would gain more by.
    pub(super) fn read_arrived(&mut self, now: Nanos, settings: &TrimtabSettings) {
        let unspent = settings.control && self.is_unspent(now);
        self.delay.was_set(now, unspent);
        let half = 0.5 * settings.most_extra;
        let left = (self.probes + half - MOST_SAVED).max(0.0);
        self.probes += half - left;
        self.budget = (self.budget + half + left).min(MOST_SAVED);
        self.planned = (self.planned + self.delay.share).min(MOST_SAVED);
    }

    /// Whether duplicates were planned that were not sent: no more can be saved, or none was sent
    /// for a while.
    fn is_unspent(&self, now: Nanos) -> bool {
        self.planned >= MOST_SAVED - 1.0
            || self.planned >= UNSPENT && now.since(self.hedged) > UNSPENT_FOR
    }

    /// A read of this weight is sent to another replica as a probe.
    pub(super) fn probed(&mut self, weight: f64) {
        self.probes = (self.probes - weight).max(-MOST_SAVED);
    }

    /// A read of this weight is hedged.
    fn hedged(&mut self, now: Nanos, weight: f64) {
        self.budget -= weight;
        self.planned = (self.planned - weight).max(-MOST_SAVED);
        self.hedged = now;
    }
}

impl Trimtab {
    /// The read has taken too long: duplicates it to another replica if one would be
    /// sooner.
    pub(super) fn hedge(&mut self, turn: &mut Turn<'_>) {
        let control = self.settings.control;
        let waited = turn.now().since(turn.request().arrival);
        if turn.memo() == 0 {
            self.hedging.delay.was_reached(if control { waited } else { Nanos::MAX });
        }
        if !self.hedging.has_budget() {
            if control {
                self.look_again(turn);
            }
            return;
        }
        let untried = self.untried(turn);
        let found = self.least_wait(turn, None, |replica| untried.has(replica));
        let Some(Best { replica: best, forecast, forecasts, .. }) = found else {
            // Those that are left fail, and may not for long.
            if control && turn.order().iter().any(|&replica| !turn.has_asked(replica)) {
                self.look_again(turn);
            }
            return;
        };
        // A late replica is soon enough if it is sooner than the wait so far.
        let is_sooner = forecast.wait.is_some_and(|wait| wait < waited);
        let expected = expected_gain(waited, &forecast);
        let pays = || {
            let length = turn.request().length;
            // Back to its primary the read leaves none.
            let is_move = best != turn.primary();
            let toll = if is_move { self.toll(turn.primary(), length) } else { 0.0 };
            let price = self.price(best, length) + toll;
            let usual = self.typical[best.index()].get().0 as f64;
            self.hedging.gain.factor(turn.now()) * expected > price.max(WORTHWHILE * usual)
        };
        let is_worth_it = !control || pays();
        if is_worth_it && (forecast.verdict == Verdict::Fast || is_sooner) {
            let at = turn.now() + Nanos(self.settings.costs.inference.0 * forecasts);
            turn.send(best, at, Reason::Duplicate);
            self.hedging.hedged(turn.now(), self.weight(turn.request().length));
            if control {
                self.hedging.gain.hedged(turn.now(), turn.id(), best, expected);
            }
        } else {
            self.look_again(turn);
        }
    }

    /// The replicas that a duplicate of the read may be sent to.
    fn untried(&self, turn: &Turn<'_>) -> Replicas {
        let works =
            |replica: Replica| self.control.is_none() || !self.queues[replica.index()].fails();
        let untried = |&replica: &Replica| !turn.has_asked(replica) && works(replica);
        turn.order().iter().copied().filter(untried).collect()
    }

    /// Checks later if a hedge has become possible or worth it.
    fn look_again(&self, turn: &mut Turn<'_>) {
        let mut after = self.settings.usual;
        if self.settings.control {
            let waited = turn.now().since(turn.request().arrival).0 as f64;
            after = after.max(Nanos((LOOK_AFTER * waited) as u64));
        } else if turn.memo() >= LOOKS {
            return;
        }
        turn.set_memo(turn.memo().saturating_add(1));
        turn.timer(turn.now() + after, HEDGE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::costs::Costs;
    use crate::replica::MOST_DRIVES;

    /// Hedges that 10,000 reads pay for, each of which is probed with this weight.
    fn hedges(probed: f64) -> u32 {
        let settings = TrimtabSettings {
            costs: Costs::default(),
            margin: 0.1,
            most_extra: 0.2,
            charge_moves: false,
            control: true,
            usual: Nanos::from_micros(100),
            medians: [Nanos::from_micros(100); MOST_DRIVES],
            longest: Nanos::from_millis(10),
            seed: 1,
        };
        let mut hedging = Hedging::new(&settings);
        let mut hedges = 0;
        for read in 0..10_000 {
            let now = Nanos::from_micros(read);
            hedging.read_arrived(now, &settings);
            hedging.probed(probed);
            if hedging.has_budget() {
                hedging.hedged(now, 1.0);
                hedges += 1;
            }
        }
        hedges
    }

    #[test]
    fn probes_leave_half_of_the_budget_to_hedges() {
        let near = |hedges: u32, expected: u32| hedges.abs_diff(expected) <= 2;
        assert!(near(hedges(0.0), 2_000), "{}", hedges(0.0));
        assert!(near(hedges(1.0), 1_000), "{}", hedges(1.0));
        // What is saved for probes at first is spent on them.
        assert!(near(hedges(0.05), 1_500), "{}", hedges(0.05));
    }
}
