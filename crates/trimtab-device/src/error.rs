//! What can be wrong with a drive's description or with what it is asked.

use trimtab_io::Nanos;

/// Why a drive cannot be, or cannot do what it is asked.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// A key of a profile has a value that cannot be. The text names the key
    /// and what is allowed.
    #[error("{0}")]
    Profile(String),
    /// A request reaches beyond the drive's end.
    #[error(
        "request at byte {offset}, {length} bytes long, reaches beyond the drive's end at {capacity}"
    )]
    BeyondEnd {
        /// Its first byte.
        offset: u64,
        /// Its bytes.
        length: u64,
        /// The drive's bytes.
        capacity: u64,
    },
    /// A request came with a time before that of an earlier one.
    #[error("time runs back: a request at {now} after {before}")]
    TimeRunsBack {
        /// The request's time.
        now: Nanos,
        /// How far the drive was already.
        before: Nanos,
    },
}

/// The bookkeeping of a drive contradicts itself: a defect of the model, or a damaged
/// saved state. Displays as one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Inconsistent(pub(crate) String);

impl Error {
    pub(crate) fn profile<T>(what: impl Into<String>) -> Result<T, Self> {
        Err(Self::Profile(what.into()))
    }
}
