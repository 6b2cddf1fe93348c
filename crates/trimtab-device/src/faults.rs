//! Injected faults: when a drive stalls, slows down, fails or loses power.
//!
//! [`Fault`] is one entry of a schedule, as it is written. [`Faults`] applies a schedule to the
//! completions of a drive: a plain state machine, so emulated drives run it on the wall clock and
//! simulated ones in virtual time.

use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64;
use serde::{Deserialize, Serialize};
use trimtab_io::{Nanos, Op};

/// A fault, and when it is active.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "FaultEntry", into = "FaultEntry")]
pub struct Fault {
    /// The effect.
    pub effect: Effect,
    /// Start, in seconds: after the drive is ready, or after the command for a fault that is added
    /// to a running drive.
    pub at_s: f64,
    /// Duration, in seconds; infinite for one that lasts until faults are cleared. A stall ends.
    pub for_s: f64,
}

/// The effect of a fault.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Effect {
    /// No request is answered until it ends.
    Stall,
    /// Latencies are multiplied.
    Slow {
        /// At least 1.
        factor: f64,
    },
    /// Requests fail with `EIO`, after their usual latency.
    Error {
        /// Which requests.
        ops: FaultOps,
        /// The share of those that fails, 0 to 1, drawn at random.
        share: f64,
    },
    /// The power goes: some or all of what was not flushed is lost, and requests fail with `EIO`,
    /// those in flight and all until it ends.
    PowerCut {
        /// Seed of what is lost; `None`: the drive's own, plus one for each cut before.
        seed: Option<u64>,
    },
}

/// Requests that a fault applies to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FaultOps {
    /// Reads only.
    Reads,
    /// Writes only.
    Writes,
    /// Reads, writes, discards and flushes.
    #[default]
    All,
}

/// Why a fault is not valid, on one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FaultError(String);

/// A schedule in TOML: `[[fault]]` tables.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Schedule {
    #[serde(default)]
    fault: Vec<Fault>,
}

/// A fault as written: flat, so that a superfluous key is an error.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FaultEntry {
    kind: FaultKind,
    #[serde(default)]
    at_s: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    for_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    factor: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    share: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ops: Option<FaultOps>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum FaultKind {
    Stall,
    Slow,
    Error,
    PowerCut,
}

impl TryFrom<FaultEntry> for Fault {
    type Error = &'static str;

    fn try_from(written: FaultEntry) -> Result<Self, Self::Error> {
        let FaultEntry { kind, at_s, for_s, factor, share, ops, seed } = written;
        let effect = match (kind, factor, share, ops, seed) {
            (FaultKind::Stall, None, None, None, None) => Effect::Stall,
            (FaultKind::Slow, Some(factor), None, None, None) => Effect::Slow { factor },
            (FaultKind::Error, None, Some(share), ops, None) => {
                Effect::Error { ops: ops.unwrap_or_default(), share }
            }
            (FaultKind::PowerCut, None, None, None, seed) => Effect::PowerCut { seed },
            (FaultKind::PowerCut, ..) => {
                return Err("`power-cut` takes `at_s`, `for_s` and `seed`");
            }
            (FaultKind::Stall, ..) => return Err("a stall takes only `at_s` and `for_s`"),
            (FaultKind::Slow, ..) => return Err("`slow` takes `factor`, `at_s` and `for_s`"),
            (FaultKind::Error, ..) => {
                return Err("`error` takes `share`, `ops`, `at_s` and `for_s`");
            }
        };
        let for_s = match (for_s, effect) {
            (Some(for_s), _) => for_s,
            (None, Effect::Stall) => return Err("missing field `for_s`"),
            (None, _) => f64::INFINITY,
        };
        Ok(Self { effect, at_s, for_s })
    }
}

impl From<Fault> for FaultEntry {
    fn from(fault: Fault) -> Self {
        let Fault { effect, at_s, for_s } = fault;
        let plain = Self {
            kind: FaultKind::Stall,
            at_s,
            // JSON has no infinity.
            for_s: for_s.is_finite().then_some(for_s),
            factor: None,
            share: None,
            ops: None,
            seed: None,
        };
        match effect {
            Effect::Stall => plain,
            Effect::PowerCut { seed } => Self { kind: FaultKind::PowerCut, seed, ..plain },
            Effect::Slow { factor } => {
                Self { kind: FaultKind::Slow, factor: Some(factor), ..plain }
            }
            Effect::Error { ops, share } => {
                Self { kind: FaultKind::Error, share: Some(share), ops: Some(ops), ..plain }
            }
        }
    }
}

impl Fault {
    /// Parses a schedule: TOML with one `[[fault]]` table per fault.
    ///
    /// # Errors
    /// One line that names the line or the key, and what is allowed.
    pub fn parse_schedule(text: &str) -> Result<Vec<Self>, FaultError> {
        let schedule: Schedule = toml::from_str(text).map_err(|e| {
            let at = e.span().map_or(0, |span| span.start.min(text.len()));
            let line = 1 + text[..at].matches('\n').count();
            FaultError(format!("line {line}: {}", e.message().trim().replace('\n', " ")))
        })?;
        schedule.fault.iter().try_for_each(Self::check)?;
        Ok(schedule.fault)
    }

    /// Checks the parameters.
    ///
    /// # Errors
    /// One line that names the parameter and its range.
    pub fn check(&self) -> Result<(), FaultError> {
        let within = |what: &str, value: f64, least: f64, most: f64| {
            trimtab_io::within(&format!("a fault's {what}"), value, least..=most)
                .map_err(|error| FaultError(error.to_string()))
        };
        within("at_s", self.at_s, 0.0, 1e7)?;
        if self.effect == Effect::Stall || self.for_s != f64::INFINITY {
            within("for_s", self.for_s, 1e-6, 1e7)?;
        }
        match self.effect {
            Effect::Stall | Effect::PowerCut { .. } => Ok(()),
            Effect::Slow { factor } => within("factor", factor, 1.0, 1e6),
            Effect::Error { share, .. } => within("share", share, 0.0, 1.0),
        }
    }
}

/// The faults of one drive.
#[derive(Clone, Debug)]
pub struct Faults {
    all: Vec<Timed>,
    random: Pcg64,
    /// Time of the last power cut: requests that had arrived by then fail.
    lost: Option<Nanos>,
}

#[derive(Clone, Copy, Debug)]
struct Timed {
    effect: Effect,
    from: Nanos,
    until: Nanos,
    /// For a power cut: it has been executed.
    taken: bool,
}

/// The power switch's next actions.
#[derive(Debug)]
pub struct PowerStep {
    /// Seeds of the cuts that are due.
    pub cuts: Vec<Option<u64>>,
    /// Whether the power is on afterwards.
    pub is_on: bool,
    /// When the next action is due.
    pub next: Option<Nanos>,
}

impl Timed {
    fn is_on(&self, at: Nanos) -> bool {
        (self.from..self.until).contains(&at)
    }

    const fn is_power_cut(&self) -> bool {
        matches!(self.effect, Effect::PowerCut { .. })
    }
}

impl Faults {
    /// No faults yet. The seed decides which requests an [`Effect::Error`] hits.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { all: Vec::new(), random: Pcg64::seed_from_u64(seed), lost: None }
    }

    /// Adds a fault whose times count from `now`.
    pub fn add(&mut self, fault: &Fault, now: Nanos) {
        // A short power cut may be over before it was executed; it is executed nevertheless.
        self.all.retain(|timed| now < timed.until || timed.is_power_cut() && !timed.taken);
        let from = now + Nanos::from_secs_f64(fault.at_s);
        let until = Nanos(from.0.saturating_add(Nanos::from_secs_f64(fault.for_s).0));
        self.all.push(Timed { effect: fault.effect, from, until, taken: false });
    }

    /// The actions of the power switch that are due by now; counts them as executed.
    pub fn power(&mut self, now: Nanos) -> PowerStep {
        let mut step = PowerStep { cuts: Vec::new(), is_on: true, next: None };
        for timed in &mut self.all {
            let Effect::PowerCut { seed } = timed.effect else { continue };
            if timed.from <= now && !timed.taken {
                timed.taken = true;
                step.cuts.push(seed);
            }
            let next = if timed.taken { timed.until } else { timed.from };
            step.is_on &= !timed.is_on(now);
            if next > now && next < Nanos(u64::MAX) {
                step.next = Some(step.next.map_or(next, |at| at.min(next)));
            }
        }
        step
    }

    /// The power has been cut: requests that have arrived by now fail.
    pub const fn lose_power(&mut self, now: Nanos) {
        self.lost = Some(now);
    }

    /// Ends all faults, scheduled ones included.
    pub fn clear(&mut self) {
        self.all.clear();
    }

    /// When a request is answered that arrived at `arrival` and would complete at `complete`.
    #[must_use]
    pub fn answer_at(&self, arrival: Nanos, complete: Nanos) -> Nanos {
        if self.all.is_empty() {
            return complete;
        }
        if self.is_lost(arrival) {
            return complete;
        }
        let mut at = complete;
        for timed in self.all.iter().filter(|timed| timed.is_on(complete)) {
            if let Effect::Slow { factor } = timed.effect {
                let took = complete.since(arrival).0 as f64 * factor;
                at = at.max(arrival + Nanos(took as u64));
            }
        }
        // A stall may end inside another one.
        while let Some(stall) =
            self.all.iter().find(|timed| timed.effect == Effect::Stall && timed.is_on(at))
        {
            at = stall.until;
        }
        at
    }

    /// Whether a power cut hit a request that arrived then while it was in flight.
    fn is_lost(&self, arrival: Nanos) -> bool {
        self.lost.is_some_and(|lost| arrival <= lost)
    }

    /// Whether a request that arrived then and is answered now fails.
    pub fn fails(&mut self, op: Op, arrival: Nanos, now: Nanos) -> bool {
        if self.is_lost(arrival) {
            return true;
        }
        let Self { all, random, .. } = self;
        all.iter().filter(|timed| timed.is_on(now)).any(|timed| match timed.effect {
            Effect::Error { ops, share } => {
                let meant = match ops {
                    FaultOps::Reads => op == Op::Read,
                    FaultOps::Writes => op == Op::Write,
                    FaultOps::All => true,
                };
                meant && random.random_bool(share)
            }
            // While the power is off, the store refuses requests.
            Effect::Stall | Effect::Slow { .. } | Effect::PowerCut { .. } => false,
        })
    }

    /// The active faults, in words.
    #[must_use]
    pub fn active(&self, now: Nanos) -> Vec<String> {
        let on = self.all.iter().filter(|timed| timed.is_on(now));
        on.map(|timed| {
            let left = match timed.until {
                Nanos::MAX => "until faults are cleared".to_owned(),
                until => format!("{} left", until.since(now)),
            };
            match timed.effect {
                Effect::Stall => format!("stall, {left}"),
                Effect::PowerCut { .. } => format!("power off, {left}"),
                Effect::Slow { factor } => format!("slow by {factor}, {left}"),
                Effect::Error { ops, share } => {
                    let ops = match ops {
                        FaultOps::Reads => "reads",
                        FaultOps::Writes => "writes",
                        FaultOps::All => "requests",
                    };
                    format!("{share} of {ops} fail, {left}")
                }
            }
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(schedule: &str) -> Faults {
        let mut faults = Faults::new(1);
        for fault in Fault::parse_schedule(schedule).unwrap() {
            faults.add(&fault, Nanos(0));
        }
        faults
    }

    const S: u64 = 1_000_000_000;

    #[test]
    fn stall_delays_answers_and_slow_multiplies_latency() {
        let faults = with(
            "[[fault]]\nkind = 'stall'\nat_s = 1\nfor_s = 1\n\
             [[fault]]\nkind = 'stall'\nat_s = 1.9\nfor_s = 1.1\n\
             [[fault]]\nkind = 'slow'\nfactor = 10\nat_s = 5\nfor_s = 1",
        );
        let answer = |arrival, complete| faults.answer_at(Nanos(arrival), Nanos(complete)).0;
        assert_eq!(answer(S / 2, S - 1), S - 1);
        assert_eq!(answer(S / 2, S), 3 * S);
        assert_eq!(answer(5 * S, 5 * S + 100), 5 * S + 1000);
        assert_eq!(answer(6 * S, 6 * S + 100), 6 * S + 100);
    }

    #[test]
    fn fault_without_an_end_lasts_until_it_is_cleared() {
        let mut faults = with("[[fault]]\nkind = 'slow'\nfactor = 3\nat_s = 1");
        assert_eq!(faults.answer_at(Nanos(0), Nanos(S - 1)), Nanos(S - 1));
        assert_eq!(faults.answer_at(Nanos(1000 * S), Nanos(1000 * S + 7)), Nanos(1000 * S + 21));
        assert_eq!(faults.active(Nanos(S)), ["slow by 3, until faults are cleared"]);
        faults.clear();
        assert_eq!(faults.answer_at(Nanos(S), Nanos(S + 7)), Nanos(S + 7));
    }

    #[test]
    fn error_fault_hits_its_operations_at_its_rate() {
        let mut faults = with("[[fault]]\nkind = 'error'\nops = 'reads'\nshare = 0.3\nfor_s = 1");
        let failed = (0..10_000).filter(|_| faults.fails(Op::Read, Nanos(5), Nanos(5))).count();
        assert!((2_700..3_300).contains(&failed), "{failed}");
        assert!(!faults.fails(Op::Write, Nanos(5), Nanos(5)));
        assert!(!faults.fails(Op::Read, Nanos(S), Nanos(S)));
        assert_eq!(faults.active(Nanos(0)), ["0.3 of reads fail, 1.00 s left"]);
        faults.clear();
        assert!(faults.active(Nanos(0)).is_empty());
    }

    #[test]
    fn each_power_cut_executes_once_and_power_returns_after_the_last() {
        let mut faults = with(
            "[[fault]]\nkind = 'power-cut'\nat_s = 1\nfor_s = 2\nseed = 7\n\
             [[fault]]\nkind = 'power-cut'\nat_s = 2\nfor_s = 3\n\
             [[fault]]\nkind = 'power-cut'\nat_s = 9\n",
        );
        let mut power = |at| {
            let PowerStep { cuts, is_on, next } = faults.power(Nanos(at));
            (cuts, is_on, next.map(|next| next.0))
        };
        assert_eq!(power(0), (vec![], true, Some(S)));
        assert_eq!(power(S), (vec![Some(7)], false, Some(2 * S)));
        assert_eq!(power(2 * S), (vec![None], false, Some(3 * S)));
        assert_eq!(power(3 * S), (vec![], false, Some(5 * S)));
        assert_eq!(power(5 * S), (vec![], true, Some(9 * S)));
        assert_eq!(power(9 * S), (vec![None], false, None));
        assert_eq!(power(u64::MAX - 1), (vec![], false, None), "until it is cleared");
        let told = "power off, until faults are cleared";
        assert_eq!(faults.active(Nanos(10 * S)), [told]);
        faults.clear();
        assert!(faults.power(Nanos(10 * S)).is_on);
    }

    #[test]
    fn power_cut_fails_requests_in_flight_only() {
        let mut faults = with("[[fault]]\nkind = 'stall'\nfor_s = 9");
        faults.lose_power(Nanos(S));
        assert_eq!(faults.answer_at(Nanos(S), Nanos(S + 5)), Nanos(S + 5), "no stall holds it");
        assert!(faults.fails(Op::Read, Nanos(S), Nanos(S + 5)));
        assert!(!faults.fails(Op::Read, Nanos(S + 1), Nanos(S + 5)));
    }

    #[test]
    fn invalid_schedule_error_is_one_line() {
        for (schedule, expected) in [
            ("[[fault]]\nkind = 'slow'\nfactor = 0.5\nfor_s = 1", "factor must be from 1"),
            ("[[fault]]\nkind = 'explode'\nfor_s = 1", "unknown variant `explode`"),
            ("[[fault]]\nkind = 'stall'", "missing field `for_s`"),
            ("[[fault]]\nkind = 'stall'\nfor_s = 1\nshare = 1", "a stall takes only"),
            ("[[fault]]\nkind = 'power-cut'\nshare = 1", "`power-cut` takes `at_s`"),
            ("[[fault]]\nkind = 'slow'\nfor_s = 1\nfactor = 2\nseed = 1", "`slow` takes"),
            ("fautl = 1", "line 1: unknown field `fautl`"),
        ] {
            let error = Fault::parse_schedule(schedule).unwrap_err().to_string();
            assert!(error.contains(expected) && !error.contains('\n'), "{error}");
        }
    }
}
