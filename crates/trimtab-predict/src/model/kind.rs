//! The predictors, by name.

use serde::{Deserialize, Serialize};

use crate::digits::DIGITS;
use crate::error::Error;
use crate::state::FEATURES;

/// Which predictor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PredictorKind {
    /// LinnOS's simple heuristic: [`SimpleHeuristic`](crate::SimpleHeuristic).
    HeurSim,
    /// LinnOS's advanced heuristic: [`AdvancedHeuristic`](crate::AdvancedHeuristic).
    HeurAdv,
    /// LinnOS's network: [`Linnos`](crate::Linnos).
    Linnos,
    /// Forests over the tracked state: [`ForestPredictor`](crate::ForestPredictor).
    Trimtab,
    /// MittOS's next free time, from the tracked state: [`MittState`](crate::MittState). It is not
    /// trained.
    MittState,
}

impl PredictorKind {
    /// All predictors that are trained, in the order in which tables list them.
    pub const ALL: [Self; 4] = [Self::HeurSim, Self::HeurAdv, Self::Linnos, Self::Trimtab];

    /// Its name in options, tables and files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::HeurSim => "heur-sim",
            Self::HeurAdv => "heur-adv",
            Self::Linnos => "linnos",
            Self::Trimtab => "trimtab",
            Self::MittState => "mitt-state",
        }
    }

    /// How many input numbers it decides by.
    pub(super) const fn features(self) -> usize {
        match self {
            Self::HeurSim | Self::HeurAdv => 1,
            Self::Linnos => DIGITS,
            Self::Trimtab => FEATURES,
            Self::MittState => 0,
        }
    }
}

/// A predictor that knows the queue: it needs no training.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueModel {
    /// [`MittNoop`](crate::mitt::MittNoop).
    Noop,
    /// [`MittCfq`](crate::mitt::MittCfq).
    Cfq,
    /// [`MittSsd`](crate::mitt::MittSsd).
    Ssd,
}

impl QueueModel {
    /// All of them, in the order in which tables list them.
    pub const ALL: [Self; 3] = [Self::Noop, Self::Cfq, Self::Ssd];

    /// Its name in options, tables and scenarios.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Noop => "mitt-noop",
            Self::Cfq => "mitt-cfq",
            Self::Ssd => "mitt-ssd",
        }
    }

    /// What it needs in the place of training.
    #[must_use]
    pub const fn needs(self) -> &'static str {
        match self {
            Self::Noop | Self::Cfq => {
                "the profile of a disk (service times by distance, zone and operation)"
            }
            Self::Ssd => {
                "the profile of a flash drive whose host manages it, as `trimtab compare` has for \
                 the strategy `mitt`"
            }
        }
    }
}

impl std::str::FromStr for PredictorKind {
    type Err = Error;

    fn from_str(word: &str) -> Result<Self, Error> {
        if let Some(model) = QueueModel::ALL.into_iter().find(|model| model.name() == word) {
            return Err(Error::Untrained { predictor: model.name(), needs: model.needs() });
        }
        Self::ALL.into_iter().find(|kind| kind.name() == word).ok_or_else(|| {
            let known = Self::ALL.map(Self::name).join(", ");
            Error::Unknown { what: "predictor", word: word.to_owned(), known }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_models_say_what_they_need() {
        for model in QueueModel::ALL {
            let error = model.name().parse::<PredictorKind>().unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("{} needs no training but the profile", model.name()))
            );
            assert_eq!(error.lines().count(), 1);
        }
    }
}
