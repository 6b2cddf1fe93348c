//! Errors of mapping and opening.

use std::io;

/// The kernel refused to open or to map a BPF map.
#[derive(Debug, thiserror::Error)]
#[error("cannot {what}: {source}")]
pub struct Error {
    /// The operation.
    pub what: &'static str,
    /// The kernel's error.
    pub source: io::Error,
}

impl Error {
    pub(crate) fn of<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self { what, source: source.into() }
    }
}
