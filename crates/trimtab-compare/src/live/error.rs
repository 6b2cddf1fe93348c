//! Why a live testbed cannot go on.

use std::io;
use std::path::PathBuf;

use crate::error::TestbedError;

/// Why a live testbed cannot go on. Each displays as one line.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// As many files are needed as the scenario has devices.
    #[error("--files names {files}, and the scenario has {devices} devices: name one for each")]
    Count {
        /// Files named.
        files: usize,
        /// Devices of the scenario.
        devices: usize,
    },
    /// A file cannot be used, for this reason.
    #[error("{}: {what}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        what: String,
    },
    /// A system call on a file failed.
    #[error("{}: {what}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The operation.
        what: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
    /// A claimed file cannot be opened again.
    #[error("cannot open {} again: {source}", path.display())]
    Reopen {
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// A file is in use, or that cannot be determined.
    #[error(transparent)]
    Claim(#[from] trimtab_block::claim::ClaimError),
    /// An emulated drive failed.
    #[error(transparent)]
    Drive(#[from] trimtab_emu::Error),
    /// The server of an emulated drive cannot be started.
    #[error(transparent)]
    Start(Box<dyn std::error::Error + Send + Sync>),
    /// The recorder failed.
    #[error(transparent)]
    Record(#[from] trimtab_record::Error),
    /// Serving requests failed.
    #[error(transparent)]
    Serve(#[from] trimtab_uring::Error),
    /// The caller requested the end.
    #[error("ended before it was complete")]
    Ended,
}

impl Error {
    /// Whether the input is at fault (exit code 2) rather than the machine (exit code 1).
    #[must_use]
    pub const fn is_bad_input(&self) -> bool {
        match self {
            Self::Count { .. } | Self::File { .. } | Self::Io { .. } => true,
            Self::Claim(error) => {
                !matches!(error, trimtab_block::claim::ClaimError::Unknown { .. })
            }
            _ => false,
        }
    }
}

impl From<Error> for TestbedError {
    fn from(error: Error) -> Self {
        Self::new(error)
    }
}
