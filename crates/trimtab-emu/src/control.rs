//! The control protocol of a drive's server: one line of JSON each way, over a socket.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use trimtab_device::Fault;

use super::error::Error;
use super::figures::Sample;
use super::fusectl;
use super::holder::{Condition, Holder};
use super::run_directory::{DriveInfo, DriveStatus, RunDirectory};
use super::stat::Stat;

/// Timeout of a command.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout where the state of a large drive is copied, a log is sent, or the kernel has to release
/// a device.
const LONG_TIMEOUT: Duration = Duration::from_secs(60);
/// A stopped server is given up after this.
const STOPPED_TIMEOUT: Duration = Duration::from_secs(1);
/// How often the server's process is checked during a wait.
const LOOK: Duration = Duration::from_millis(100);

/// A command.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Command {
    Stat,
    Set { settings: Vec<String> },
    Fault { fault: Box<Fault> },
    ClearFaults,
    Snapshot,
    Restore,
    Idealise,
    BeginLog,
    EndLog,
    Remove { force: bool },
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
pub struct Drive {
    run_directory: RunDirectory,
    info: DriveInfo,
}

impl Drive {
    /// Finds a running drive.
    ///
    /// # Errors
    /// There is none of that name, or its server is dead.
    pub fn find(run_directory: &RunDirectory, name: &str) -> Result<Self, Error> {
        match run_directory.find(name)? {
            DriveStatus::Running(info) | DriveStatus::Stopped(info) => {
                Ok(Self { run_directory: run_directory.clone(), info })
            }
            DriveStatus::Changing => {
                Err(Error::Failed(format!("`{name}`: it is starting or shutting down")))
            }
            DriveStatus::Dead => Err(killed(name)),
        }
    }

    /// Its description.
    #[must_use]
    pub const fn info(&self) -> &DriveInfo {
        &self.info
    }

    /// Opens its device for direct reading and writing, and verifies that it is this drive's: the
    /// device of a drive that died may be another's by now.
    ///
    /// # Errors
    /// It cannot be opened, or is not this drive's any more.
    pub fn open(&self) -> Result<File, Error> {
        let shown = self.info.device.display();
        let failed = || Error::system(format!("open {shown}"));
        let direct = rustix::fs::OFlags::DIRECT.bits().cast_signed();
        let mut options = File::options();
        let device = options.read(true).write(true).custom_flags(direct).open(&self.info.device);
        let device = device.map_err(failed())?;
        let backing = trimtab_block::claim::backing_of(&device).map_err(failed())?;
        // The mount is not touched: that would block on a server that does not answer.
        let mounted =
            fusectl::mounted_on(&self.run_directory.drive_directory(&self.info.name).mount());
        let is_ours = |file_system| {
            mounted.iter().any(|&number| file_system == rustix::fs::makedev(0, number))
        };
        match backing {
            Some(backing) if is_ours(backing.file_system) => Ok(device),
            _ => {
                let name = &self.info.name;
                Err(Error::Failed(format!("{shown} is not the drive `{name}` any more")))
            }
        }
    }

    /// Its statistics.
    ///
    /// # Errors
    /// Its server does not answer.
    pub fn stat(&self) -> Result<Stat, Error> {
        match self.ask(&Command::Stat)? {
            Reply::Stat(stat) => Ok(*stat),
            _ => Err(self.unexpected_reply()),
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
        fault.check()?;
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
    ///
    /// # Errors
    /// Requests are in flight.
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
            _ => Err(self.unexpected_reply()),
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
            _ => Err(self.unexpected_reply()),
        }
    }

    fn ask(&self, command: &Command) -> Result<Reply, Error> {
        let failed = || Error::system(format!("ask drive `{}`", self.info.name));
        let wait = ReplyWait { drive: self, begun: Instant::now(), limit: command.limit() };
        let path = self.run_directory.drive_directory(&self.info.name).control();
        let mut stream = wait.connect(&path)?;
        stream.set_write_timeout(Some(TIMEOUT)).map_err(failed())?;
        match write_line(&mut stream, command) {
            Err(e) if has_ended(&e) => return Err(wait.ended()),
            written => written.map_err(failed())?,
        }
        match serde_json::from_slice(&wait.read_line(&mut stream)?) {
            Ok(Reply::BadInput(why)) => Err(Error::BadInput(why)),
            Ok(Reply::Failed(why)) => Err(Error::Failed(why)),
            Ok(reply) => Ok(reply),
            Err(_) => Err(self.unexpected_reply()),
        }
    }

    fn unexpected_reply(&self) -> Error {
        Error::Failed(format!(
            "drive `{}` sent an unexpected reply: is it of this version?",
            self.info.name
        ))
    }
}

fn killed(name: &str) -> Error {
    let what = "its server was killed; clean up with";
    Error::Failed(format!("`{name}`: {what} `trimtab drive remove {name}`"))
}

/// A wait for a drive's server, which may be unable to answer.
struct ReplyWait<'a> {
    drive: &'a Drive,
    begun: Instant,
    limit: Duration,
}

impl ReplyWait<'_> {
    /// Whether waiting still makes sense.
    fn check(&self) -> Result<(), Error> {
        let name = &self.drive.info.name;
        let waited = self.begun.elapsed();
        let Some(holder) = Holder::of(&self.drive.run_directory.drive_directory(name).lock())
        else {
            // The socket shows its end too; or the process is in another container.
            return if waited < self.limit {
                Ok(())
            } else {
                Err(self.no_answer("not visible from here"))
            };
        };
        match holder.condition() {
            Condition::Stopped if waited > STOPPED_TIMEOUT => {
                let pid = holder.pid().as_raw_nonzero();
                Err(Error::NoAnswer(format!(
                    "drive `{name}` does not answer (its process {pid} is stopped): continue it \
                     with `kill -CONT {pid}`, or end it with `trimtab drive remove --force {name}`"
                )))
            }
            Condition::Dying => Err(killed(name)),
            _ if waited > self.limit => Err(self.no_answer("busy or blocked")),
            _ => Ok(()),
        }
    }

    fn no_answer(&self, is: &str) -> Error {
        let DriveInfo { name, pid, .. } = &self.drive.info;
        let limit = self.limit.as_secs();
        Error::NoAnswer(format!(
            "drive `{name}` does not answer within {limit} s (its process {pid} is {is}): wait, or \
             end it with `trimtab drive remove --force {name}`"
        ))
    }

    fn failed(&self) -> impl FnOnce(io::Error) -> Error {
        Error::system(format!("ask drive `{}`", self.drive.info.name))
    }

    /// Connects. Waits while the socket's backlog is full.
    fn connect(&self, path: &Path) -> Result<UnixStream, Error> {
        loop {
            self.check()?;
            match connect(path) {
                Ok(stream) => {
                    stream.set_read_timeout(Some(LOOK)).map_err(self.failed())?;
                    return Ok(stream);
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => thread::sleep(LOOK),
                Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
                    return Err(Error::Privilege);
                }
                Err(e) if has_ended(&e) => return Err(self.ended()),
                Err(e) => return Err(self.failed()(e)),
            }
        }
    }

    /// Why the server closed the connection: it shuts down, or is dead. Returns when other
    /// processes can see that too.
    fn ended(&self) -> Error {
        let name = &self.drive.info.name;
        loop {
            match self.drive.run_directory.find(name) {
                Ok(DriveStatus::Dead) => return killed(name),
                Err(error) => return error,
                Ok(_) => {}
            }
            if let Err(error) = self.check() {
                return error;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// The server's whole reply.
    fn read_line(&self, stream: &mut UnixStream) -> Result<Vec<u8>, Error> {
        let mut line = Vec::new();
        let mut piece = [0; 1 << 16];
        while line.last() != Some(&b'\n') {
            match stream.read(&mut piece) {
                Ok(0) => break,
                Ok(n) => line.extend_from_slice(&piece[..n]),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => self.check()?,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if has_ended(&e) => return Err(self.ended()),
                Err(e) => return Err(self.failed()(e)),
            }
        }
        // It also closes the connection after a command that it cannot parse.
        if line.is_empty()
            && self.drive.run_directory.find(&self.drive.info.name)? == DriveStatus::Dead
        {
            return Err(killed(&self.drive.info.name));
        }
        Ok(line)
    }
}

/// Whether an error means that no server listens.
fn has_ended(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionRefused, ConnectionReset, NotFound};
    matches!(error.kind(), BrokenPipe | ConnectionRefused | ConnectionReset | NotFound)
}

/// Connects to a socket, without blocking: a full backlog is
/// [`WouldBlock`](io::ErrorKind::WouldBlock).
fn connect(path: &Path) -> io::Result<UnixStream> {
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: no pointer is passed.
    let socket = unsafe { libc::socket(libc::AF_UNIX, kind, 0) };
    if socket < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it was opened just now, and has no other owner.
    let stream = UnixStream::from(unsafe { OwnedFd::from_raw_fd(socket) });
    // SAFETY: all zeroes are a valid address of this type.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    let bytes = path.as_os_str().as_bytes();
    // Leaves space for the terminating zero.
    if bytes.len() >= address.sun_path.len() {
        let why = format!("{}: longer than a socket's path may be", path.display());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    for (to, from) in address.sun_path.iter_mut().zip(bytes) {
        *to = from.cast_signed();
    }
    let length = size_of::<libc::sockaddr_un>() as libc::socklen_t;
    // SAFETY: the address is initialised, and of that length.
    let connected = unsafe { libc::connect(socket, (&raw const address).cast(), length) };
    if connected < 0 {
        return Err(io::Error::last_os_error());
    }
    stream.set_nonblocking(false)?;
    Ok(stream)
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
