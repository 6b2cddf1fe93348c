//! Commands to a running array.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use trimtab_serve::{Client, Error};

use crate::spec::{ArrayInfo, PolicyKind, RunDirectory};
use crate::stat::Stat;

/// Timeout of a command.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout where all that is in flight has to end.
const LONG_TIMEOUT: Duration = Duration::from_secs(60);

/// A command.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Command {
    Stat,
    Fail { member: String },
    Remove { member: String },
    Add { path: PathBuf, force: bool },
    Replace { member: String, path: PathBuf, force: bool },
    Check { repairs: bool },
    Set { policy: PolicyKind },
    Stop { force: bool },
}

/// The reply to a command.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Reply {
    Done,
    /// Done, with something to say.
    Noted(Vec<String>),
    Stat(Box<Stat>),
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

/// A handle to a running array.
#[derive(Clone, Debug)]
pub struct Array(Client<ArrayInfo>);

impl Array {
    /// Finds a running array.
    ///
    /// # Errors
    /// There is none of that name, or its server is dead.
    pub fn find(run_directory: &RunDirectory, name: &str) -> Result<Self, Error> {
        Client::find(run_directory, name).map(Self)
    }

    /// Its description.
    #[must_use]
    pub const fn info(&self) -> &ArrayInfo {
        self.0.info()
    }

    /// Its state and counters.
    ///
    /// # Errors
    /// Its server does not answer.
    pub fn stat(&self) -> Result<Stat, Error> {
        match self.ask(&Command::Stat, TIMEOUT)? {
            Reply::Stat(stat) => Ok(*stat),
            _ => Err(self.0.unexpected_reply()),
        }
    }

    /// A member, by its path or number, is to be used no more.
    ///
    /// # Errors
    /// It is none, or the array has no data without it.
    pub fn fail(&self, member: &str) -> Result<(), Error> {
        self.tell(&Command::Fail { member: member.to_owned() })
    }

    /// Lets go of a member that has failed, or of a spare.
    ///
    /// # Errors
    /// It is none, or is in use.
    pub fn remove(&self, member: &str) -> Result<(), Error> {
        self.tell(&Command::Remove { member: member.to_owned() })
    }

    /// Takes a device in: in the place of a member that is missing or has failed, which it begins to
    /// rebuild, now or, as a spare, when there is one. `force`: whatever it holds. Returns what is to
    /// be said of it.
    ///
    /// # Errors
    /// The device is in use, too small, or not empty.
    pub fn add(&self, path: &Path, force: bool) -> Result<Vec<String>, Error> {
        self.tell_noted(&Command::Add { path: path.to_owned(), force })
    }

    /// Begins to fill a device with what a member has, and then lets it take the member's place.
    /// `force`: whatever it holds. Returns what is to be said of it.
    ///
    /// # Errors
    /// The member is none, or is not active; or the device is in use, too small, or not empty.
    pub fn replace(&self, member: &str, path: &Path, force: bool) -> Result<Vec<String>, Error> {
        let (member, path) = (member.to_owned(), path.to_owned());
        self.tell_noted(&Command::Replace { member, path, force })
    }

    /// Begins to compare all stripes, and with `repairs` to make fit what does not.
    ///
    /// # Errors
    /// A member is missing, or a check is under way.
    pub fn check(&self, repairs: bool) -> Result<(), Error> {
        self.tell(&Command::Check { repairs })
    }

    /// Changes which members reads ask. Returns what is to be said of members that do not help.
    ///
    /// # Errors
    /// Its server does not answer; or no member can help.
    pub fn set_policy(&self, policy: PolicyKind) -> Result<Vec<String>, Error> {
        self.tell_noted(&Command::Set { policy })
    }

    /// Stops it: detaches the device, ends the server.
    ///
    /// # Errors
    /// It is mounted or otherwise claimed, and `force` is not set.
    pub fn stop(&self, force: bool) -> Result<(), Error> {
        match self.ask(&Command::Stop { force }, LONG_TIMEOUT)? {
            Reply::Done => Ok(()),
            _ => Err(self.0.unexpected_reply()),
        }
    }

    fn tell(&self, command: &Command) -> Result<(), Error> {
        match self.ask(command, TIMEOUT)? {
            Reply::Done => Ok(()),
            _ => Err(self.0.unexpected_reply()),
        }
    }

    fn tell_noted(&self, command: &Command) -> Result<Vec<String>, Error> {
        match self.ask(command, TIMEOUT)? {
            Reply::Done => Ok(Vec::new()),
            Reply::Noted(notes) => Ok(notes),
            _ => Err(self.0.unexpected_reply()),
        }
    }

    fn ask(&self, command: &Command, limit: Duration) -> Result<Reply, Error> {
        match self.0.ask(command, limit)? {
            Reply::BadInput(why) => Err(Error::BadInput(why)),
            Reply::Failed(why) => Err(Error::Failed(why)),
            reply => Ok(reply),
        }
    }
}
