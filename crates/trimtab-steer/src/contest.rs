//! A contest of two alternatives, decided by what pairs of reads show.

/// What must be lost to lose a contest, and gained to win it again. The unit of each difference is the
/// root mean square of those before it.
pub(crate) const LOSS: f64 = 9.0;
const GAIN: f64 = 3.0;
/// What the sum of squared differences keeps with each pair, and the pairs of the longest
/// difference that are assumed before any is known.
const SQUARES_KEPT: f64 = 0.99;
const ASSUMED_LONG: f64 = 3.0;
/// Contests that are lost need so many pairs to be won again.
const LEAST_PAIRS: u32 = 2;
/// A contest is settled if so many pairs have not changed it, and what they gained or lost since is
/// at most so much, in the same unit.
const SETTLED: u32 = 16;
const UNSETTLED: f64 = 2.0;
/// One read in so many is explored while a contest is lost: half as often after each
/// [`EXPLORATION`] reads without a gain, twice as often after a surprising
/// read.
pub(crate) const EXPLORED: u64 = 16;
const EXPLORED_MOST: u64 = 4;
const EXPLORED_LEAST: u64 = 1024;
const EXPLORATION: u64 = 128;

/// Whether the first alternative of a question gains anything over the second: a cumulative sum
/// test in either direction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Contest {
    /// It does, as far as is known: the first alternative is followed.
    pub(crate) holds: bool,
    /// Sum of the differences, less its highest so far while the contest holds (so never above
    /// zero), or less its lowest (never below). In nanoseconds what a stall cost would lose the contest
    /// when stalls are over and the unit has become short, though nothing more is lost.
    sum: f64,
    /// The same in nanoseconds while the contest holds, and the longest difference that counted since it
    /// was zero: it is lost at [`LOSS`] times that at the latest, in whatever order gains and losses come.
    fallen: f64,
    longest: f64,
    /// Pairs since the contest was lost.
    pairs: u32,
    /// Pairs since it was lost or won.
    unchanged: u32,
    /// One read in so many is explored while it is lost, and how often it was lost before.
    pub(crate) explored: u64,
    lost: u32,
    /// Decaying sums of squared differences and of their number.
    squares: f64,
    weight: f64,
}

impl Contest {
    /// It holds without evidence: training has seen a gain in its recording.
    pub(crate) const NEW: Self = Self {
        holds: true,
        sum: 0.0,
        fallen: 0.0,
        longest: 0.0,
        pairs: 0,
        unchanged: 0,
        explored: EXPLORED,
        lost: 0,
        squares: 0.0,
        weight: 0.0,
    };

    /// Whether more pairs are not expected to change it soon.
    pub(crate) fn is_settled(&self) -> bool {
        self.unchanged >= SETTLED && self.sum.abs() <= UNSETTLED
    }

    /// Takes the difference of a pair, ns; one of `longest` is as long as they come.
    pub(crate) fn record(&mut self, gain: f64, longest: f64) {
        self.unchanged = self.unchanged.saturating_add(1);
        // Where differences are mostly short, less is lost before it is certain. The pair's own is not in it:
        // else a rare long one would count less than many short ones that come to as much.
        let squares = self.squares + ASSUMED_LONG * longest * longest;
        let unit = (squares / (self.weight + ASSUMED_LONG)).sqrt().min(longest);
        self.squares = SQUARES_KEPT * self.squares + gain * gain;
        self.weight = SQUARES_KEPT * self.weight + 1.0;
        if unit > 0.0 {
            self.sum += gain / unit;
        }
        if self.holds {
            self.sum = self.sum.min(0.0);
            self.longest = if self.fallen < 0.0 { self.longest.max(longest) } else { longest };
            self.fallen = (self.fallen + gain).min(0.0);
            if self.sum < -LOSS || self.fallen < -LOSS * self.longest {
                let explored = (EXPLORED << self.lost.min(6)).min(EXPLORED_LEAST);
                *self = Self {
                    holds: false,
                    sum: 0.0,
                    fallen: 0.0,
                    pairs: 0,
                    explored,
                    lost: self.lost + 1,
                    unchanged: 0,
                    ..*self
                };
            }
        } else {
            self.sum = self.sum.max(0.0);
            self.pairs += 1;
            if self.sum > GAIN * f64::from(1 << self.lost.min(10)) && self.pairs >= LEAST_PAIRS {
                *self = Self { holds: true, sum: 0.0, unchanged: 0, ..*self };
            } else if u64::from(self.pairs).is_multiple_of(EXPLORATION) {
                self.explored = (2 * self.explored).min(EXPLORED_LEAST);
            }
        }
    }

    /// A read took surprisingly long.
    pub(crate) fn surprise(&mut self) {
        if !self.holds {
            self.explored = (self.explored / 2).max(EXPLORED_MOST);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Long gains that are rare outweigh short losses that come to less, and to no more.
    #[test]
    fn rare_gains_count_as_much_as_frequent_losses() {
        for (gain, holds) in [(1.5e6, true), (0.5e6, false)] {
            let mut contest = Contest::NEW;
            for pair in 1..=10_000 {
                contest.record(if pair % 50 == 0 { gain } else { -2e4 }, 2e6);
            }
            assert_eq!(contest.lost == 0, holds, "{gain}: {contest:?}");
        }
    }

    /// What a stall cost does not lose the contest later, when differences have become short.
    #[test]
    fn no_contest_is_lost_without_a_loss() {
        let mut contest = Contest::NEW;
        (0..7).for_each(|_| contest.record(-1e7, 1e7));
        let mut longest = 1e7_f64;
        for pair in 0..1_000 {
            assert!(contest.holds, "after {pair} pairs that lose nothing");
            longest = (0.98 * longest).max(1e4);
            contest.record(if pair % 2 == 0 { 1e3 } else { -1e3 }, longest);
        }
        // But soon when more is lost.
        let lost = (1..100).find(|_| {
            contest.record(-5e3, longest);
            !contest.holds
        });
        assert!(lost.is_some_and(|pairs| pairs < 10), "{lost:?}");
    }

    /// Losses count little where the unit is long, and gains count much where it is short: what is lost in
    /// time bounds it.
    #[test]
    fn no_order_of_gains_and_losses_hides_a_loss() {
        let mut contest = Contest::NEW;
        let mut fallen = 0.0;
        for pair in 1..100_000 {
            let (gain, longest) = if pair % 500 == 0 { (-1e7, 1e7) } else { (1e3, 1e4) };
            contest.record(gain, longest);
            fallen += gain;
            if !contest.holds {
                break;
            }
        }
        assert!(!contest.holds && fallen > -(LOSS + 1.0) * 1e7, "{fallen}: {contest:?}");
    }
}
