//! The urgency of reads, and the errors of those that were refused or late.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use trimtab_io::Nanos;

use crate::options::nanos;

/// How urgent a read is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Urgency {
    /// Takes any time, and is never refused: for reads from the last replica.
    #[default]
    None,
    /// Refused if the model predicts it late. There is no time limit, so a read that was sent
    /// may take any time.
    LatencyCritical,
    /// Refused if it is expected to take longer than this, and abandoned
    /// ([`ReadError::TimedOut`]) if it does take longer.
    Deadline(Duration),
    /// The same with a deadline that follows the reader's last reads, and what failing over
    /// costs ([`auto`](crate::auto)). Report that with
    /// [`Reader::failed_over`](crate::Reader::failed_over).
    Auto,
}

impl Urgency {
    /// The time at which a read that starts at `asked` is abandoned; `None`: never, or (with
    /// [`Auto`](Self::Auto)) by its token.
    pub(super) fn until(self, asked: Nanos) -> Option<Nanos> {
        match self {
            Self::None | Self::LatencyCritical | Self::Auto => None,
            Self::Deadline(within) => Some(Nanos(asked.0.saturating_add(nanos(within).0))),
        }
    }
}

/// Why a read was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalCause {
    /// It is predicted late.
    Late,
    /// The drive has the maximum of outstanding reads.
    Outstanding,
    /// Its deadline is shorter than any read of the drive, so it was expected in memory; and
    /// its pages, which have been there, are gone. They are being brought in.
    Evicted,
}

/// A read that was not sent to the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The expected latency, if the model predicts one: LinnOS's network and the heuristics do
    /// not.
    pub expected_wait: Option<Duration>,
    /// Why it was refused.
    pub cause: RefusalCause,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (why, and) = match self.cause {
            RefusalCause::Late => ("it is expected to be late", ", and"),
            RefusalCause::Outstanding => {
                ("the drive has too many outstanding reads", "; the read is expected")
            }
            RefusalCause::Evicted => ("its pages were evicted from memory", "; they are expected"),
        };
        write!(f, "the read was not sent: {why}")?;
        match self.expected_wait {
            Some(wait) => write!(f, "{and} to take {}", nanos(wait)),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Refusal {}

/// Why a read returned no data.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It was not sent: read another replica, or this one with [`Urgency::None`].
    #[error("{0}")]
    Refused(Refusal),
    /// It had not completed within this time, its deadline: read another replica. The caller's
    /// buffer is not written to any more, though the drive may complete the read later.
    #[error("the drive has not answered within {}", nanos(*.0))]
    TimedOut(Duration),
    /// It was sent, and failed.
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl From<Refusal> for ReadError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// A refusal is `EBUSY`, as from a drive or a kernel that refuses reads itself; a read that
/// missed its deadline is `ETIMEDOUT`.
impl From<ReadError> for io::Error {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Refused(_) => rustix::io::Errno::BUSY.into(),
            ReadError::TimedOut(_) => rustix::io::Errno::TIMEDOUT.into(),
            ReadError::Io(error) => error,
        }
    }
}

/// Why a reader cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be opened.
    #[error("cannot open {path} for reading: {source}")]
    Open {
        /// The path.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// An option is out of range: the user's input is at fault.
    #[error("{0}")]
    Option(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusal_is_ebusy_and_other_errors_are_unchanged() {
        let wait = Some(Duration::from_micros(1500));
        let refused = |cause| ReadError::Refused(Refusal { expected_wait: wait, cause });
        let late = refused(RefusalCause::Late);
        assert_eq!(
            late.to_string(),
            "the read was not sent: it is expected to be late, and to take 1.50 ms"
        );
        assert_eq!(io::Error::from(late).raw_os_error(), Some(16));
        let stuck = refused(RefusalCause::Outstanding).to_string();
        assert!(stuck.contains("too many outstanding reads"), "{stuck}");
        let evicted = refused(RefusalCause::Evicted).to_string();
        assert!(evicted.ends_with("evicted from memory; they are expected to take 1.50 ms"));
        let timed_out = ReadError::TimedOut(Duration::from_millis(20));
        assert_eq!(timed_out.to_string(), "the drive has not answered within 20.0 ms");
        assert_eq!(io::Error::from(timed_out).raw_os_error(), Some(110));
        let failed = ReadError::Io(io::Error::from_raw_os_error(5));
        assert_eq!(io::Error::from(failed).raw_os_error(), Some(5));
    }
}
