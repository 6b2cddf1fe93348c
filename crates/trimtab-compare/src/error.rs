//! Why a comparison has no result.

/// Why a comparison has no result. Each displays as one line.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The scenario is wrong, or a simulation failed.
    #[error(transparent)]
    Simulation(#[from] trimtab_sim::Error),
    /// The recordings have no threshold of slow.
    #[error("{0}")]
    Inflections(#[source] TrainError),
    /// A predictor cannot be trained on a recording.
    #[error("device `{device}`: {predictor}: {source}")]
    Training {
        /// The device's name.
        device: String,
        /// The predictor's name.
        predictor: &'static str,
        /// Why not.
        source: TrainError,
    },
    /// The drives of a testbed have failed, or are not available.
    #[error(transparent)]
    Testbed(#[from] TestbedError),
}

impl Error {
    /// Whether the input is at fault (exit code 2) rather than the machine or
    /// the model (exit code 1).
    #[must_use]
    pub fn is_bad_input(&self) -> bool {
        match self {
            Self::Simulation(error) => error.is_bad_input(),
            Self::Inflections(_) | Self::Training { .. } => true,
            Self::Testbed(_) => false,
        }
    }
}

/// The seeds of a comparison cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`seeds` must have at least one number, and no two alike")]
pub struct SeedsError;

/// Why a [`Trainer`](crate::Trainer) has no result.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    /// A drive has completed no read.
    #[error("device number {drive}, from 0, completed no read of phase one")]
    NoReads {
        /// The drive.
        drive: usize,
    },
    /// Anything else, in one line.
    #[error(transparent)]
    Other(#[from] Box<dyn std::error::Error + Send + Sync>),
}

/// Why a [`Testbed`](crate::Testbed) cannot go on, in one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TestbedError(String);

impl TestbedError {
    /// The text of an error and of its causes. The causes are not kept: otherwise the broken
    /// pipe of a drive, say, would be mistaken for one of the command's output.
    pub fn new(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        let error = error.into();
        let mut text = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            let quoted = error.to_string();
            if !text.ends_with(&quoted) {
                text = format!("{text}: {quoted}");
            }
            cause = error.source();
        }
        Self(text)
    }
}
