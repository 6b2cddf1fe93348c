//! Injected faults: when a drive stalls, slows down, fails or loses power.
//!
//! [`Fault`] is one entry of a schedule, as it is written. [`Faults`] applies a schedule to the
//! completions of a drive: a plain state machine, so emulated drives run it on the wall clock and
//! simulated ones in virtual time.
//!
//! A fault may be a random process: it recurs after random times for random lengths, or slows each
//! request by a factor from a published distribution ([`Slowdowns`]). Drives with different seeds
//! draw independently of each other.

mod entry;
mod episodes;
mod slowdowns;

pub use episodes::SecondsRange;
pub use slowdowns::Slowdowns;

use std::ops::Range;

use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64;
use serde::{Deserialize, Serialize};
use trimtab_io::{Nanos, Op, derived_seed, mix64};

use entry::FaultEntry;
use episodes::Episodes;

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
    /// Of a range one is drawn from it for each episode.
    pub for_s: SecondsRange,
    /// It recurs: time from the start of an episode to that of the next, in seconds. The first begins
    /// at `at_s` if this is a number, and a random part of a drawn time later if it is a range.
    pub every_s: Option<SecondsRange>,
}

/// The effect of a fault.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "a drive has few faults; they are values to copy")]
pub enum Effect {
    /// No request is answered until it ends.
    Stall,
    /// Latencies are multiplied.
    Slow {
        /// At least 1.
        factor: f64,
    },
    /// Latencies are multiplied by factors drawn at random.
    SlowAtRandom {
        /// The distribution of the factors.
        slowdowns: Slowdowns,
        /// A factor is drawn for each period of this length, in seconds, and applies to all requests
        /// that would complete in it; 0: one for each request.
        redraw_s: f64,
    },
    /// Requests fail with `EIO`, after their usual latency.
    Error {
        /// Which requests.
        ops: FaultOps,
        /// The share of those that fails, 0 to 1, drawn at random.
        share: f64,
    },
    /// A part of the medium cannot be read: reads of it fail with `EIO`, after their usual latency,
    /// until it has been written again or discarded, as a drive's bad sector is until the drive puts
    /// a new one in its place.
    Media {
        /// First byte on the drive.
        offset: u64,
        /// Bytes.
        bytes: u64,
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

impl Fault {
    /// A fault that begins once, after `at_s` seconds, and lasts for `for_s`.
    #[must_use]
    pub fn once(effect: Effect, at_s: f64, for_s: f64) -> Self {
        Self { effect, at_s, for_s: for_s.into(), every_s: None }
    }

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
        let ends = self.effect == Effect::Stall || self.every_s.is_some();
        if ends || self.for_s != f64::INFINITY.into() {
            within("for_s", self.for_s.least, 1e-6, 1e7)?;
            within("for_s", self.for_s.most, self.for_s.least, 1e7)?;
        }
        if let Some(every) = self.every_s {
            within("every_s", every.least, self.for_s.most.max(1e-3), 1e7)?;
            within("every_s", every.most, every.least, 1e7)?;
        }
        match self.effect {
            Effect::Stall | Effect::PowerCut { .. } => Ok(()),
            Effect::Slow { factor } => within("factor", factor, 1.0, 1e6),
            Effect::SlowAtRandom { redraw_s: 0.0, .. } => Ok(()),
            Effect::SlowAtRandom { redraw_s, .. } => within("redraw_s", redraw_s, 1e-3, 1e7),
            Effect::Error { share, .. } => within("share", share, 0.0, 1.0),
            Effect::Media { bytes, .. } => within("bytes", bytes as f64, 1.0, 1e18),
        }
    }

    /// Checks the parameters for a drive of `capacity` bytes.
    ///
    /// # Errors
    /// As [`check`](Self::check), or the fault is beyond the drive's end.
    pub fn check_on(&self, capacity: u64) -> Result<(), FaultError> {
        self.check()?;
        match self.effect {
            Effect::Media { offset, bytes } if offset.saturating_add(bytes) > capacity => {
                Err(FaultError(format!(
                    "a fault's {bytes} bytes from offset {offset} on extend beyond the drive's end, at \
                     {capacity}"
                )))
            }
            _ => Ok(()),
        }
    }
}

/// The faults of one drive.
#[derive(Clone, Debug)]
pub struct Faults {
    all: Vec<Timed>,
    seed: u64,
    /// Faults added so far.
    added: u64,
    random: Pcg64,
    /// Time of the last power cut: requests that had arrived by then fail.
    lost: Option<Nanos>,
}

#[derive(Clone, Debug)]
struct Timed {
    effect: Effect,
    from: Nanos,
    /// Without its recurrences.
    until: Nanos,
    episodes: Option<Episodes>,
    /// Of what the fault draws.
    seed: u64,
    /// Requests that it has been asked about.
    drawn: u64,
    /// For a power cut: it has been executed.
    taken: bool,
    /// Of a [medium](Effect::Media), what still cannot be read.
    unreadable: Vec<Range<u64>>,
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
    fn is_on(&mut self, at: Nanos) -> bool {
        self.ends(at).is_some()
    }

    /// When it ends, if it is on at this time.
    fn ends(&mut self, at: Nanos) -> Option<Nanos> {
        match &mut self.episodes {
            Some(episodes) => episodes.ends(at),
            None => (self.from..self.until).contains(&at).then_some(self.until),
        }
    }

    /// The factor by which it slows down a request that would complete then.
    fn factor(&mut self, complete: Nanos) -> Option<f64> {
        match self.effect {
            Effect::Slow { factor } => self.is_on(complete).then_some(factor),
            Effect::SlowAtRandom { slowdowns, redraw_s } => {
                if !self.is_on(complete) {
                    return None;
                }
                let period = Nanos::from_secs_f64(redraw_s).0;
                let number = complete.since(self.from).0.checked_div(period).unwrap_or_else(|| {
                    self.drawn += 1;
                    self.drawn
                });
                let random = mix64(derived_seed(self.seed, number));
                Some(slowdowns.at(unit(random)))
            }
            _ => None,
        }
    }

    /// What is written can be read from now on.
    fn write(&mut self, range: &Range<u64>) {
        let rests = |bad: Range<u64>| {
            [bad.start..bad.end.min(range.start), bad.start.max(range.end)..bad.end]
        };
        let left = std::mem::take(&mut self.unreadable).into_iter().flat_map(rests);
        self.unreadable = left.filter(|rest| !rest.is_empty()).collect();
    }

    const fn is_power_cut(&self) -> bool {
        matches!(self.effect, Effect::PowerCut { .. })
    }
}

/// Seconds after which nothing recurs: 300 years.
const NEVER: f64 = 1e10;

/// Uniform in [0, 1).
fn unit(random: u64) -> f64 {
    (random >> 11) as f64 / (1_u64 << 53) as f64
}

impl Faults {
    /// No faults yet. The seed decides all that is random: which requests an [`Effect::Error`] hits,
    /// when a fault recurs, and how much it slows down a request.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { all: Vec::new(), seed, added: 0, random: Pcg64::seed_from_u64(seed), lost: None }
    }

    /// Adds a fault whose times count from `now`.
    pub fn add(&mut self, fault: &Fault, now: Nanos) {
        // A short power cut may be over before it was executed; it is executed nevertheless.
        self.all.retain(|timed| now < timed.until || timed.is_power_cut() && !timed.taken);
        self.added += 1;
        let seed = derived_seed(self.seed, self.added);
        let from = now + Nanos::from_secs_f64(fault.at_s);
        let Fault { effect, for_s, every_s, .. } = *fault;
        // A single episode of random length is the first of many.
        let recurs = every_s.or_else(|| (for_s.least < for_s.most).then_some(NEVER.into()));
        let episodes = recurs.map(|every| Episodes::new(from, every, for_s, seed));
        let until = match episodes {
            Some(_) => Nanos::MAX,
            None => Nanos(from.0.saturating_add(Nanos::from_secs_f64(for_s.most).0)),
        };
        let unreadable = match effect {
            Effect::Media { offset, bytes } => Some(offset..offset.saturating_add(bytes)),
            _ => None,
        };
        let unreadable = unreadable.into_iter().collect();
        let (drawn, taken) = (0, false);
        self.all.push(Timed { effect, from, until, episodes, seed, drawn, taken, unreadable });
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
            step.is_on &= !(timed.from..timed.until).contains(&now);
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
    /// To be called once for each request, since a fault may draw a factor for it.
    pub fn answer_at(&mut self, arrival: Nanos, complete: Nanos) -> Nanos {
        if self.all.is_empty() {
            return complete;
        }
        if self.is_lost(arrival) {
            return complete;
        }
        let mut at = complete;
        for timed in &mut self.all {
            if let Some(factor) = timed.factor(complete) {
                let took = complete.since(arrival).0 as f64 * factor;
                at = at.max(arrival + Nanos(took as u64));
            }
        }
        // A stall may end inside another one.
        let is_stall = |timed: &&mut Timed| timed.effect == Effect::Stall;
        while let Some(until) =
            self.all.iter_mut().filter(is_stall).find_map(|stall| stall.ends(at))
        {
            at = until;
        }
        at
    }

    /// Whether a power cut hit a request that arrived then while it was in flight.
    fn is_lost(&self, arrival: Nanos) -> bool {
        self.lost.is_some_and(|lost| arrival <= lost)
    }

    /// Whether a request for these bytes that arrived then and is answered now fails. To be called once
    /// for each request: what one has written can be read from then on.
    pub fn fails(&mut self, op: Op, range: Range<u64>, arrival: Nanos, now: Nanos) -> bool {
        if self.is_lost(arrival) {
            return true;
        }
        let Self { all, random, .. } = self;
        let fails = all.iter_mut().any(|timed| match timed.effect {
            Effect::Error { ops, share } => {
                let meant = match ops {
                    FaultOps::Reads => op == Op::Read,
                    FaultOps::Writes => op == Op::Write,
                    FaultOps::All => true,
                };
                meant && timed.is_on(now) && random.random_bool(share)
            }
            Effect::Media { .. } => {
                let touches = |bad: &Range<u64>| bad.start < range.end && range.start < bad.end;
                op == Op::Read && timed.unreadable.iter().any(touches) && timed.is_on(now)
            }
            // While the power is off, the store refuses requests.
            Effect::Stall
            | Effect::Slow { .. }
            | Effect::SlowAtRandom { .. }
            | Effect::PowerCut { .. } => false,
        });
        if !fails && matches!(op, Op::Write | Op::Discard) {
            let begun = all.iter_mut().filter(|timed| timed.from <= now);
            begun.for_each(|timed| timed.write(&range));
        }
        fails
    }

    /// The active faults, in words.
    #[must_use]
    pub fn active(&self, now: Nanos) -> Vec<String> {
        // Episodes are drawn as time goes on: here in a copy.
        let on = self.all.iter().cloned().filter_map(|mut timed| {
            let until = timed.ends(now)?;
            let is_over =
                matches!(timed.effect, Effect::Media { .. }) && timed.unreadable.is_empty();
            (!is_over).then_some((timed, until))
        });
        on.map(|(timed, until)| {
            let left = match until {
                Nanos::MAX => "until faults are cleared".to_owned(),
                until => format!("{} left", until.since(now)),
            };
            match timed.effect {
                Effect::Stall => format!("stall, {left}"),
                Effect::PowerCut { .. } => format!("power off, {left}"),
                Effect::Slow { factor } => format!("slow by {factor}, {left}"),
                Effect::SlowAtRandom { .. } => format!("slow by random factors, {left}"),
                Effect::Media { .. } => {
                    let bytes: u64 = timed.unreadable.iter().map(|bad| bad.end - bad.start).sum();
                    let first = timed.unreadable.iter().map(|bad| bad.start).min();
                    let first = first.unwrap_or_default();
                    format!("{bytes} bytes from offset {first} on unreadable until written")
                }
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
mod tests;
