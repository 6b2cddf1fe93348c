//! What goes wrong with a drive on purpose.

use rand::RngExt as _;
use rand_pcg::Pcg64;
use serde::{Deserialize, Serialize};
use trimtab_io::{Nanos, Op};

use super::error::Error;

/// A fault, and when.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct Fault {
    /// What happens.
    pub effect: Effect,
    /// When it begins, in seconds: from when the drive is ready, or for one that
    /// is commanded from then.
    pub at_s: f64,
    /// How long it lasts, in seconds; a power cut may be infinite: until faults are
    /// cleared.
    pub for_s: f64,
}

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Effect {
    /// Nothing is answered until it is over.
    Stall,
    /// Each request takes so many times the time it would.
    Slow {
        /// At least 1.
        factor: f64,
    },
    /// Requests fail with `EIO`, after the time they would have taken.
    Error {
        /// Which of them.
        ops: Ops,
        /// How many of those, 0 to 1, drawn at random.
        share: f64,
    },
    /// The power goes: what was not flushed is lost, or a part of it, requests in flight
    /// fail with `EIO`, and so do all until it is over.
    PowerCut {
        /// For what is lost; the drive's own, and another for each cut, if there is none.
        seed: Option<u64>,
    },
}

/// Requests that can fail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ops {
    /// Reads only.
    Reads,
    /// Writes only.
    Writes,
    /// Reads, writes, discards and flushes.
    #[default]
    All,
}

/// A schedule in TOML: `[[fault]]` tables.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Schedule {
    #[serde(default)]
    fault: Vec<Fault>,
}

/// A fault as it is written: flat, so that a key too many is an error.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    kind: Kind,
    #[serde(default)]
    at_s: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    for_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    factor: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    share: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ops: Option<Ops>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    Stall,
    Slow,
    Error,
    PowerCut,
}

impl TryFrom<Written> for Fault {
    type Error = &'static str;

    fn try_from(written: Written) -> Result<Self, Self::Error> {
        let Written { kind, at_s, for_s, factor, share, ops, seed } = written;
        let effect = match (kind, factor, share, ops, seed) {
            (Kind::Stall, None, None, None, None) => Effect::Stall,
            (Kind::Slow, Some(factor), None, None, None) => Effect::Slow { factor },
            (Kind::Error, None, Some(share), ops, None) => {
                Effect::Error { ops: ops.unwrap_or_default(), share }
            }
            (Kind::PowerCut, None, None, None, seed) => Effect::PowerCut { seed },
            (Kind::PowerCut, ..) => return Err("`power-cut` takes `at_s`, `for_s` and `seed`"),
            (Kind::Stall, ..) => return Err("a stall takes only `at_s` and `for_s`"),
            (Kind::Slow, ..) => return Err("`slow` takes `factor`, `at_s` and `for_s`"),
            (Kind::Error, ..) => return Err("`error` takes `share`, `ops`, `at_s` and `for_s`"),
        };
        let for_s = match (for_s, effect) {
            (Some(for_s), _) => for_s,
            (None, Effect::PowerCut { .. }) => f64::INFINITY,
            (None, _) => return Err("missing field `for_s`"),
        };
        Ok(Self { effect, at_s, for_s })
    }
}

impl From<Fault> for Written {
    fn from(fault: Fault) -> Self {
        let Fault { effect, at_s, for_s } = fault;
        let plain = Self {
            kind: Kind::Stall,
            at_s,
            // JSON knows no infinity.
            for_s: for_s.is_finite().then_some(for_s),
            factor: None,
            share: None,
            ops: None,
            seed: None,
        };
        match effect {
            Effect::Stall => plain,
            Effect::PowerCut { seed } => Self { kind: Kind::PowerCut, seed, ..plain },
            Effect::Slow { factor } => Self { kind: Kind::Slow, factor: Some(factor), ..plain },
            Effect::Error { ops, share } => {
                Self { kind: Kind::Error, share: Some(share), ops: Some(ops), ..plain }
            }
        }
    }
}

impl Fault {
    /// Reads a schedule: TOML with one `[[fault]]` table for each.
    ///
    /// # Errors
    /// One line that names the line or the key, and what is allowed.
    pub fn parse_schedule(text: &str) -> Result<Vec<Self>, Error> {
        let schedule: Schedule = toml::from_str(text).map_err(|e| {
            let at = e.span().map_or(0, |span| span.start.min(text.len()));
            let line = 1 + text[..at].matches('\n').count();
            Error::BadInput(format!("line {line}: {}", e.message().trim().replace('\n', " ")))
        })?;
        schedule.fault.iter().try_for_each(Self::check)?;
        Ok(schedule.fault)
    }

    /// Whether it can be.
    ///
    /// # Errors
    /// One line that says what cannot.
    pub fn check(&self) -> Result<(), Error> {
        let within = |what: &str, value: f64, least: f64, most: f64| {
            trimtab_io::within(&format!("a fault's {what}"), value, least..=most)
                .map_err(|wrong| Error::BadInput(wrong.into()))
        };
        within("at_s", self.at_s, 0.0, 1e7)?;
        if !(matches!(self.effect, Effect::PowerCut { .. }) && self.for_s == f64::INFINITY) {
            within("for_s", self.for_s, 1e-6, 1e7)?;
        }
        match self.effect {
            Effect::Stall | Effect::PowerCut { .. } => Ok(()),
            Effect::Slow { factor } => within("factor", factor, 1.0, 1e6),
            Effect::Error { share, .. } => within("share", share, 0.0, 1.0),
        }
    }
}

/// The faults of one drive, by the clock.
#[derive(Debug)]
pub(super) struct Faults {
    all: Vec<Timed>,
    random: Pcg64,
    /// When the power went last: what had arrived by then fails.
    lost: Option<Nanos>,
}

#[derive(Clone, Copy, Debug)]
struct Timed {
    effect: Effect,
    from: Nanos,
    until: Nanos,
    /// Of a power cut: the power has been taken.
    taken: bool,
}

/// What the power switch has to do.
#[derive(Debug)]
pub(super) struct PowerStep {
    /// Cuts that are due, with their seeds.
    pub(super) cuts: Vec<Option<u64>>,
    /// Whether the power is on after that.
    pub(super) is_on: bool,
    /// When there is more to do.
    pub(super) next: Option<Nanos>,
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
    pub(super) const fn new(random: Pcg64) -> Self {
        Self { all: Vec::new(), random, lost: None }
    }

    /// Adds one, which counts its time from `now`.
    pub(super) fn add(&mut self, fault: &Fault, now: Nanos) {
        // A short power cut may be over before it was taken: it is to come all the same.
        self.all.retain(|timed| now < timed.until || timed.is_power_cut() && !timed.taken);
        let from = now + Nanos::from_secs_f64(fault.at_s);
        let until = Nanos(from.0.saturating_add(Nanos::from_secs_f64(fault.for_s).0));
        self.all.push(Timed { effect: fault.effect, from, until, taken: false });
    }

    /// What the power switch has to do by now, which it then does.
    pub(super) fn power(&mut self, now: Nanos) -> PowerStep {
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

    /// The power has gone: what has arrived by now fails.
    pub(super) const fn lose_power(&mut self, now: Nanos) {
        self.lost = Some(now);
    }

    pub(super) fn clear(&mut self) {
        self.all.clear();
    }

    /// When a request is answered that arrived then and would have been answered
    /// at `complete`.
    pub(super) fn answer_at(&self, arrival: Nanos, complete: Nanos) -> Nanos {
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
        // A stall may end in another one.
        while let Some(stall) =
            self.all.iter().find(|timed| timed.effect == Effect::Stall && timed.is_on(at))
        {
            at = stall.until;
        }
        at
    }

    /// Whether the power went while a request that arrived then was in flight.
    fn is_lost(&self, arrival: Nanos) -> bool {
        self.lost.is_some_and(|lost| arrival <= lost)
    }

    /// Whether a request that arrived then and is answered now fails.
    pub(super) fn fails(&mut self, op: Op, arrival: Nanos, now: Nanos) -> bool {
        if self.is_lost(arrival) {
            return true;
        }
        let Self { all, random, .. } = self;
        all.iter().filter(|timed| timed.is_on(now)).any(|timed| match timed.effect {
            Effect::Error { ops, share } => {
                let meant = match ops {
                    Ops::Reads => op == Op::Read,
                    Ops::Writes => op == Op::Write,
                    Ops::All => true,
                };
                meant && random.random_bool(share)
            }
            // Where the power is off the store takes no request.
            Effect::Stall | Effect::Slow { .. } | Effect::PowerCut { .. } => false,
        })
    }

    /// Those that are on, in words.
    pub(super) fn active(&self, now: Nanos) -> Vec<String> {
        let on = self.all.iter().filter(|timed| timed.is_on(now));
        on.map(|timed| {
            let left = timed.until.since(now);
            match timed.effect {
                Effect::Stall => format!("stall, {left} left"),
                Effect::PowerCut { .. } if timed.until == Nanos(u64::MAX) => {
                    "power off, until faults are cleared".to_owned()
                }
                Effect::PowerCut { .. } => format!("power off, {left} left"),
                Effect::Slow { factor } => format!("slow by {factor}, {left} left"),
                Effect::Error { ops, share } => {
                    let ops = match ops {
                        Ops::Reads => "reads",
                        Ops::Writes => "writes",
                        Ops::All => "requests",
                    };
                    format!("{share} of {ops} fail, {left} left")
                }
            }
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;

    use super::*;

    fn with(schedule: &str) -> Faults {
        let mut faults = Faults::new(Pcg64::seed_from_u64(1));
        for fault in Fault::parse_schedule(schedule).unwrap() {
            faults.add(&fault, Nanos(0));
        }
        faults
    }

    const S: u64 = 1_000_000_000;

    #[test]
    fn a_stall_holds_answers_until_it_ends_and_a_slow_time_multiplies() {
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
    fn errors_meet_whom_they_are_meant_for_and_about_as_many() {
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
    fn the_power_goes_once_for_each_cut_and_comes_back_when_all_are_over() {
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
    fn a_power_cut_fails_what_is_in_flight_and_nothing_later() {
        let mut faults = with("[[fault]]\nkind = 'stall'\nfor_s = 9");
        faults.lose_power(Nanos(S));
        assert_eq!(faults.answer_at(Nanos(S), Nanos(S + 5)), Nanos(S + 5), "no stall holds it");
        assert!(faults.fails(Op::Read, Nanos(S), Nanos(S + 5)));
        assert!(!faults.fails(Op::Read, Nanos(S + 1), Nanos(S + 5)));
    }

    #[test]
    fn a_schedule_that_cannot_be_is_one_line() {
        for (schedule, expected) in [
            ("[[fault]]\nkind = 'slow'\nfactor = 0.5\nfor_s = 1", "factor must be from 1"),
            ("[[fault]]\nkind = 'explode'\nfor_s = 1", "unknown variant `explode`"),
            ("[[fault]]\nkind = 'stall'", "missing field `for_s`"),
            ("[[fault]]\nkind = 'stall'\nfor_s = 1\nshare = 1", "a stall takes only"),
            ("[[fault]]\nkind = 'power-cut'\nshare = 1", "`power-cut` takes `at_s`"),
            ("[[fault]]\nkind = 'slow'\nfor_s = 1\nfactor = 2\nseed = 1", "`slow` takes"),
            ("fautl = 1", "line 1: unknown field `fautl`"),
        ] {
            let error = Fault::parse_schedule(schedule).unwrap_err();
            assert!(error.is_bad_input());
            let error = error.to_string();
            assert!(error.contains(expected) && !error.contains('\n'), "{error}");
        }
    }
}
