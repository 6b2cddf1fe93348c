//! How much a read may take, and what comes of one that may not.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use trimtab_io::Nanos;

/// How urgent a read is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Urgency {
    /// It takes the time it takes, and is never refused: the last replica is read so.
    #[default]
    None,
    /// Fast or not at all: refused where the model expects it to be late.
    LatencyCritical,
    /// Refused where it is expected to take longer than this.
    Deadline(Duration),
}

/// A read that was not sent to the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// How long it would have taken, as far as the model can tell: LinnOS's network
    /// and the heuristics cannot.
    pub expected_wait: Option<Duration>,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the read was not sent: it is expected to be late")?;
        match self.expected_wait {
            Some(wait) => write!(f, ", and to take {}", Nanos(wait.as_nanos() as u64)),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Refusal {}

/// Why a read brought no data.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It was not sent: another replica is to be asked, or this one with
    /// [`Urgency::None`].
    #[error("{0}")]
    Refused(Refusal),
    /// It was sent, and failed.
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl From<Refusal> for ReadError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// A refusal is `EBUSY`, as from a drive or a kernel that refuses reads by itself.
impl From<ReadError> for io::Error {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Refused(_) => rustix::io::Errno::BUSY.into(),
            ReadError::Io(error) => error,
        }
    }
}

/// Why there is no reader.
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
        let refused = ReadError::Refused(Refusal { expected_wait: wait });
        let said = refused.to_string();
        assert_eq!(said, "the read was not sent: it is expected to be late, and to take 1.50 ms");
        assert_eq!(io::Error::from(refused).raw_os_error(), Some(16));
        let failed = ReadError::Io(io::Error::from_raw_os_error(5));
        assert_eq!(io::Error::from(failed).raw_os_error(), Some(5));
    }
}
