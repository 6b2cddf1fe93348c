//! What a drive's server is told, over its socket: one line of JSON each way.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::error::Error;
use super::faults::Fault;
use super::figures::Sample;
use super::home::{Found, Home, Info};
use super::stat::Stat;

/// Removing waits for the kernel to let the device go.
const PATIENCE: Duration = Duration::from_secs(30);

/// A command.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Command {
    Stat,
    Set { settings: Vec<String> },
    Fault { fault: Fault },
    ClearFaults,
    Snapshot,
    Restore,
    Idealise,
    BeginLog,
    EndLog,
    Remove { force: bool },
}

/// Its answer.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Reply {
    Done,
    Stat(Box<Stat>),
    Log(Vec<Sample>),
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

/// A running drive, to give commands to.
#[derive(Clone, Debug)]
pub struct Drive {
    home: Home,
    info: Info,
}

impl Drive {
    /// Finds a running drive.
    ///
    /// # Errors
    /// There is none of that name, or its server is dead.
    pub fn find(home: &Home, name: &str) -> Result<Self, Error> {
        match home.find(name)? {
            Found::Running(info) => Ok(Self { home: home.clone(), info }),
            Found::Changing => {
                Err(Error::Failed(format!("`{name}`: it is just starting or ending")))
            }
            Found::Dead => Err(Error::Failed(format!(
                "`{name}`: its server was killed; clean up with `trimtab drive remove {name}`"
            ))),
        }
    }

    /// What it is.
    #[must_use]
    pub const fn info(&self) -> &Info {
        &self.info
    }

    /// What it has done, and does.
    ///
    /// # Errors
    /// Its server does not answer.
    pub fn stat(&self) -> Result<Stat, Error> {
        match self.ask(&Command::Stat)? {
            Reply::Stat(stat) => Ok(*stat),
            _ => Err(self.odd()),
        }
    }

    /// Changes keys of its profile, each written `KEY=VALUE`; [`TUNABLE`] lists
    /// them.
    ///
    /// [`TUNABLE`]: super::TUNABLE
    ///
    /// # Errors
    /// A key that cannot change live, or a value that it cannot have.
    pub fn set(&self, settings: &[String]) -> Result<(), Error> {
        self.tell(&Command::Set { settings: settings.to_vec() })
    }

    /// Adds a fault, which counts its time from now.
    ///
    /// # Errors
    /// It cannot be.
    pub fn fault(&self, fault: Fault) -> Result<(), Error> {
        fault.check()?;
        self.tell(&Command::Fault { fault })
    }

    /// Ends all faults, those too that are to come.
    ///
    /// # Errors
    /// Its server does not answer.
    pub fn clear_faults(&self) -> Result<(), Error> {
        self.tell(&Command::ClearFaults)
    }

    /// Keeps the state of its flash, in place of what was kept before. Content is
    /// not kept.
    ///
    /// # Errors
    /// Requests are in flight.
    pub fn snapshot(&self) -> Result<(), Error> {
        self.tell(&Command::Snapshot)
    }

    /// Puts its flash back into the state that was kept, as often as one likes.
    ///
    /// # Errors
    /// Requests are in flight, or nothing was kept.
    pub fn restore(&self) -> Result<(), Error> {
        self.tell(&Command::Restore)
    }

    /// Has its flash clean blocks in no time, until it goes back to what was kept:
    /// what a drive would be that had nothing to do with itself.
    ///
    /// # Errors
    /// Requests are in flight.
    pub fn idealise(&self) -> Result<(), Error> {
        self.tell(&Command::Idealise)
    }

    /// Begins to note each read.
    ///
    /// # Errors
    /// Its server does not answer.
    pub fn begin_log(&self) -> Result<(), Error> {
        self.tell(&Command::BeginLog)
    }

    /// Ends that, and gives what was noted, in order of the answers; nothing if
    /// there were too many.
    ///
    /// # Errors
    /// Its server does not answer.
    pub fn end_log(&self) -> Result<Vec<Sample>, Error> {
        match self.ask(&Command::EndLog)? {
            Reply::Log(log) => Ok(log),
            _ => Err(self.odd()),
        }
    }

    /// Removes it: detaches the device, ends the server.
    ///
    /// # Errors
    /// It is mounted or otherwise claimed, and not `force`d.
    pub fn remove(&self, force: bool) -> Result<(), Error> {
        self.tell(&Command::Remove { force })
    }

    fn tell(&self, command: &Command) -> Result<(), Error> {
        match self.ask(command)? {
            Reply::Done => Ok(()),
            _ => Err(self.odd()),
        }
    }

    fn ask(&self, command: &Command) -> Result<Reply, Error> {
        let name = &self.info.name;
        let failed = || format!("ask drive `{name}`");
        let path = self.home.place(name).control();
        let mut stream = UnixStream::connect(path).map_err(Error::system(failed()))?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(Error::system(failed()))?;
        write_line(&mut stream, command).map_err(Error::system(failed()))?;
        match read_line(&stream).map_err(Error::system(failed()))? {
            Reply::BadInput(why) => Err(Error::BadInput(why)),
            Reply::Failed(why) => Err(Error::Failed(why)),
            reply => Ok(reply),
        }
    }

    fn odd(&self) -> Error {
        Error::Failed(format!(
            "drive `{}` gave an odd answer: is it of this version?",
            self.info.name
        ))
    }
}

pub(super) fn write_line(stream: &mut UnixStream, what: &impl Serialize) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(what)?;
    line.push(b'\n');
    stream.write_all(&line)
}

pub(super) fn read_line<T: for<'de> Deserialize<'de>>(stream: &UnixStream) -> std::io::Result<T> {
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    Ok(serde_json::from_str(&line)?)
}
