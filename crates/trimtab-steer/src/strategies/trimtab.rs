//! Ours: the least wait, and a second drive only where that pays.

use trimtab_io::{Nanos, Op, Request};
use trimtab_predict::{Forecast, Ticket, Verdict};

use crate::action::Why;
use crate::costs::Costs;
use crate::panel::Panel;
use crate::probing::Probing;
use crate::replica::{MOST_REPLICAS, Replica, Replicas};
use crate::strategy::{Ended, Strategy};
use crate::turn::Turn;

/// What of the strategy can be set.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// What deciding costs.
    pub costs: Costs,
    /// By which share another drive's expected wait must be less than the home's
    /// to go there.
    pub margin: f64,
    /// The greatest share of reads that are sent twice, in the long run.
    pub most_extra: f64,
    /// Whether going elsewhere costs a failover even if the home was not refused but
    /// only ranks behind.
    pub charge_moves: bool,
    /// What most reads take at most; so much longer than expected the first of
    /// them may take before they are hedged.
    pub usual: Nanos,
}

/// Predicts all drives, and goes to the one with the least expected wait: home,
/// unless another is ahead by a margin. Between drives that would be fast that is
/// ranking, as C3 and the snitch do it, and costs the inferences; a home that is
/// refused costs a failover besides. Where all would be late it is the least bad.
///
/// A read that takes longer than was expected is hedged, with a drive that will
/// be sooner. Hedges have a budget. Where they are worth most is where most has
/// been waited in vain; so how long that must be is the same for all reads, and
/// is found as the price at which the budget is just spent (`Delay`). Knowing
/// it, a drive that is fast but for a small risk is not dear: the risk ends there.
pub struct Ours {
    panel: Panel,
    settings: Settings,
    delay: Delay,
    /// Requests that may still be sent besides.
    budget: f64,
    /// What was expected of each drive when it was asked about last.
    expected: [Nanos; MOST_REPLICAS],
    /// Reads that each drive has been sent and has not answered.
    out: [u32; MOST_REPLICAS],
    /// Who has been sent a probe, and not answered it.
    probed: Replicas,
}

/// A drive that is passed over is probed after so long.
const PROBE: Nanos = Nanos::from_millis(75);

/// A drive that was passed over and answers so many times as fast as was expected is
/// probed again soon: it may have recovered.
const SURPRISE: u64 = 4;

/// So many reads out on a drive that is late double the wait expected of it, and it
/// grows with their square. A predictor has learnt from a drive that served its own
/// reads, and says the same of a stalled drive whatever waits there; without this all
/// reads would go to the one of several stalled drives that is expected back first, and
/// to no other that is back.
const CROWD: f64 = 24.0;

/// Hedges that can be saved up, and probes that can be owed: on a quiet array
/// there are more probes than reads pay for.
const MOST_SAVED: f64 = 100.0;
/// The share of the budget that the delay is made for; the rest is for probes, and
/// for times that are worse than others.
const PLANNED: f64 = 0.8;

/// What a timer is for.
const HEDGE: u8 = 0;
/// As often a hedge looks for a drive that would be sooner.
const LOOKS: u32 = 8;

impl Ours {
    /// With these predictors.
    #[must_use]
    pub fn new(mut panel: Panel, settings: Settings) -> Self {
        panel.probing = Probing::new(PROBE);
        let delay = Delay::new(settings.usual, PLANNED * settings.most_extra);
        let expected = [Nanos::ZERO; MOST_REPLICAS];
        Self {
            panel,
            settings,
            delay,
            budget: 1.0,
            expected,
            out: [0; MOST_REPLICAS],
            probed: Replicas::NONE,
        }
    }

    /// Sends the read, and sets the time at which it will be hedged.
    fn send(&self, turn: &mut Turn<'_>, replica: Replica, forecast: &Forecast, at: Nanos) {
        let late = forecast.verdict == Verdict::Late;
        turn.send(replica, at, if late { Why::LeastBad } else { Why::Fast });
        let expected = forecast.fast.or(forecast.wait).unwrap_or_default();
        // A hedge takes as long as the read was expected to: before that it gains
        // nothing.
        turn.timer(at + expected + self.delay.get().max(expected), HEDGE);
    }

    /// The wait to expect, if it is hedged when it turns out to be late.
    fn wait(&self, forecast: &Forecast) -> Option<Nanos> {
        let (Some(wait), Some(fast)) = (forecast.wait, forecast.fast) else { return forecast.wait };
        if self.budget < 1.0 {
            return Some(wait);
        }
        // The delay, and then about as long again.
        let late = (self.delay.get() + fast).0 as f64;
        Some(wait.min(fast + Nanos((f64::from(forecast.probability) * late) as u64)))
    }

    /// The drive of these with the least wait, as far as that can be told, getting
    /// there included; what is expected of it, and who would be late.
    fn least_wait(
        &mut self,
        turn: &Turn<'_>,
        which: impl Fn(Replica) -> bool,
    ) -> Option<(Replica, Forecast, Replicas)> {
        let (home, Settings { costs, margin, charge_moves, .. }) = (turn.home(), self.settings);
        let mut late = Replicas::NONE;
        let mut best: Option<(Replica, Forecast, Option<Nanos>)> = None;
        for replica in turn.order().iter().copied().filter(|&replica| which(replica)) {
            let forecast = self.panel.forecast(turn.now(), replica, turn.request());
            self.expected[replica.index()] = forecast.wait.unwrap_or(Nanos::MAX);
            if forecast.verdict == Verdict::Late {
                late.add(replica);
            }
            let mut wait = self.wait(&forecast);
            if forecast.verdict == Verdict::Late {
                let crowd = f64::from(self.out[replica.index()]) / CROWD;
                wait = wait.map(|wait| Nanos((wait.0 as f64 * (1.0 + crowd * crowd)) as u64));
            }
            if replica == home {
                wait = wait.map(|wait| Nanos((wait.0 as f64 * (1.0 - margin)) as u64));
            } else if late.has(home) || charge_moves {
                // Home refuses; the way from there takes its time.
                wait = wait.map(|wait| wait + costs.failover);
            }
            // Of equals it is the first in the order.
            let is_less = best.as_ref().is_none_or(|(_, best, least)| match (wait, least) {
                (Some(wait), Some(least)) => wait < *least,
                _ => forecast.probability < best.probability,
            });
            if is_less {
                best = Some((replica, forecast, wait));
            }
        }
        best.map(|(replica, forecast, _)| (replica, forecast, late))
    }

    /// It has taken too long: another drive, if one would be sooner.
    fn hedge(&mut self, turn: &mut Turn<'_>) {
        if turn.memo() == 0 {
            self.delay.was_reached();
        }
        if self.budget < 1.0 {
            return;
        }
        let found = self.least_wait(turn, |replica| !turn.has_asked(replica));
        let Some((best, forecast, _)) = found else { return };
        // Late is soon enough where it is sooner than what has been waited already.
        let waited = turn.now().since(turn.request().arrival);
        let is_sooner = forecast.wait.is_some_and(|wait| wait < waited);
        if forecast.verdict == Verdict::Fast || is_sooner {
            let untried = turn.order().iter().filter(|r| !turn.has_asked(**r)).count() as u64;
            let at = turn.now() + Nanos(self.settings.costs.inference.0 * untried);
            turn.send(best, at, Why::Duplicate);
            self.budget -= 1.0;
        } else if turn.memo() < LOOKS {
            turn.set_memo(turn.memo() + 1);
            turn.timer(turn.now() + self.settings.usual, HEDGE);
        }
    }
}

impl Strategy for Ours {
    fn name(&self) -> &'static str {
        "trimtab"
    }

    fn read(&mut self, turn: &mut Turn<'_>) {
        self.delay.was_set();
        self.budget = (self.budget + self.settings.most_extra).min(MOST_SAVED);
        let (now, home) = (turn.now(), turn.home());
        let Some((best, forecast, late)) = self.least_wait(turn, |_| true) else { return };
        let costs = self.settings.costs;
        let mut at = now + Nanos(costs.inference.0 * turn.order().len() as u64);
        if best != home && (late.has(home) || self.settings.charge_moves) {
            at += costs.failover;
        }
        if best != home && late.has(home) {
            turn.refuse(home);
        }
        for replica in late.iter().filter(|&replica| replica != best) {
            self.panel.probing.avoided(now, replica);
        }
        // A home that only ranks behind must be heard of as well, but not at any
        // price: where reads are rare, each of them would be sent twice.
        if best != home && !late.has(home) && self.budget >= 1.0 {
            self.panel.probing.avoided(now, home);
        }
        self.send(turn, best, &forecast, at);
        if let Some(replica) = self.panel.probing.probe(turn) {
            self.probed.add(replica);
            self.budget = (self.budget - 1.0).max(-MOST_SAVED);
        }
    }

    fn timer(&mut self, turn: &mut Turn<'_>, _: u8) {
        self.hedge(turn);
    }

    fn sent(&mut self, now: Nanos, replica: Replica, request: &Request) -> Ticket {
        self.out[replica.index()] += u32::from(request.op == Op::Read);
        self.panel.sent(now, replica, request)
    }

    fn completed(&mut self, now: Nanos, ended: &Ended) {
        self.panel.completed(now, ended);
        self.out[ended.replica.index()] -= u32::from(ended.op == Op::Read);
        if ended.op != Op::Read || !self.probed.has(ended.replica) {
            return;
        }
        self.probed.remove(ended.replica);
        let expected = self.expected[ended.replica.index()];
        let took = now.since(ended.sent).0.saturating_mul(SURPRISE);
        if ended.data && took < expected.0 {
            self.panel.probing.good_news(ended.replica);
        }
    }
}

/// How much longer than expected a read may take before it is hedged: so long
/// that it happens to a given share of the reads. It follows the quantile by
/// stochastic approximation (Robbins and Monro, 1951), in logarithms; quickly at
/// first, and then so slowly that quiet minutes and busy ones have one price.
#[derive(Clone, Debug)]
struct Delay {
    nanos: f64,
    share: f64,
    reads: u64,
}

/// Steps of the logarithm, for a read that reaches the delay: the first, after how
/// many reads they are half as large, and the least.
const FIRST_STEP: f64 = 0.1;
const HALF_AFTER: f64 = 1000.0;
const LEAST_STEP: f64 = 0.005;

/// Less than this is no time to wait.
const LEAST_DELAY: f64 = 1000.0;

impl Delay {
    fn new(first: Nanos, share: f64) -> Self {
        Self { nanos: (first.0 as f64).max(LEAST_DELAY), share, reads: 0 }
    }

    const fn get(&self) -> Nanos {
        Nanos(self.nanos as u64)
    }

    fn step(&self) -> f64 {
        (FIRST_STEP / (1.0 + self.reads as f64 / HALF_AFTER)).max(LEAST_STEP)
    }

    /// A read has begun to wait.
    fn was_set(&mut self) {
        self.reads += 1;
        self.nanos = (self.nanos * libm::exp(-self.step() * self.share)).max(LEAST_DELAY);
    }

    /// And has waited for so long.
    fn was_reached(&mut self) {
        self.nanos *= libm::exp(self.step());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Waits whose logarithms are even between 10 µs and 10 ms: the quantiles are
    /// known.
    #[test]
    fn the_delay_is_a_quantile() {
        let mut delay = Delay::new(Nanos::from_millis(1), 0.02);
        let (mut reached, mut sum) = (0, 0.0);
        for i in 0..200_000_u64 {
            delay.was_set();
            let random =
                (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 11) as f64 / (1_u64 << 53) as f64;
            if 1e4 * 1000_f64.powf(random) > delay.nanos {
                delay.was_reached();
                reached += 1;
            }
            sum += delay.nanos.ln();
        }
        assert!((3_600..4_400).contains(&reached), "{reached} of 200,000 are not 2%");
        let mean = (sum / 200_000.0).exp();
        let expected = 1e4 * 1000_f64.powf(0.98);
        assert!((mean / expected).ln().abs() < 0.1, "{mean} is not {expected}");
    }
}
