//! Errors of loading and attaching.

use std::io;

/// BPF programs cannot be loaded or attached. Each error displays as one line that says
/// what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel lacks something.
    #[error("{0}")]
    Kernel(String),
    /// The process may not load BPF programs.
    #[error("this needs the capabilities CAP_BPF and CAP_PERFMON: run it as root (sudo)")]
    Privilege,
    /// A system call failed that should not.
    #[error("cannot {what}: {source}")]
    System {
        /// What was being done.
        what: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The BPF library failed.
    #[error("cannot {what}: {source}")]
    Bpf {
        /// What was being done.
        what: &'static str,
        /// The library's error.
        source: libbpf_rs::Error,
    },
    /// A map's memory cannot be had.
    #[error(transparent)]
    Memory(#[from] trimtab_shm::Error),
}

impl Error {
    /// Makes an error of the library's, of what was being done.
    pub fn bpf(what: &'static str) -> impl FnOnce(libbpf_rs::Error) -> Self {
        move |source| Self::Bpf { what, source }
    }

    /// Makes an error of a system call's, of what was being done.
    pub fn system<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::System { what, source: source.into() }
    }
}
