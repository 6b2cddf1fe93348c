//! Faults that come again and again.

use std::collections::VecDeque;

use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64;
use serde::{Deserialize, Serialize};
use trimtab_io::Nanos;

/// A time in seconds, or the range that one is drawn from, uniformly: written as a number or as
/// `[least, most]`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "NumberOrRange", into = "NumberOrRange")]
pub struct SecondsRange {
    /// The shortest.
    pub least: f64,
    /// The longest.
    pub most: f64,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected seconds, or [least, most]")]
enum NumberOrRange {
    Number(f64),
    Range([f64; 2]),
}

impl From<NumberOrRange> for SecondsRange {
    fn from(written: NumberOrRange) -> Self {
        match written {
            NumberOrRange::Number(seconds) => seconds.into(),
            NumberOrRange::Range([least, most]) => Self { least, most },
        }
    }
}

impl From<SecondsRange> for NumberOrRange {
    fn from(SecondsRange { least, most }: SecondsRange) -> Self {
        if least == most { Self::Number(least) } else { Self::Range([least, most]) }
    }
}

impl From<f64> for SecondsRange {
    fn from(seconds: f64) -> Self {
        Self { least: seconds, most: seconds }
    }
}

impl SecondsRange {
    fn draw(self, random: &mut Pcg64) -> Nanos {
        let seconds = match self.least < self.most {
            true => random.random_range(self.least..self.most),
            false => self.least,
        };
        Nanos::from_secs_f64(seconds)
    }
}

/// The most episodes that are remembered. Completions are asked about nearly in the order of time,
/// so fewer would do.
const REMEMBERED: usize = 64;

/// The episodes of a recurring fault, drawn as time goes on.
#[derive(Clone, Debug)]
pub(super) struct Episodes {
    every: SecondsRange,
    lasts: SecondsRange,
    random: Pcg64,
    /// Start and end of the last ones, in order.
    known: VecDeque<(Nanos, Nanos)>,
    next: Nanos,
}

impl Episodes {
    /// The first begins at `from` where the times between are fixed, and after a random part of the
    /// first of them where they are random: several drives are then not slow at once.
    pub(super) fn new(from: Nanos, every: SecondsRange, lasts: SecondsRange, seed: u64) -> Self {
        let mut random = Pcg64::seed_from_u64(seed);
        let first = match every.least < every.most {
            true => {
                let whole = every.draw(&mut random).0 as f64;
                Nanos((whole * random.random_range(0.0..1.0)) as u64)
            }
            false => Nanos::ZERO,
        };
        Self { every, lasts, random, known: VecDeque::new(), next: from + first }
    }

    /// The end of the episode at this time; none: it is between two.
    pub(super) fn ends(&mut self, at: Nanos) -> Option<Nanos> {
        while self.next <= at {
            let from = self.next;
            let until = from + self.lasts.draw(&mut self.random);
            self.next = from + self.every.draw(&mut self.random);
            if self.known.len() == REMEMBERED {
                self.known.pop_front();
            }
            self.known.push_back((from, until));
        }
        let mut latest_first = self.known.iter().rev();
        let &(_, until) = latest_first.find(|(from, _)| *from <= at)?;
        (at < until).then_some(until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;
    const HOURS: SecondsRange = SecondsRange { least: 7200.0, most: 10_800.0 };
    const MINUTES: SecondsRange = SecondsRange { least: 180.0, most: 360.0 };

    #[test]
    fn fixed_times_recur_exactly() {
        let mut episodes = Episodes::new(Nanos(3 * S), 10.0.into(), 2.0.into(), 1);
        let on: Vec<_> = (0..40).filter(|s| episodes.ends(Nanos(s * S)).is_some()).collect();
        assert_eq!(on, [3, 4, 13, 14, 23, 24, 33, 34]);
        assert_eq!(episodes.ends(Nanos(13 * S)), Some(Nanos(15 * S)), "and at earlier times");
    }

    #[test]
    fn random_times_are_in_their_ranges_and_differ_by_seed() {
        let starts = |seed| {
            let mut episodes = Episodes::new(Nanos::ZERO, HOURS, MINUTES, seed);
            let (mut starts, mut lengths, mut was) = (Vec::new(), Vec::new(), None);
            for second in 0..1_000_000 {
                let now = episodes.ends(Nanos(second * S));
                if let (None, Some(end)) = (was, now) {
                    starts.push(second);
                    lengths.push(end.0 / S - second);
                }
                was = now;
            }
            assert!(lengths.iter().all(|length| (179..=360).contains(length)), "{lengths:?}");
            let mut gaps = starts.windows(2).map(|two| two[1] - two[0]);
            assert!(gaps.all(|gap| (7199..=10_801).contains(&gap)), "{starts:?}");
            starts
        };
        let (one, other) = (starts(1), starts(2));
        assert!(one.len() > 90 && one[0] < 10_800 && one != other);
        assert_eq!(one, starts(1));
    }
}
