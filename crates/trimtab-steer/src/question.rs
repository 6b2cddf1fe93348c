//! The questions that control pairs answer.

use trimtab_io::Nanos;

use crate::contest::Prior;

/// A replica ranks far behind if another is said to be sooner by more than so many usual reads, so many
/// times what the forecasts take, and such a share of the mean latency. The mean matters where most reads are
/// served from memory; it grows in a stall, so that all of it is too much.
const FAR: f64 = 4.0;
const FAR_OF_MEAN: f64 = 0.25;
/// A replica is stalled if another is said to be sooner by so many times what is far by the fastest replica's
/// measure. Where many replicas are slow at times, what is usual, and the mean, are their stalls, and nothing
/// else is far any more. The mean counts as at most so many times the wait that is left there.
const STALLED: f64 = 16.0;
const MEAN_OF_WAIT: f64 = 16.0;

/// What pairs decide: the first alternative is followed while its contest is not lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Question {
    /// To leave a primary that ranks further behind than anything but a stall explains, or to stay.
    Stalled,
    /// To leave a primary that is refused, or to stay.
    Refused,
    /// To leave a primary that ranks far behind another replica, or to stay.
    FarBehind,
    /// To leave a primary that ranks behind another replica by less, or to stay.
    Ranked,
    /// To go where the queue is shortest, or to stay.
    Queue,
    /// To go where the forecast says, or where the queue is shortest.
    Forecast,
}

/// The number of questions.
pub(crate) const QUESTIONS: usize = 6;

impl Question {
    pub(crate) const ALL: [Self; QUESTIONS] =
        [Self::Stalled, Self::Refused, Self::FarBehind, Self::Ranked, Self::Queue, Self::Forecast];
    /// To leave the primary because of a forecast.
    pub(crate) const MOVES: [Self; 4] =
        [Self::Stalled, Self::Refused, Self::FarBehind, Self::Ranked];

    /// What is believed before pairs tell. What is said to gain much is trusted: in a stall there
    /// is no time to wait for proof. What is said to gain little may as well lose.
    pub(crate) const fn prior(self) -> Prior {
        match self {
            Self::Stalled => Prior::Firm,
            Self::Refused | Self::FarBehind => Prior::Trusted,
            Self::Ranked | Self::Queue => Prior::Doubted,
            Self::Forecast => Prior::Sums,
        }
    }

    /// Whether a question decides what may be lost much by, and needs its pairs first.
    pub(crate) const fn is_urgent(self) -> bool {
        matches!(self, Self::Stalled | Self::Refused | Self::FarBehind)
    }
}

/// A move to another replica, as its forecast has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Move {
    /// The primary is refused.
    pub(crate) is_refused: bool,
    /// By how much the read would be sooner, and what it would still wait, ns.
    pub(crate) gain: f64,
    pub(crate) wait: f64,
    /// The median latencies of the primary and of the other replica, and the array's usual one, ns.
    pub(crate) primary: Nanos,
    pub(crate) other: Nanos,
    pub(crate) usual: Nanos,
    /// The mean latency and the cost of the forecasts of all replicas, ns.
    pub(crate) mean: f64,
    pub(crate) inference: f64,
}

impl Move {
    /// The question that decides on it.
    pub(crate) fn question(&self) -> Question {
        let least = self.primary.min(self.other);
        let least_mean = self.mean.min(MEAN_OF_WAIT * self.wait);
        if self.gain > STALLED * self.far(least, least_mean) {
            Question::Stalled
        } else if self.is_refused {
            Question::Refused
        } else if self.gain > self.far(self.primary.min(self.usual), self.mean) {
            Question::FarBehind
        } else {
            Question::Ranked
        }
    }

    /// From which gain on a replica is far behind, ns, where reads take so long in the median and in the mean.
    fn far(&self, typical: Nanos, mean: f64) -> f64 {
        (FAR * typical.0 as f64).max(FAR_OF_MEAN * mean).max(FAR * self.inference)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOVE: Move = Move {
        is_refused: false,
        gain: 0.0,
        wait: 1_000.0,
        primary: Nanos(100),
        other: Nanos(100),
        usual: Nanos(100),
        mean: 100.0,
        inference: 50.0,
    };

    #[test]
    fn a_gain_is_large_by_every_measure() {
        let question = |gain, it: Move| Move { gain, ..it }.question();
        let mean = Move { mean: 4_000.0, ..MOVE };
        assert_eq!(question(1_001.0, mean), Question::FarBehind);
        assert_eq!(question(999.0, mean), Question::Ranked, "not much of a mean read");
        assert_eq!(question(399.0, MOVE), Question::Ranked);
        assert_eq!(question(401.0, MOVE), Question::FarBehind);
        assert_eq!(question(399.0, Move { inference: 100.0, ..MOVE }), Question::Ranked);
        assert_eq!(question(399.0, Move { is_refused: true, ..MOVE }), Question::Refused);
    }

    /// Its own reads take long, as those of others do at times: the fastest one tells.
    #[test]
    fn a_stall_is_one_however_long_it_lasts() {
        let stalled = Move {
            gain: 1e7,
            primary: Nanos(20_000_000),
            usual: Nanos(5_000_000),
            mean: 30e6,
            ..MOVE
        };
        assert_eq!(stalled.question(), Question::Stalled);
        assert_eq!(Move { is_refused: true, ..stalled }.question(), Question::Stalled);
        let slow = Move { other: Nanos(10_000_000), ..stalled };
        assert_eq!(slow.question(), Question::Ranked, "reads take as long there");
    }
}
