//! Ours: the least wait, and a second drive only in doubt.

use trimtab_io::{Nanos, Request};
use trimtab_predict::{Forecast, Ticket, Verdict};

use super::hedge::Patience;
use crate::action::Why;
use crate::costs::Costs;
use crate::panel::Panel;
use crate::probing::Probing;
use crate::replica::{Replica, Replicas};
use crate::strategy::{Ended, Strategy};
use crate::turn::Turn;

/// What of the strategy can be set.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What deciding costs.
    pub costs: Costs,
    /// From this probability of being late on, a request that is sent all the
    /// same is one to be doubted.
    pub unsure: f32,
    /// Of an expected wait, how many times that is too long.
    pub overshoot: f64,
    /// By which share another drive's expected wait must be less than the home's
    /// to go there.
    pub margin: f64,
    /// The greatest share of reads that are hedged, in the long run.
    pub most_extra: f64,
    /// How long a doubted request is waited for, by home drive.
    pub doubted: Patience,
    /// How long any other, at most.
    pub trusted: Patience,
}

/// Predicts all drives, and goes to the one with the least expected wait: home,
/// unless another is ahead by a margin. Between drives that would be fast that is
/// ranking, as C3 and the snitch do it, and costs the inferences; a home that is
/// refused costs a failover besides. Where all would be late it is the least bad. Only reads that turn out to wait longer than that said,
/// or that were doubtful from the start, are hedged, and only with a drive that
/// is predicted to be fast then. Hedges have a budget, which each read adds to: a
/// strategy that hedges more the busier the drives are would make it worse.
pub struct Ours {
    panel: Panel,
    settings: Settings,
    /// Hedges that may still be sent.
    budget: f64,
}

/// A drive that is passed over is probed after so long: an answer or two are news
/// enough.
const PROBE: Nanos = Nanos::from_millis(40);

/// Hedges that can be saved up.
const MOST_SAVED: f64 = 100.0;

/// What a timer is for.
const HEDGE: u8 = 0;
/// As often a hedge looks for a drive that would be fast.
const LOOKS: u32 = 8;

impl Ours {
    /// With these predictors.
    #[must_use]
    pub fn new(mut panel: Panel, settings: Settings) -> Self {
        panel.probing = Probing::new(PROBE);
        Self { panel, settings, budget: 1.0 }
    }

    /// Sends the read, and sets the time at which it will be hedged.
    fn send(&self, turn: &mut Turn<'_>, replica: Replica, forecast: Forecast, at: Nanos, why: Why) {
        turn.send(replica, at, why);
        let settings = &self.settings;
        let home = turn.home();
        let longest = settings.trusted.of(home).max(settings.doubted.of(home));
        let soonest = settings.doubted.of(home);
        let patience = match forecast.wait {
            _ if forecast.probability >= settings.unsure && why == Why::Fast => soonest,
            Some(wait) => {
                Nanos((wait.0 as f64 * settings.overshoot) as u64).clamp(soonest, longest)
            }
            None => longest,
        };
        turn.timer(at + patience, HEDGE);
    }

    /// The drive of these with the least wait, as far as that can be told, getting
    /// there included; and who would be late.
    fn least_wait(
        &self,
        turn: &Turn<'_>,
        which: impl Fn(Replica) -> bool,
    ) -> Option<(Replica, Forecast, Replicas)> {
        let (home, Settings { costs, margin, .. }) = (turn.home(), &self.settings);
        let mut late = Replicas::NONE;
        let mut best: Option<(Replica, Forecast)> = None;
        for replica in turn.order().iter().copied().filter(|&replica| which(replica)) {
            let mut forecast = self.panel.forecast(turn.now(), replica, turn.request());
            if forecast.verdict == Verdict::Late {
                late.add(replica);
            }
            if replica == home {
                let fair = |wait: Nanos| Nanos((wait.0 as f64 * (1.0 - margin)) as u64);
                forecast.wait = forecast.wait.map(fair);
            } else if late.has(home) {
                // Home refuses; the way from there takes its time.
                forecast.wait = forecast.wait.map(|wait| wait + costs.failover);
            }
            if best.is_none_or(|(_, best)| is_less(&forecast, &best)) {
                best = Some((replica, forecast));
            }
        }
        best.map(|(replica, forecast)| (replica, forecast, late))
    }

    /// It has taken too long: another drive, if one would be fast.
    fn hedge(&mut self, turn: &mut Turn<'_>) {
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
            turn.timer(turn.now() + self.settings.doubted.of(turn.home()), HEDGE);
        }
    }
}

impl Strategy for Ours {
    fn name(&self) -> &'static str {
        "trimtab"
    }

    fn read(&mut self, turn: &mut Turn<'_>) {
        self.budget = (self.budget + self.settings.most_extra).min(MOST_SAVED);
        let (now, home) = (turn.now(), turn.home());
        let Some((best, forecast, late)) = self.least_wait(turn, |_| true) else { return };
        let costs = self.settings.costs;
        let mut at = now + Nanos(costs.inference.0 * turn.order().len() as u64);
        if best != home && late.has(home) {
            at += costs.failover;
            turn.refuse(home);
        }
        for replica in late.iter().filter(|&replica| replica != best) {
            self.panel.probing.avoided(now, replica);
        }
        let why = if late.has(best) { Why::LeastBad } else { Why::Fast };
        self.send(turn, best, forecast, at, why);
        self.panel.probing.probe(turn);
    }

    fn timer(&mut self, turn: &mut Turn<'_>, _: u8) {
        self.hedge(turn);
    }

    fn sent(&mut self, now: Nanos, replica: Replica, request: &Request) -> Ticket {
        self.panel.sent(now, replica, request)
    }

    fn completed(&mut self, now: Nanos, ended: &Ended) {
        self.panel.completed(now, ended);
    }
}

/// Whether the first is expected to wait less. Of equals it is the second, which
/// comes first in the order.
fn is_less(a: &Forecast, b: &Forecast) -> bool {
    match (a.wait, b.wait) {
        (Some(a), Some(b)) => a < b,
        _ => a.probability < b.probability,
    }
}
