//! The control protocol of a drive's server: one line of JSON each way, over a socket.

use std::fs::File;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use trimtab_device::Fault;
use trimtab_serve::{Client, Error, PredictableCommand, PredictableReply};

use super::figures::Sample;
use super::info::{DriveInfo, RunDirectory, bad_fault};
use super::stat::Stat;

/// Timeout of a command.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout where the state of a large drive is copied, a log is sent, or the kernel has to release
/// a device.
const LONG_TIMEOUT: Duration = Duration::from_secs(60);

/// A command.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Command {
    Stat,
    Set {
        settings: Vec<String>,
    },
    Fault {
        fault: Box<Fault>,
    },
    ClearFaults,
    Snapshot,
    Restore,
    Idealise,
    /// Of an array.
    Predictable(PredictableCommand),
    BeginLog,
    EndLog,
    Remove {
        force: bool,
    },
}

impl Command {
    const fn limit(&self) -> Duration {
        match self {
            Self::Snapshot
            | Self::Restore
            | Self::Idealise
            | Self::EndLog
            | Self::Remove { .. } => LONG_TIMEOUT,
            _ => TIMEOUT,
        }
    }
}

/// The reply to a command.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Reply {
    Done,
    Stat(Box<Stat>),
    Log(Vec<Sample>),
    Predictable(PredictableReply),
    BadInput(String),
    Failed(String),
}

impl From<Error> for Reply {
    fn from(error: Error) -> Self {
        match error {
            Error::BadInput(why) => Self::BadInput(why),
            error => Self::Failed(error.to_string()),
        }
    }
}

/// A handle to a running drive.
#[derive(Clone, Debug)]
pub struct Drive(Client<DriveInfo>);

impl Drive {
    /// Finds a running drive.
    ///
    /// # Errors
    /// There is none of that name, or its server is dead.
    pub fn find(run_directory: &RunDirectory, name: &str) -> Result<Self, Error> {
        Client::find(run_directory, name).map(Self)
    }

    /// Its description.
    #[must_use]
    pub const fn info(&self) -> &DriveInfo {
        self.0.info()
    }

    /// Opens its device for direct reading and writing, and verifies that it is this drive's: the
    /// device of a drive that died may be another's by now.
    ///
    /// # Errors
    /// It cannot be opened, or is not this drive's any more.
    pub fn open(&self) -> Result<File, Error> {
        self.0.open()
    }

    /// Its statistics.
    ///
    /// # Errors
    /// Its server does not answer.
    pub fn stat(&self) -> Result<Stat, Error> {
        match self.ask(&Command::Stat)? {
            Reply::Stat(stat) => Ok(*stat),
            _ => Err(self.0.unexpected_reply()),
        }
    }

    /// Changes keys of its profile, each written `KEY=VALUE`; [`TUNABLE`] lists them.
    ///
    /// [`TUNABLE`]: super::TUNABLE
    ///
    /// # Errors
    /// A key that cannot change live, or a value that it cannot have.
    pub fn set(&self, settings: &[String]) -> Result<(), Error> {
        self.tell(&Command::Set { settings: settings.to_vec() })
    }

    /// Adds a fault, whose times count from now.
    ///
    /// # Errors
    /// Its times or parameters are out of range.
    pub fn fault(&self, fault: Fault) -> Result<(), Error> {
        fault.check().map_err(bad_fault)?;
        self.tell(&Command::Fault { fault: Box::new(fault) })
    }

    /// Ends all faults, scheduled ones included.
    ///
    /// # Errors
    /// Its server does not answer.
    pub fn clear_faults(&self) -> Result<(), Error> {
        self.tell(&Command::ClearFaults)
    }

    /// Takes a snapshot of its flash, in place of the one before. Content is not part of it.
    ///
    /// # Errors
    /// Requests are in flight.
    pub fn snapshot(&self) -> Result<(), Error> {
        self.tell(&Command::Snapshot)
    }

    /// Returns its flash to the snapshot, any number of times.
    ///
    /// # Errors
    /// Requests are in flight, or there is no snapshot.
    pub fn restore(&self) -> Result<(), Error> {
        self.tell(&Command::Restore)
    }

    /// Makes cleaning take no time, until the next `restore`: a drive without internal work.
    /// Cleaning in progress ends as it began.
    ///
    /// # Errors
    /// It is a disk.
    pub fn idealise(&self) -> Result<(), Error> {
        self.tell(&Command::Idealise)
    }

    /// Starts a log of reads.
    ///
    /// # Errors
    /// Its server does not answer.
    pub fn begin_log(&self) -> Result<(), Error> {
        self.tell(&Command::BeginLog)
    }

    /// Ends the log, and returns it in order of the answers; empty if there were too many reads.
    ///
    /// # Errors
    /// Its server does not answer.
    pub fn end_log(&self) -> Result<Vec<Sample>, Error> {
        match self.ask(&Command::EndLog)? {
            Reply::Log(log) => Ok(log),
            _ => Err(self.0.unexpected_reply()),
        }
    }

    /// Removes it: detaches the device, ends the server.
    ///
    /// # Errors
    /// It is mounted or otherwise claimed, and `force` is not set.
    pub fn remove(&self, force: bool) -> Result<(), Error> {
        self.tell(&Command::Remove { force })
    }

    fn tell(&self, command: &Command) -> Result<(), Error> {
        match self.ask(command)? {
            Reply::Done => Ok(()),
            _ => Err(self.0.unexpected_reply()),
        }
    }

    fn ask(&self, command: &Command) -> Result<Reply, Error> {
        match self.0.ask(command, command.limit())? {
            Reply::BadInput(why) => Err(Error::BadInput(why)),
            Reply::Failed(why) => Err(Error::Failed(why)),
            reply => Ok(reply),
        }
    }
}
