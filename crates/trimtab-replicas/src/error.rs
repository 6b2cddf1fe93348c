//! Why a set cannot be opened, and why a read returned no data.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use trimtab_io::Nanos;
use trimtab_steer::MOST_REPLICAS;

/// Why a set cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Too few or too many replicas.
    #[error("a set has 2 to {MOST_REPLICAS} replicas, not {0}")]
    Count(usize),
    /// A replica cannot be opened.
    #[error("replica {replica}: {source}")]
    Replica {
        /// Its number, from 0.
        replica: usize,
        /// Why, with its path.
        source: trimtab_read::Error,
    },
    /// No replica can be opened.
    #[error("none of the {count} replicas can be opened; replica 0: {source}")]
    None {
        /// How many there are.
        count: usize,
        /// Why the first one cannot, with its path.
        source: trimtab_read::Error,
    },
    /// A replica is not a file or block device.
    #[error("replica {replica}: {path} is {kind}; a replica is a file or a block device")]
    Kind {
        /// Its number, from 0.
        replica: usize,
        /// Its path.
        path: PathBuf,
        /// What it is instead, with an article.
        kind: &'static str,
    },
    /// Two replicas are one file or device.
    #[error(
        "replicas {first} and {second} ({path}) are the same {kind}; give each copy of the data \
         once"
    )]
    Same {
        /// The number of the first, from 0.
        first: usize,
        /// The number of the second.
        second: usize,
        /// The path of the second.
        path: PathBuf,
        /// `file` or `device`.
        kind: &'static str,
    },
    /// Two replicas differ in length, so they do not have the same content.
    #[error(
        "replica {replica} ({path}) has {length} bytes, replica 0 has {expected}; replicas must \
         have the same content"
    )]
    Length {
        /// The number of the second, from 0.
        replica: usize,
        /// Its path.
        path: PathBuf,
        /// Its length, bytes.
        length: u64,
        /// The length of replica 0, bytes.
        expected: u64,
    },
    /// An option is out of range.
    #[error("{0}")]
    Option(&'static str),
    /// A bound of automatic deadlines is out of range.
    #[error("{0}")]
    Auto(trimtab_read::Error),
}

/// Why a read returned no data.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// No replica has answered within the deadline. The buffer is not written to any more.
    #[error("no replica has answered within {}", Nanos(u64::try_from(.0.as_nanos()).unwrap_or(u64::MAX)))]
    TimedOut(Duration),
    /// All replicas have failed; the error is that of the last one.
    #[error("no replica can be read: {0}")]
    Io(#[from] io::Error),
}

/// A read that has missed its deadline is `ETIMEDOUT`.
impl From<ReadError> for io::Error {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::TimedOut(_) => rustix::io::Errno::TIMEDOUT.into(),
            ReadError::Io(error) => error,
        }
    }
}
