//! A contest of two alternatives, decided by what pairs of reads show.
//!
//! Two rules decide. A cumulative sum test bounds what may be lost, in whatever order gains and losses
//! come; for that it must be patient, because rare long gains may outweigh frequent short losses. So
//! alternatives that are to gain something over doing nothing are judged by the mean difference as
//! well: they must show a gain ([`Prior::Doubted`]), or must not show a loss ([`Prior::Trusted`],
//! [`Prior::Firm`]).

use crate::evidence::Evidence;

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
const EXPLORATION: u32 = 128;

/// The mean difference in standard errors from which on a gain is shown, and what a loss must be to
/// count before the end of the trial.
const SHOWN: f64 = 1.0;
const SOON_LOST: f64 = -2.0;
/// So many pairs show something, and so many are a trial of what is trusted; they decay, so that it takes
/// one or two more.
const LEAST_SHOWN: f64 = 3.5;
const TRIAL: f64 = 15.5;
/// What is firmly believed is lost by a mean so many standard errors below zero.
const LOST_BY_FIRM: f64 = -1.0;
/// What is doubted is given up by a loss in so many standard errors after so many pairs, or after so
/// many that show nothing.
const GIVEN_UP: f64 = -1.0;
const LEAST_GIVEN_UP: f64 = 7.5;
const LONGEST_TRIAL: u32 = 64;
/// The pairs after which fewer reads are explored in a trial.
const TRIAL_EXPLORATION: u32 = 8;

/// What is believed of the first alternative before any pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prior {
    /// It holds, and only sums decide.
    Sums,
    /// It holds, and is lost by a loss that a trial has shown.
    Firm,
    /// It holds, and is lost by a mean below zero after a trial, or before by a certain loss.
    Trusted,
    /// It holds once pairs have shown a gain, and while the mean is above zero.
    Doubted,
}

/// Whether the first alternative of a question gains anything over the second: a cumulative sum
/// test in either direction, and the mean.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Contest {
    /// It does, as far as is known: the first alternative is followed.
    pub(crate) holds: bool,
    prior: Prior,
    /// The trial is not over: all reads on which the alternatives differ are to be pairs, those of what is
    /// doubted some reads apart.
    pub(crate) on_trial: bool,
    /// The differences, with what does not count as a loss.
    evidence: Evidence,
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
    /// A contest of which this is believed.
    pub(crate) const fn new(prior: Prior) -> Self {
        let on_trial = !matches!(prior, Prior::Sums);
        Self {
            holds: !matches!(prior, Prior::Doubted),
            prior,
            on_trial,
            evidence: Evidence::NONE,
            sum: 0.0,
            fallen: 0.0,
            longest: 0.0,
            pairs: 0,
            unchanged: 0,
            explored: if on_trial { 1 } else { EXPLORED },
            lost: 0,
            squares: 0.0,
            weight: 0.0,
        }
    }

    /// Whether more pairs are not expected to change it soon.
    pub(crate) fn is_settled(&self) -> bool {
        self.unchanged >= SETTLED && self.sum.abs() <= UNSETTLED
    }

    /// Takes the difference of a pair, ns; one of `longest` is as long as they come, and a mean loss of
    /// `slack` does not matter.
    pub(crate) fn record(&mut self, gain: f64, longest: f64, slack: f64) {
        self.unchanged = self.unchanged.saturating_add(1);
        self.evidence.record(gain + slack);
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
            let by_sums = self.sum < -LOSS || self.fallen < -LOSS * self.longest;
            if by_sums || self.is_lost_by_mean() {
                let explored = (EXPLORED << self.lost.min(6)).min(EXPLORED_LEAST);
                *self = Self {
                    holds: false,
                    on_trial: false,
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
            let many = if self.explored < EXPLORED { TRIAL_EXPLORATION } else { EXPLORATION };
            if self.is_shown() {
                *self = Self { holds: true, on_trial: false, sum: 0.0, unchanged: 0, ..*self };
            } else if self.is_won_by_sum() {
                // Times have changed: what was before says nothing of them.
                let evidence = Evidence::NONE;
                *self = Self { holds: true, evidence, sum: 0.0, unchanged: 0, ..*self };
            } else if self.pairs.is_multiple_of(many) {
                self.explored = (2 * self.explored).min(EXPLORED_LEAST);
            }
        }
        self.end_trial();
    }

    /// Whether the mean says that the first alternative loses.
    fn is_lost_by_mean(&self) -> bool {
        let (pairs, mean) = (self.evidence.pairs(), self.evidence.mean_in_errors());
        match self.prior {
            Prior::Sums => false,
            Prior::Firm => pairs > TRIAL && mean < LOST_BY_FIRM,
            Prior::Trusted => {
                pairs > TRIAL && mean < 0.0 || pairs > LEAST_SHOWN && mean < SOON_LOST
            }
            Prior::Doubted => mean < 0.0,
        }
    }

    /// Whether the mean says that the first alternative gains.
    fn is_shown(&self) -> bool {
        self.prior != Prior::Sums
            && self.pairs >= LEAST_PAIRS
            && self.evidence.pairs() > LEAST_SHOWN
            && self.evidence.mean_in_errors() > SHOWN
    }

    /// Whether it has gained since it was lost, ever more for each time that it was.
    fn is_won_by_sum(&self) -> bool {
        let gain = GAIN * f64::from(1 << self.lost.min(10));
        !self.on_trial && self.pairs >= LEAST_PAIRS && self.sum > gain
    }

    /// Ends the trial if it has lasted long enough.
    fn end_trial(&mut self) {
        let (pairs, mean) = (self.evidence.pairs(), self.evidence.mean_in_errors());
        let is_over = if self.holds {
            pairs > TRIAL
        } else {
            pairs > LEAST_GIVEN_UP && mean < GIVEN_UP || self.pairs >= LONGEST_TRIAL
        };
        if self.on_trial && is_over {
            self.on_trial = false;
            self.explored = self.explored.max(EXPLORED);
        }
    }

    /// A read took surprisingly long.
    pub(crate) fn surprise(&mut self) {
        if !self.holds {
            self.explored = (self.explored / 2).max(EXPLORED_MOST.min(self.explored));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_surprise_is_no_reason_to_explore_less() {
        for prior in [Prior::Doubted, Prior::Sums] {
            let mut contest = Contest { holds: false, ..Contest::new(prior) };
            let before = contest.explored;
            contest.surprise();
            assert!(contest.explored <= before, "{contest:?}");
        }
    }

    /// Long gains that are rare outweigh short losses that come to less, and to no more.
    #[test]
    fn rare_gains_count_as_much_as_frequent_losses() {
        for (gain, holds) in [(1.5e6, true), (0.5e6, false)] {
            let mut contest = Contest::new(Prior::Sums);
            for pair in 1..=10_000 {
                contest.record(if pair % 50 == 0 { gain } else { -2e4 }, 2e6, 0.0);
            }
            assert_eq!(contest.lost == 0, holds, "{gain}: {contest:?}");
        }
    }

    /// What a stall cost does not lose the contest later, when differences have become short.
    #[test]
    fn no_contest_is_lost_without_a_loss() {
        let mut contest = Contest::new(Prior::Sums);
        (0..7).for_each(|_| contest.record(-1e7, 1e7, 0.0));
        let mut longest = 1e7_f64;
        for pair in 0..1_000 {
            assert!(contest.holds, "after {pair} pairs that lose nothing");
            longest = (0.98 * longest).max(1e4);
            contest.record(if pair % 2 == 0 { 1e3 } else { -1e3 }, longest, 0.0);
        }
        // But soon when more is lost.
        let lost = (1..100).find(|_| {
            contest.record(-5e3, longest, 0.0);
            !contest.holds
        });
        assert!(lost.is_some_and(|pairs| pairs < 10), "{lost:?}");
    }

    /// Losses count little where the unit is long, and gains count much where it is short: what is lost in
    /// time bounds it.
    #[test]
    fn no_order_of_gains_and_losses_hides_a_loss() {
        let mut contest = Contest::new(Prior::Sums);
        let mut fallen = 0.0;
        for pair in 1..100_000 {
            let (gain, longest) = if pair % 500 == 0 { (-1e7, 1e7) } else { (1e3, 1e4) };
            contest.record(gain, longest, 0.0);
            fallen += gain;
            if !contest.holds {
                break;
            }
        }
        assert!(!contest.holds && fallen > -(LOSS + 1.0) * 1e7, "{fallen}: {contest:?}");
    }

    /// Pairs that gain so much each, and now and then as much more or less.
    fn record(contest: &mut Contest, pairs: u32, gain: f64, slack: f64) {
        for pair in 0..pairs {
            let more = [1e5, -1e5, 3e5, -3e5][pair as usize % 4];
            contest.record(gain + more, 1e7, slack);
        }
    }

    #[test]
    fn what_is_doubted_is_followed_only_while_it_gains() {
        let mut contest = Contest::new(Prior::Doubted);
        assert!(!contest.holds && contest.on_trial && contest.explored == 1);
        record(&mut contest, 8, 2e5, 0.0);
        assert!(contest.holds && !contest.on_trial);
        record(&mut contest, 200, -5e4, 0.0);
        assert!(!contest.holds && contest.explored >= EXPLORED, "{contest:?}");

        let mut contest = Contest::new(Prior::Doubted);
        record(&mut contest, 16, -2e5, 0.0);
        assert!(!contest.holds && !contest.on_trial && contest.explored == EXPLORED);
    }

    #[test]
    fn what_is_trusted_is_followed_until_it_loses() {
        let mut contest = Contest::new(Prior::Trusted);
        assert!(contest.holds && contest.on_trial);
        record(&mut contest, 12, -5e4, 0.0);
        assert!(contest.holds, "the trial is not over");
        record(&mut contest, 8, -5e4, 0.0);
        assert!(!contest.holds && !contest.on_trial, "{contest:?}");

        let mut contest = Contest::new(Prior::Trusted);
        record(&mut contest, 30, -5e4, 6e4);
        assert!(contest.holds, "the mean loss does not matter");

        let mut contest = Contest::new(Prior::Trusted);
        (0..4).for_each(|_| contest.record(-1e6, 1e7, 0.0));
        assert!(!contest.holds, "four large losses need no trial");
    }

    /// A few losses are chance where gains are large and rare.
    #[test]
    fn what_is_firmly_believed_is_lost_by_a_shown_loss_only() {
        for (gain, holds) in [(-1e4, true), (-2e5, false)] {
            let mut contest = Contest::new(Prior::Firm);
            (0..4).for_each(|_| contest.record(-1e5, 1e7, 0.0));
            assert!(contest.holds, "the trial is not over");
            contest.record(4e5, 1e7, 0.0);
            record(&mut contest, 16, gain, 0.0);
            assert_eq!(contest.holds, holds, "{gain}: {contest:?}");
        }
    }

    /// After long losses the mean is below zero for long; what gains again is followed before.
    #[test]
    fn other_times_are_noticed() {
        let mut contest = Contest::new(Prior::Trusted);
        record(&mut contest, 500, -1e6, 0.0);
        assert!(!contest.holds);
        let won = (1..100).find(|_| {
            record(&mut contest, 1, 1e6, 0.0);
            contest.holds
        });
        assert!(won.is_some_and(|pairs| pairs < 30), "{won:?}");
        record(&mut contest, 12, 1e6, 0.0);
        assert!(contest.holds, "{contest:?}");
    }
}
