//! Errors of refusing reads.

use std::io;
use std::path::PathBuf;

/// Why reads cannot be refused in the kernel. Each error displays as one line that says what
/// to do about it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel does not run such programs.
    #[error(
        "this kernel cannot refuse reads: {0}; Linux 5.15 or newer with CONFIG_BPF_LSM=y and `bpf` \
         in its lsm= list can, as those of Debian 12 and 13"
    )]
    Kernel(String),
    /// The process may not load BPF programs.
    #[error(transparent)]
    Bpf(#[from] trimtab_bpf::Error),
    /// The BPF library failed.
    #[error("cannot {what}: {source}")]
    Library {
        /// The operation.
        what: &'static str,
        /// The library's error.
        source: libbpf_rs::Error,
    },
    /// A map cannot be mapped into memory.
    #[error(transparent)]
    Memory(#[from] trimtab_shm::Error),
    /// There is no control group to put the program in.
    #[error(
        "no cgroup v2 file system is mounted: mount one (mount -t cgroup2 none /sys/fs/cgroup)"
    )]
    NoCgroups,
    /// A file or directory cannot be used.
    #[error("{}: cannot {what}: {source}", .path.display())]
    File {
        /// The operation.
        what: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// A pattern of files is not valid.
    #[error("`{pattern}`: {why}")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// What is wrong with it.
        why: String,
    },
}

impl Error {
    /// Whether the user's input is at fault (exit code 2) rather than the machine (exit
    /// code 1).
    #[must_use]
    pub const fn is_bad_input(&self) -> bool {
        matches!(self, Self::Pattern { .. })
    }

    pub(crate) fn library(what: &'static str) -> impl FnOnce(libbpf_rs::Error) -> Self {
        move |source| Self::Library { what, source }
    }

    pub(crate) fn file<E: Into<io::Error>>(
        what: &'static str,
        path: &std::path::Path,
    ) -> impl FnOnce(E) -> Self {
        move |source| Self::File { what, path: path.to_owned(), source: source.into() }
    }
}
