//! Errors.

use std::io;
use std::path::PathBuf;

use crate::units::UnitFunction;

/// Why a word names nothing, or a model cannot be loaded or stored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A word that names none of the choices.
    #[error("unknown {what} {word:?}; known are {known}")]
    Unknown {
        /// The expected name.
        what: &'static str,
        /// The word.
        word: String,
        /// The choices.
        known: String,
    },
    /// A predictor that is not trained.
    #[error("{predictor} needs no training but {needs}")]
    Untrained {
        /// Its name.
        predictor: &'static str,
        /// What it needs.
        needs: &'static str,
    },
    /// A model's tensors cannot be read.
    #[error("{}: cannot read: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// A model's card cannot be read.
    #[error(
        "{}: cannot read: {reason}: it is the card of {}, and belongs beside it",
        path.display(), model.display()
    )]
    ReadCard {
        /// The card.
        path: PathBuf,
        /// The file of the model's tensors.
        model: PathBuf,
        /// The kernel's error.
        reason: io::Error,
    },
    /// A card is not one of a model that this version can use.
    #[error("{}: {source}", path.display())]
    Card {
        /// The card.
        path: PathBuf,
        /// The problem.
        source: CardError,
    },
    /// A model's tensors are not what its card promises.
    #[error("{}: {source}", path.display())]
    Tensors {
        /// The file of tensors.
        path: PathBuf,
        /// The problem.
        source: TensorsError,
    },
    /// The two files of a model do not belong together, or one is damaged.
    #[error(
        "{}: is not the model that {} is of, or one of the two was changed since; train it again",
        path.display(), card.display()
    )]
    Checksum {
        /// The file of tensors.
        path: PathBuf,
        /// The card.
        card: PathBuf,
    },
    /// A model cannot be encoded.
    #[error("cannot encode the model of {predictor}: {source}")]
    Encode {
        /// Its predictor.
        predictor: &'static str,
        /// Why.
        source: trimtab_learn::Error,
    },
}

impl Error {
    /// Whether the input is at fault, rather than the operation.
    #[must_use]
    pub const fn is_bad_input(&self) -> bool {
        !matches!(self, Self::Encode { .. })
    }
}

/// The problem with a model's card.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CardError {
    /// It is not JSON, or not a card.
    #[error("{0}")]
    Json(#[from] serde_json::Error),
    /// It is of a version that is not known.
    #[error("model of version {found}, expected 1 to {newest}; train it again")]
    Version {
        /// The stated version.
        found: String,
        /// The newest version known.
        newest: u32,
    },
    /// It is of a version whose features meant something else.
    #[error(
        "model of version {version}: what {predictor} decides by meant something else then; \
         train it again"
    )]
    OldFeatures {
        /// The version.
        version: u32,
        /// The predictor.
        predictor: &'static str,
    },
    /// It is of a model with another number of features.
    #[error("decides by {found} numbers, not by the {expected} there are; train it again")]
    Features {
        /// How many features the model has.
        found: usize,
        /// How many the predictor has.
        expected: usize,
    },
    /// The mean latency of late reads is longer than a day.
    #[error("a read is said to take longer than a day; train it again")]
    Late,
    /// The base latency falls with size.
    #[error("a larger read is said to take less; train it again")]
    BaseLatency,
    /// A function that cannot be tracked.
    #[error("invalid unit function: {0:?}")]
    Units(UnitFunction),
}

/// The problem with a model's tensors.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TensorsError {
    /// A tensor is missing or malformed.
    #[error("{0}")]
    Learn(#[from] trimtab_learn::Error),
    /// The card lacks something that belongs to the tensors.
    #[error("its card has no {0}; train it again")]
    Missing(&'static str),
    /// A forest takes another number of features.
    #[error("decides by {found} numbers, not by the {expected} there are; train it again")]
    Features {
        /// How many features the forest takes.
        found: usize,
        /// How many the predictor has.
        expected: usize,
    },
}

/// Which of a model's two files is wrong, and how.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// The card.
    #[error("card: {0}")]
    Card(#[from] CardError),
    /// The tensors.
    #[error("tensors: {0}")]
    Tensors(#[from] TensorsError),
    /// Together they do not have the card's checksum.
    #[error("the tensors are not those that the card is of, or one of the two is damaged")]
    Checksum,
}
