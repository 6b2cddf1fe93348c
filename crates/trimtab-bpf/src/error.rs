//! Errors of loading and attaching.

use std::io;

/// Why BPF programs cannot be loaded or attached. Each error displays as one line that says
/// what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel lacks something.
    #[error("{0}")]
    Kernel(String),
    /// The process may not load BPF programs.
    #[error("this needs the capabilities CAP_BPF and CAP_PERFMON: run it as root (sudo)")]
    Privilege,
    /// A system call failed unexpectedly.
    #[error("cannot {what}: {source}")]
    System {
        /// The operation.
        what: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
    /// The BPF library failed.
    #[error("cannot {what}: {source}")]
    Bpf {
        /// The operation.
        what: &'static str,
        /// The library's error.
        source: libbpf_rs::Error,
    },
    /// A map cannot be mapped into memory.
    #[error(transparent)]
    Memory(#[from] trimtab_shm::Error),
}

impl Error {
    /// Wraps an error of the library for an operation.
    pub fn bpf(what: &'static str) -> impl FnOnce(libbpf_rs::Error) -> Self {
        move |source| Self::Bpf { what, source }
    }

    /// Wraps an error of a system call for an operation.
    pub fn system<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::System { what, source: source.into() }
    }
}
