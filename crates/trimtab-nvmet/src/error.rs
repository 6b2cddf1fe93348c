//! Errors of exports.

use std::io;

/// Why a volume is not exported, or still is. Each displays as one line.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The input is invalid.
    #[error("{0}")]
    BadInput(String),
    /// The input is valid, but this machine cannot do it now.
    #[error("{0}")]
    Failed(String),
    /// A system call failed.
    #[error("cannot {what}: {source}")]
    System {
        /// The operation and its object.
        what: String,
        /// The kernel's error.
        source: io::Error,
    },
}

impl Error {
    /// Whether the user's input is at fault (exit code 2) rather than the machine (exit code 1).
    #[must_use]
    pub const fn is_bad_input(&self) -> bool {
        matches!(self, Self::BadInput(_))
    }

    pub(crate) fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { what: what.into(), source }
    }
}
