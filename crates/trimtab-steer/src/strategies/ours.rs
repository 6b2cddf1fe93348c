//! Ours: the least wait, and a second drive only in doubt.

use trimtab_io::{Nanos, Request};
use trimtab_predict::{Forecast, Ticket, Verdict};

use super::hedge::Patience;
use crate::action::Why;
use crate::costs::Costs;
use crate::panel::Panel;
use crate::replica::Replica;
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
    /// How long a doubted request is waited for, by home drive.
    pub doubted: Patience,
    /// How long any other, at most.
    pub trusted: Patience,
}

/// Predicts the home drive, and goes there if that is fast. Otherwise all drives
/// are predicted, and the read goes to the one with the least expected wait, be
/// it late too. Only reads that turn out to wait longer than that said, or that
/// were doubtful from the start, are hedged, and only with a drive that is
/// predicted to be fast then.
pub struct Ours {
    panel: Panel,
    settings: Settings,
}

/// What a timer is for.
const ELSEWHERE: u8 = 0;
const HEDGE: u8 = 1;
/// As often a hedge looks for a drive that would be fast.
const LOOKS: u32 = 3;

impl Ours {
    /// With these predictors.
    #[must_use]
    pub const fn new(panel: Panel, settings: Settings) -> Self {
        Self { panel, settings }
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

    /// The drive of these with the least wait, as far as that can be told.
    fn least_wait(
        &self,
        turn: &Turn<'_>,
        which: impl Fn(&Replica) -> bool,
    ) -> Option<(Replica, Forecast)> {
        let forecasts = turn
            .order()
            .iter()
            .copied()
            .filter(which)
            .map(|replica| (replica, self.panel.forecast(turn.now(), replica, turn.request())));
        forecasts.min_by(|(_, a), (_, b)| match (a.wait, b.wait) {
            (Some(a), Some(b)) => a.cmp(&b),
            _ => a.probability.total_cmp(&b.probability),
        })
    }

    /// The home would be late: whoever is best.
    fn elsewhere(&mut self, turn: &mut Turn<'_>) {
        let (now, home) = (turn.now(), turn.home());
        let Some((best, forecast)) = self.least_wait(turn, |_| true) else { return };
        if best != home {
            turn.refuse(home);
            self.panel.probing.avoided(now, home);
        }
        let why = match forecast.verdict {
            Verdict::Fast => Why::Fast,
            Verdict::Late => Why::LeastBad,
        };
        let asked = turn.order().len() as u64;
        let at = now + Nanos(self.settings.costs.inference.0 * asked);
        self.send(turn, best, forecast, at, why);
    }

    /// It has taken too long: another drive, if one would be fast.
    fn hedge(&self, turn: &mut Turn<'_>) {
        let best = {
            let untried = |replica: &Replica| !turn.has_asked(*replica);
            self.least_wait(turn, untried)
        };
        let Some((best, forecast)) = best else { return };
        if forecast.verdict == Verdict::Fast {
            let untried = turn.order().iter().filter(|r| !turn.has_asked(**r)).count() as u64;
            let at = turn.now() + Nanos(self.settings.costs.inference.0 * untried);
            turn.send(best, at, Why::Duplicate);
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
        let (now, home) = (turn.now(), turn.home());
        let costs = self.settings.costs;
        let forecast = self.panel.forecast(now, home, turn.request());
        match forecast.verdict {
            Verdict::Fast => self.send(turn, home, forecast, now + costs.inference, Why::Fast),
            Verdict::Late => turn.timer(now + costs.inference + costs.failover, ELSEWHERE),
        }
        self.panel.probing.probe(turn);
    }

    fn timer(&mut self, turn: &mut Turn<'_>, purpose: u8) {
        match purpose {
            ELSEWHERE => self.elsewhere(turn),
            _ => self.hedge(turn),
        }
    }

    fn sent(&mut self, now: Nanos, replica: Replica, request: &Request) -> Ticket {
        self.panel.sent(now, replica, request)
    }

    fn completed(&mut self, now: Nanos, ended: &Ended) {
        self.panel.completed(now, ended);
    }
}
