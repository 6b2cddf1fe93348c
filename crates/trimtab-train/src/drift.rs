//! How far has a drive moved from what its model was trained on?
//!
//! Where failing over begins to pay, the inflection point, is a percentile of the
//! drive's latencies. If it moves, what was learnt as slow is not what is slow now
//! (LinnOS, §4.4).

use std::fmt;

use serde::Serialize;
use trimtab_io::Nanos;

use crate::label::{inflection, percentile_of};
use crate::{Card, Error};

/// A move of so many percentiles asks for training (LinnOS, §4.4).
const FAR: f64 = 5.0;

/// Fewer reads than training takes say nothing of a percentile either.
const LEAST_READS: usize = 1000;

/// The seed of the inflection point's simulation: that of the training.
const SEED: u64 = 1;

/// What has become of the inflection point.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Moved {
    /// So many percentiles, down if negative.
    By(f64),
    /// There was none in training: failing over did not pay.
    Appeared,
    /// There is none any more.
    Vanished,
}

impl Moved {
    /// From a percentile to another.
    #[must_use]
    pub fn between(then: Option<f64>, now: Option<f64>) -> Self {
        match (then, now) {
            (Some(then), Some(now)) => Self::By(now - then),
            (None, None) => Self::By(0.0),
            (None, Some(_)) => Self::Appeared,
            (Some(_), None) => Self::Vanished,
        }
    }

    /// Whether the model should be trained again.
    #[must_use]
    pub fn is_far(self) -> bool {
        !matches!(self, Self::By(percentiles) if percentiles.abs() < FAR)
    }
}

impl fmt::Display for Moved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::By(percentiles) => write!(f, "moved by {:.1} percentiles", percentiles.abs()),
            Self::Appeared => f.write_str("has appeared"),
            Self::Vanished => f.write_str("has vanished"),
        }
    }
}

/// A drive's reads, compared with those of the training.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Where the inflection point was among the latencies trained on, percent.
    pub inflection_percentile_then: Option<f64>,
    /// Where it is now, percent.
    pub inflection_percentile_now: Option<f64>,
    /// Which latency that is now.
    pub inflection_now: Option<Nanos>,
    /// Where the model's threshold lies now, percent.
    pub threshold_percentile_now: f64,
}

impl Comparison {
    /// Compares latencies of reads with those that a model was trained on. `sorted`
    /// are the drive's own, `peers` those of the other drives, as they were given to
    /// the training; all ascending.
    ///
    /// # Errors
    /// There are too few to say anything.
    pub fn of(card: &Card, sorted: &[Nanos], peers: &[&[Nanos]]) -> Result<Self, Error> {
        if sorted.len() < LEAST_READS {
            let (found, needed) = (sorted.len(), LEAST_READS);
            return Err(Error::TooFew { what: "reads to compare", found, needed });
        }
        let now = inflection(sorted, peers, SEED);
        Ok(Self {
            inflection_percentile_then: card.training.inflection_percentile,
            inflection_percentile_now: now.map(|now| now.percentile),
            inflection_now: now.map(|now| now.latency),
            threshold_percentile_now: percentile_of(sorted, card.label.threshold()),
        })
    }

    /// How far it has moved.
    #[must_use]
    pub fn moved(&self) -> Moved {
        Moved::between(self.inflection_percentile_then, self.inflection_percentile_now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;
    use crate::testing::{data_model, recording};

    #[test]
    fn a_move_is_far_from_five_percentiles_on() {
        for (then, now, far, text) in [
            (Some(90.0), Some(94.9), false, "moved by 4.9 percentiles"),
            (Some(90.0), Some(85.0), true, "moved by 5.0 percentiles"),
            (None, None, false, "moved by 0.0 percentiles"),
            (None, Some(97.0), true, "has appeared"),
            (Some(97.0), None, true, "has vanished"),
        ] {
            let moved = Moved::between(then, now);
            assert_eq!((moved.is_far(), moved.to_string().as_str()), (far, text));
        }
    }

    #[test]
    fn the_reads_trained_on_have_not_moved() {
        let recorded = recording();
        let model = data_model(Kind::HeurSim, &recorded);
        let mut sorted: Vec<Nanos> = recorded.iter().map(|r| r.latency()).collect();
        sorted.sort_unstable();
        let same = Comparison::of(&model.card, &sorted, &[]).unwrap();
        assert_eq!(same.moved(), Moved::By(0.0));
        assert!(same.inflection_now.is_some());

        let few = Comparison::of(&model.card, &sorted[..999], &[]).unwrap_err();
        assert!(few.to_string().starts_with("reads to compare: 999, at least 1000 are needed"));
    }
}
