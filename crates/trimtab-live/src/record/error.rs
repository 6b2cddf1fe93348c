//! Why a recording cannot be made.

use std::io;

/// What stands in the way of recording or watching. Each displays as one line that says
/// what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The name is that of no block device, or of one that cannot be recorded.
    #[error("{name}: {why}")]
    Device {
        /// As it was given.
        name: String,
        /// What is wrong with it.
        why: String,
    },
    /// More devices than one recording or watch covers.
    #[error("{0} devices are too many at once, up to 16 can be: start several")]
    TooManyDevices(usize),
    /// The kernel lacks something.
    #[error("{0}")]
    Kernel(String),
    /// A model is not one that the kernel can decide by.
    #[error("{0}")]
    Model(String),
    /// The process may not load BPF programs.
    #[error("this needs the capabilities CAP_BPF and CAP_PERFMON: run it as root (sudo)")]
    Privilege,
    /// Something failed that should not.
    #[error("cannot {what}: {source}")]
    System {
        /// What was being done.
        what: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// The BPF library failed.
    #[error("cannot {what}: {source}")]
    Bpf {
        /// What was being done.
        what: &'static str,
        /// What the library said.
        source: libbpf_rs::Error,
    },
}

impl Error {
    /// Whether the user's input is at fault (exit code 2) rather than the
    /// machine (exit code 1).
    #[must_use]
    pub const fn is_bad_input(&self) -> bool {
        matches!(self, Self::Device { .. } | Self::TooManyDevices(_) | Self::Model(_))
    }

    pub(crate) fn bpf(what: &'static str) -> impl FnOnce(libbpf_rs::Error) -> Self {
        move |source| Self::Bpf { what, source }
    }

    pub(crate) fn system<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::System { what, source: source.into() }
    }
}
