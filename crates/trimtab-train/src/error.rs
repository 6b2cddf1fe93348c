//! Errors.

use trimtab_predict::Error as PredictError;
use trimtab_trace::Error as TraceError;

/// Why a recording cannot be used, or a predictor not be trained or evaluated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is too little to train or to evaluate on.
    #[error("{what}: {found}, at least {needed} are needed; record for longer")]
    TooFew {
        /// The items of which there are too few.
        what: &'static str,
        /// How many there are.
        found: usize,
        /// How many are needed.
        needed: usize,
    },
    /// The latencies do not divide into fast and slow.
    #[error("no threshold between fast and slow by {rule} in these latencies: {why}")]
    NoLabel {
        /// The rule.
        rule: &'static str,
        /// Why it makes no label.
        why: &'static str,
    },
    /// The learning library failed.
    #[error("training {predictor} failed: {source}")]
    Learn {
        /// The predictor.
        predictor: &'static str,
        /// Why.
        source: trimtab_learn::Error,
    },
    /// The predictor has a profile in the place of training.
    #[error(
        "{predictor} is not trained: make it of a drive's profile with `trimtab profile queue`"
    )]
    Untrained {
        /// The predictor.
        predictor: &'static str,
    },
    /// A recording has no requests.
    #[error("{recording}: is empty")]
    Empty {
        /// Its name.
        recording: String,
    },
    /// A recording has requests, but no completed reads.
    #[error("{recording}: {}", no_reads(*.has_arrivals))]
    NoReads {
        /// Its name.
        recording: String,
        /// Whether it has requests whose completion was not measured.
        has_arrivals: bool,
    },
    /// A recording is of several drives where one is needed.
    #[error("{recording}: is of several drives, {drives}")]
    SeveralDrives {
        /// Its name.
        recording: String,
        /// The drives' names.
        drives: String,
    },
    /// A recording is not of the drive that was named.
    #[error("{recording}: has no device `{device}`; it has {drives}")]
    NoSuchDrive {
        /// Its name.
        recording: String,
        /// The drive named.
        device: String,
        /// The drives' names.
        drives: String,
    },
    /// A recording of peers has no drive with reads but the one whose peers are wanted.
    #[error("{recording}: has no other drive with reads")]
    NoPeers {
        /// Its name.
        recording: String,
    },
    /// A recording's note about a drive is not its identity.
    #[error("{recording}: expected of its note {key} the identity of a drive: {source}")]
    Note {
        /// Its name.
        recording: String,
        /// The note's key.
        key: String,
        /// The problem with the note.
        source: serde_json::Error,
    },
    /// Leaving one recording out leaves none.
    #[error("leave-one-out needs at least two recordings")]
    OneRecording,
    /// A model was trained on all reads that it should be evaluated on.
    #[error("{model}: was trained on all reads of {recording}; evaluate it on another recording")]
    AllSeen {
        /// The model's name.
        model: String,
        /// The recording's name.
        recording: String,
    },
    /// A model was trained on another label than the one to evaluate by.
    #[error("{model}: was trained on the label {trained}, not on {asked}")]
    OtherRule {
        /// The model's name.
        model: String,
        /// The label trained on.
        trained: &'static str,
        /// The label asked for.
        asked: &'static str,
    },
    /// Models were trained on different thresholds.
    #[error("{model} and {other} were trained on different labels")]
    OtherLabel {
        /// One model's name.
        model: String,
        /// The other's.
        other: String,
    },
    /// A model cannot be encoded.
    #[error(transparent)]
    Model(#[from] PredictError),
    /// A model's file cannot be written.
    #[error(transparent)]
    Write(#[from] TraceError),
}

const fn no_reads(has_arrivals: bool) -> &'static str {
    if has_arrivals {
        "holds no latencies, only arrivals; record with `trimtab record`, or simulate it"
    } else {
        "holds no reads"
    }
}

impl Error {
    /// Whether the input is at fault, rather than the operation.
    #[must_use]
    pub fn is_bad_input(&self) -> bool {
        match self {
            Self::Learn { .. } => false,
            Self::Model(error) => error.is_bad_input(),
            Self::Write(error) => error.is_bad_input(),
            _ => true,
        }
    }
}
