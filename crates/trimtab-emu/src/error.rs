//! Errors of emulated drives.

use std::io;

use trimtab_device::FaultError;

/// Why a drive cannot be made, or cannot do what is asked. Each displays as one line.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The input is invalid.
    #[error("{0}")]
    BadInput(String),
    /// The input is valid, but the operation cannot be done here or now.
    #[error("{0}")]
    Failed(String),
    /// A drive's server is alive and does not answer.
    #[error("{0}")]
    NoAnswer(String),
    /// The process lacks privileges.
    #[error("emulated drives need root, to mount and to attach loop devices: run it with sudo")]
    Privilege,
    /// A system call failed.
    #[error("cannot {what}: {source}")]
    System {
        /// The operation and its object.
        what: String,
        /// The kernel's error.
        source: io::Error,
    },
}

impl From<FaultError> for Error {
    fn from(error: FaultError) -> Self {
        Self::BadInput(error.to_string())
    }
}

impl Error {
    /// Whether the user's input is at fault (exit code 2) rather than the
    /// machine (exit code 1).
    #[must_use]
    pub const fn is_bad_input(&self) -> bool {
        matches!(self, Self::BadInput(_))
    }

    pub(super) fn system<E: Into<io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> Self {
        move |source| Self::System { what: what.into(), source: source.into() }
    }
}
