//! What can be wrong.

use std::path::PathBuf;

/// Why a predictor cannot be trained, loaded or judged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A word that is none of those there are.
    #[error("unknown {what} {word:?}; known are {known}")]
    Unknown {
        /// What it should be.
        what: &'static str,
        /// The word.
        word: String,
        /// Those there are.
        known: String,
    },
    /// There is too little to learn from, or to judge by.
    #[error("{what}: {found}, at least {needed} are needed; record for longer")]
    TooFew {
        /// Too few of what.
        what: &'static str,
        /// How many there are.
        found: usize,
        /// How many it takes.
        needed: usize,
    },
    /// The latencies do not divide into fast and slow.
    #[error("no threshold between fast and slow by {rule} in these latencies: {why}")]
    NoLabel {
        /// The rule that should have made a label.
        rule: &'static str,
        /// Why it did not.
        why: &'static str,
    },
    /// The learning library could not.
    #[error("training {predictor} failed: {source}")]
    Learn {
        /// Which predictor.
        predictor: &'static str,
        /// Why.
        source: trimtab_learn::Error,
    },
    /// A model's file is not what it should be.
    #[error("{path}: {what}")]
    Model {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, and what to do.
        what: String,
    },
}

impl Error {
    /// Whether what was asked for cannot be, rather than that something failed.
    #[must_use]
    pub const fn is_bad_input(&self) -> bool {
        !matches!(self, Self::Learn { .. })
    }
}
