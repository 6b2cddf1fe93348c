//! The questions that control pairs answer.

use crate::contest::Prior;

/// A replica ranks far behind if another is said to be sooner by more than so many usual reads, so many
/// times what the forecasts take, and such a share of the mean latency. The mean matters where most reads are
/// served from memory; it grows in a stall, so that all of it is too much.
const FAR: f64 = 4.0;
const FAR_OF_MEAN: f64 = 0.25;

/// What pairs decide: the first alternative is followed while its contest is not lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Question {
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
pub(crate) const QUESTIONS: usize = 5;

impl Question {
    pub(crate) const ALL: [Self; QUESTIONS] =
        [Self::Refused, Self::FarBehind, Self::Ranked, Self::Queue, Self::Forecast];
    /// To leave the primary because of a forecast.
    pub(crate) const MOVES: [Self; 3] = [Self::Refused, Self::FarBehind, Self::Ranked];

    /// What is believed before pairs tell. What is said to gain much is trusted: in a stall there
    /// is no time to wait for proof. What is said to gain little may as well lose.
    pub(crate) const fn prior(self) -> Prior {
        match self {
            Self::Refused | Self::FarBehind => Prior::Trusted,
            Self::Ranked | Self::Queue => Prior::Doubted,
            Self::Forecast => Prior::Sums,
        }
    }

    /// The question of a move that is said to gain so much, ns, from a replica whose reads take `typical`
    /// in the median, where reads take `mean` and the forecasts of all replicas `inference`, ns.
    pub(crate) fn of_gain(gain: f64, typical: f64, mean: f64, inference: f64) -> Self {
        let far = (FAR * typical).max(FAR_OF_MEAN * mean).max(FAR * inference);
        if gain > far { Self::FarBehind } else { Self::Ranked }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gain_is_large_by_every_measure() {
        let of_gain = |gain| Question::of_gain(gain, 100.0, 4_000.0, 50.0);
        assert_eq!(of_gain(1_001.0), Question::FarBehind);
        assert_eq!(of_gain(999.0), Question::Ranked, "not much of a mean read");
        assert_eq!(Question::of_gain(399.0, 100.0, 10.0, 50.0), Question::Ranked);
        assert_eq!(Question::of_gain(399.0, 10.0, 10.0, 100.0), Question::Ranked);
    }
}
