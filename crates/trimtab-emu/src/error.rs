//! Why an emulated drive cannot be made, or cannot do what it is asked.

use std::io;

/// What stands in the way. Each displays as one line.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What was asked for cannot be: the user's input is at fault.
    #[error("{0}")]
    BadInput(String),
    /// It could be, but not here or not now.
    #[error("{0}")]
    Failed(String),
    /// A drive's server lives, and does not answer.
    #[error("{0}")]
    NoAnswer(String),
    /// The process may not do that.
    #[error("emulated drives need root, to mount and to attach loop devices: run it with sudo")]
    Privilege,
    /// Something failed that should not.
    #[error("cannot {what}: {source}")]
    System {
        /// What was being done, and to what.
        what: String,
        /// What the kernel said.
        source: io::Error,
    },
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
