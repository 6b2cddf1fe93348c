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
}

impl PredictorKind {
    /// All predictors, in the order in which tables list them.
    pub const ALL: [Self; 4] = [Self::HeurSim, Self::HeurAdv, Self::Linnos, Self::Trimtab];

    /// Its name in options, tables and files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::HeurSim => "heur-sim",
            Self::HeurAdv => "heur-adv",
            Self::Linnos => "linnos",
            Self::Trimtab => "trimtab",
        }
    }

    /// How many input numbers it decides by.
    pub(super) const fn features(self) -> usize {
        match self {
            Self::HeurSim | Self::HeurAdv => 1,
            Self::Linnos => DIGITS,
            Self::Trimtab => FEATURES,
        }
    }
}

impl std::str::FromStr for PredictorKind {
    type Err = Error;

    fn from_str(word: &str) -> Result<Self, Error> {
        Self::ALL.into_iter().find(|kind| kind.name() == word).ok_or_else(|| {
            let known = Self::ALL.map(Self::name).join(", ");
            Error::Unknown { what: "predictor", word: word.to_owned(), known }
        })
    }
}
