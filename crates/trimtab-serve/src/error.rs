//! Errors of served devices.

use std::io;

/// Why a device cannot be made, or cannot do what is asked. Each displays as one line.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The input is invalid.
    #[error("{0}")]
    BadInput(String),
    /// The input is valid, but the operation cannot be done here or now.
    #[error("{0}")]
    Failed(String),
    /// A device's server is alive and does not answer.
    #[error("{0}")]
    NoAnswer(String),
    /// The process lacks privileges.
    #[error(
        "emulated drives and arrays need root, to mount and to attach loop devices: run it with sudo"
    )]
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

impl Error {
    /// Whether the user's input is at fault (exit code 2) rather than the
    /// machine (exit code 1).
    #[must_use]
    pub const fn is_bad_input(&self) -> bool {
        matches!(self, Self::BadInput(_))
    }

    /// A failed system call, from what was to be done (`open /dev/fuse`) and the kernel's error.
    pub fn system<E: Into<io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> Self {
        move |source| Self::System { what: what.into(), source: source.into() }
    }
}
