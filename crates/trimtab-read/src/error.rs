//! How much a read may take, and what comes of one that may not.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use trimtab_io::Nanos;

use crate::options::nanos;

/// How urgent a read is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Urgency {
    /// It takes the time it takes, and is never refused: the last replica is read so.
    #[default]
    None,
    /// Fast or not at all: refused where the model expects it to be late. It says no time,
    /// so one that was sent takes the time it takes.
    LatencyCritical,
    /// Refused where it is expected to take longer than this, and given up
    /// ([`ReadError::TimedOut`]) where it does take longer.
    Deadline(Duration),
}

impl Urgency {
    /// Until when a read is waited for that was asked at this time; none: for as long as
    /// it takes.
    pub(super) fn until(self, asked: Nanos) -> Option<Nanos> {
        match self {
            Self::None | Self::LatencyCritical => None,
            Self::Deadline(within) => Some(Nanos(asked.0.saturating_add(nanos(within).0))),
        }
    }
}

/// AdmissionReason a read was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalCause {
    /// It is expected to be late.
    Late,
    /// The drive has not answered earlier ones, and has as many of them as it may.
    Outstanding,
}

/// A read that was not sent to the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// How long it would have taken, as far as the model can tell: LinnOS's network
    /// and the heuristics cannot.
    pub expected_wait: Option<Duration>,
    /// AdmissionReason.
    pub cause: RefusalCause,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (why, and) = match self.cause {
            RefusalCause::Late => ("it is expected to be late", ", and"),
            RefusalCause::Outstanding => (
                "the drive has not answered earlier ones, and may have no more",
                "; it is expected",
            ),
        };
        write!(f, "the read was not sent: {why}")?;
        match self.expected_wait {
            Some(wait) => write!(f, "{and} to take {}", nanos(wait)),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Refusal {}

/// AdmissionReason a read brought no data.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It was not sent: another replica is to be asked, or this one with
    /// [`Urgency::None`].
    #[error("{0}")]
    Refused(Refusal),
    /// It had not come within this time, which was its deadline: another replica is to be
    /// asked. Nothing is written into the caller's buffer any more, though the drive may
    /// answer later.
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

/// A refusal is `EBUSY`, as from a drive or a kernel that refuses reads by itself; a read
/// that has not come at its deadline is `ETIMEDOUT`.
impl From<ReadError> for io::Error {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Refused(_) => rustix::io::Errno::BUSY.into(),
            ReadError::TimedOut(_) => rustix::io::Errno::TIMEDOUT.into(),
            ReadError::Io(error) => error,
        }
    }
}

/// AdmissionReason there is no reader.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be opened.
    #[error("cannot open {path} for reading: {source}")]
    Open {
        /// What.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// An option that cannot be: the user's input is at fault.
    #[error("{0}")]
    Option(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_ebusy_and_other_errors_stay_what_they_are() {
        let wait = Some(Duration::from_micros(1500));
        let refused = |cause| ReadError::Refused(Refusal { expected_wait: wait, cause });
        let late = refused(RefusalCause::Late);
        assert_eq!(
            late.to_string(),
            "the read was not sent: it is expected to be late, and to take 1.50 ms"
        );
        assert_eq!(io::Error::from(late).raw_os_error(), Some(16));
        let stuck = refused(RefusalCause::Outstanding).to_string();
        assert!(stuck.contains("has not answered earlier ones"), "{stuck}");
        let timed_out = ReadError::TimedOut(Duration::from_millis(20));
        assert_eq!(timed_out.to_string(), "the drive has not answered within 20.0 ms");
        assert_eq!(io::Error::from(timed_out).raw_os_error(), Some(110));
        let failed = ReadError::Io(io::Error::from_raw_os_error(5));
        assert_eq!(io::Error::from(failed).raw_os_error(), Some(5));
    }
}
