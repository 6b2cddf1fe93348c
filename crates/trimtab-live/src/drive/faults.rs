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
    /// How long it lasts, in seconds.
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
    for_s: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    factor: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    share: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ops: Option<Ops>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Stall,
    Slow,
    Error,
}

impl TryFrom<Written> for Fault {
    type Error = &'static str;

    fn try_from(written: Written) -> Result<Self, Self::Error> {
        let Written { kind, at_s, for_s, factor, share, ops } = written;
        let effect = match (kind, factor, share, ops) {
            (Kind::Stall, None, None, None) => Effect::Stall,
            (Kind::Slow, Some(factor), None, None) => Effect::Slow { factor },
            (Kind::Error, None, Some(share), ops) => {
                Effect::Error { ops: ops.unwrap_or_default(), share }
            }
            (Kind::Stall, ..) => return Err("a stall takes only `at_s` and `for_s`"),
            (Kind::Slow, ..) => return Err("`slow` takes `factor`, `at_s` and `for_s`"),
            (Kind::Error, ..) => return Err("`error` takes `share`, `ops`, `at_s` and `for_s`"),
        };
        Ok(Self { effect, at_s, for_s })
    }
}

impl From<Fault> for Written {
    fn from(fault: Fault) -> Self {
        let Fault { effect, at_s, for_s } = fault;
        let plain = Self { kind: Kind::Stall, at_s, for_s, factor: None, share: None, ops: None };
        match effect {
            Effect::Stall => plain,
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
            if (least..=most).contains(&value) {
                return Ok(());
            }
            let why = format!("a fault's {what} must be from {least} to {most}, not {value}");
            Err(Error::BadInput(why))
        };
        within("at_s", self.at_s, 0.0, 1e7)?;
        within("for_s", self.for_s, 1e-6, 1e7)?;
        match self.effect {
            Effect::Stall => Ok(()),
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
}

#[derive(Clone, Copy, Debug)]
struct Timed {
    effect: Effect,
    from: Nanos,
    until: Nanos,
}

impl Timed {
    fn is_on(&self, at: Nanos) -> bool {
        (self.from..self.until).contains(&at)
    }
}

impl Faults {
    pub(super) const fn new(random: Pcg64) -> Self {
        Self { all: Vec::new(), random }
    }

    /// Adds one, which counts its time from `now`.
    pub(super) fn add(&mut self, fault: &Fault, now: Nanos) {
        self.all.retain(|timed| now < timed.until);
        let from = now + Nanos::from_secs_f64(fault.at_s);
        let until = from + Nanos::from_secs_f64(fault.for_s);
        self.all.push(Timed { effect: fault.effect, from, until });
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

    /// Whether a request that is answered now fails.
    pub(super) fn fails(&mut self, op: Op, now: Nanos) -> bool {
        let Self { all, random } = self;
        all.iter().filter(|timed| timed.is_on(now)).any(|timed| match timed.effect {
            Effect::Error { ops, share } => {
                let meant = match ops {
                    Ops::Reads => op == Op::Read,
                    Ops::Writes => op == Op::Write,
                    Ops::All => true,
                };
                meant && random.random_bool(share)
            }
            Effect::Stall | Effect::Slow { .. } => false,
        })
    }

    /// Those that are on, in words.
    pub(super) fn active(&self, now: Nanos) -> Vec<String> {
        let on = self.all.iter().filter(|timed| timed.is_on(now));
        on.map(|timed| {
            let left = timed.until.since(now);
            match timed.effect {
                Effect::Stall => format!("stall, {left} left"),
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
        let failed = (0..10_000).filter(|_| faults.fails(Op::Read, Nanos(5))).count();
        assert!((2_700..3_300).contains(&failed), "{failed}");
        assert!(!faults.fails(Op::Write, Nanos(5)));
        assert!(!faults.fails(Op::Read, Nanos(S)));
        assert_eq!(faults.active(Nanos(0)), ["0.3 of reads fail, 1.00 s left"]);
        faults.clear();
        assert!(faults.active(Nanos(0)).is_empty());
    }

    #[test]
    fn a_schedule_that_cannot_be_is_one_line() {
        for (schedule, expected) in [
            ("[[fault]]\nkind = 'slow'\nfactor = 0.5\nfor_s = 1", "factor must be from 1"),
            ("[[fault]]\nkind = 'explode'\nfor_s = 1", "unknown variant `explode`"),
            ("[[fault]]\nkind = 'stall'", "missing field `for_s`"),
            ("[[fault]]\nkind = 'stall'\nfor_s = 1\nshare = 1", "a stall takes only"),
            ("fautl = 1", "line 1: unknown field `fautl`"),
        ] {
            let error = Fault::parse_schedule(schedule).unwrap_err();
            assert!(error.is_bad_input());
            let error = error.to_string();
            assert!(error.contains(expected) && !error.contains('\n'), "{error}");
        }
    }
}
