//! Evaluation protocols: which reads are trained on, and which are evaluated on?

use std::str::FromStr;

use serde::Serialize;

/// How past and future are divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// Train on the first half of the reads, evaluate on the second.
    TimeForward,
    /// Evaluate on each recording in turn, train on all the others.
    LeaveOneOut,
    /// Train on a random half of the reads, evaluate on the other. Neighbours in time are on both
    /// sides, which overestimates every predictor; for comparison with publications that do so.
    Leaky,
    /// Train nothing: evaluate given models.
    Models,
}

impl Protocol {
    /// Its name in options, tables and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::TimeForward => "time-forward",
            Self::LeaveOneOut => "leave-one-out",
            Self::Leaky => "leaky",
            Self::Models => "models",
        }
    }
}

/// A word that names no protocol by which predictors can be trained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected time-forward, leave-one-out or leaky")]
pub struct UnknownProtocol;

impl FromStr for Protocol {
    type Err = UnknownProtocol;

    fn from_str(word: &str) -> Result<Self, UnknownProtocol> {
        [Self::TimeForward, Self::LeaveOneOut, Self::Leaky]
            .into_iter()
            .find(|protocol| protocol.name() == word)
            .ok_or(UnknownProtocol)
    }
}
