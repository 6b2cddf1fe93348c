//! Errors of traces.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why a trace could not be read, changed or written. Each displays as one
/// line.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be opened: it does not exist, or is not readable.
    #[error("{}: cannot open: {source}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Reading failed: a bad disk, or a damaged compressed file.
    #[error("{}: cannot read on after byte {byte}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Bytes of uncompressed content read before.
        byte: u64,
        /// The error of the system or the decompressor.
        source: io::Error,
    },
    /// Writing failed. No partial file is left behind.
    #[error("{}: cannot write: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The content violates its format.
    #[error("{}: {at}: {what}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Position in the file.
        at: Position,
        /// What was expected there, and what was found.
        what: String,
    },
    /// Records are out of order by more than the sorting window. Reading again with
    /// [`Sorting::Spill`](crate::Sorting::Spill) solves it.
    #[error(
        "{}: record {record} is out of arrival order by more than the {window} records that are sorted in memory",
        path.display()
    )]
    BeyondWindow {
        /// The file.
        path: PathBuf,
        /// The late record's number, from 1.
        record: u64,
        /// The window's size in records.
        window: usize,
    },
    /// The content matches no known format.
    #[error("{}: {why}", path.display())]
    Unrecognised {
        /// The file.
        path: PathBuf,
        /// What was expected.
        why: String,
    },
    /// The content matches several formats; the user has to choose.
    #[error("{}: fits several formats, name one with --format: {candidates}", path.display())]
    Ambiguous {
        /// The file.
        path: PathBuf,
        /// The formats, each with its interpretation of the columns.
        candidates: String,
    },
    /// Spooling a stream or compressed content exceeds the limit.
    #[error(
        "{}: goes on after {kept} bytes of it were kept in temporary files or in memory: over the \
         limit of {}; raise that with --max-spool SIZE, or give a file that is not compressed",
        path.display(),
        size(*limit)
    )]
    TooLong {
        /// The input.
        path: PathBuf,
        /// Bytes spooled.
        kept: u64,
        /// The limit, bytes.
        limit: u64,
    },
    /// The operation makes no sense, or not for this trace.
    #[error("{0}")]
    Usage(String),
}

impl Error {
    /// Whether the input or the request is at fault (exit code 2) rather than
    /// the machine (exit code 1).
    #[must_use]
    pub fn is_bad_input(&self) -> bool {
        match self {
            Self::Open { source, .. } => source.kind() != io::ErrorKind::PermissionDenied,
            // A damaged gzip or zstd stream is bad input; a failing disk is not.
            Self::Read { source, .. } => matches!(
                source.kind(),
                io::ErrorKind::InvalidData
                    | io::ErrorKind::InvalidInput
                    | io::ErrorKind::UnexpectedEof
                    | io::ErrorKind::IsADirectory
                    | io::ErrorKind::Other
            ),
            Self::Write { .. } => false,
            _ => true,
        }
    }

    pub(crate) fn write(path: &Path, source: impl Into<io::Error>) -> Self {
        Self::Write { path: path.to_owned(), source: source.into() }
    }
}

/// A size in the largest unit in which it is a whole number, or nearly.
fn size(bytes: u64) -> String {
    match bytes {
        0x4000_0000.. => format!("{:.0} GiB", bytes as f64 / f64::from(1 << 30)),
        0x10_0000.. => format!("{:.0} MiB", bytes as f64 / f64::from(1 << 20)),
        _ => format!("{bytes} bytes"),
    }
}

/// A position in a trace file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// A line of text, from 1.
    Line(u64),
    /// An offset into (uncompressed) binary content.
    Byte(u64),
    /// A row of a Parquet file, from 1.
    Row(u64),
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(n) => write!(f, "line {n}"),
            Self::Byte(n) => write!(f, "byte {n}"),
            Self::Row(n) => write!(f, "row {n}"),
        }
    }
}

/// What is wrong with a line or record; the reader adds file and position.
#[derive(Debug)]
pub(crate) struct Malformed(pub(crate) String);

impl Malformed {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }
}
