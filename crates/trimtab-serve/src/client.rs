//! Commands to a device's server: one line of JSON each way, over a socket.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::error::Error;
use super::fusectl;
use super::holder::{Condition, Holder};
use super::run_directory::{DeviceInfo, DeviceKind, RunDirectory, Status};

/// Timeout of writing a command.
const TIMEOUT: Duration = Duration::from_secs(10);
/// A stopped server is given up after this.
const STOPPED_TIMEOUT: Duration = Duration::from_secs(1);
/// How often the server's process is checked during a wait.
const LOOK: Duration = Duration::from_millis(100);

/// How long a server waits for a client at a time.
const ACCEPT: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// Timeout of a client: a command is one line, sent at once.
const PATIENCE: Duration = Duration::from_secs(2);

/// A handle to a running device.
#[derive(Clone, Debug)]
pub struct Client<I> {
    run_directory: RunDirectory<I>,
    info: I,
}

impl<I: DeviceInfo> Client<I> {
    /// Finds a running device.
    ///
    /// # Errors
    /// There is none of that name, or its server is dead.
    pub fn find(run_directory: &RunDirectory<I>, name: &str) -> Result<Self, Error> {
        match run_directory.find(name)? {
            Status::Running(info) | Status::Stopped(info) => {
                Ok(Self { run_directory: run_directory.clone(), info })
            }
            Status::Changing => {
                Err(Error::Failed(format!("`{name}`: it is starting or shutting down")))
            }
            Status::Dead => Err(killed::<I>(name)),
        }
    }

    /// Its description.
    #[must_use]
    pub const fn info(&self) -> &I {
        &self.info
    }

    /// Its directory.
    pub(crate) fn directory(&self) -> super::directory::DeviceDirectory {
        self.run_directory.device_directory(self.info.name())
    }

    /// Opens its device for direct reading and writing, and verifies that it is this one's: the
    /// block device of a device that died may be another's by now.
    ///
    /// # Errors
    /// It cannot be opened, or is not this one's any more.
    pub fn open(&self) -> Result<File, Error> {
        let shown = self.info.device().display();
        let failed = || Error::system(format!("open {shown}"));
        let direct = rustix::fs::OFlags::DIRECT.bits().cast_signed();
        let mut options = File::options();
        let device = options.read(true).write(true).custom_flags(direct).open(self.info.device());
        let device = device.map_err(failed())?;
        if self.directory().ublk_device().is_some_and(|ublk| ublk.path() == self.info.device()) {
            return Ok(device);
        }
        let backing = trimtab_block::claim::backing_of(&device).map_err(failed())?;
        // The mount is not touched: that would block on a server that does not answer.
        let mounted =
            fusectl::mounted_on(&self.run_directory.device_directory(self.info.name()).mount());
        let is_ours = |file_system| {
            mounted.iter().any(|&number| file_system == rustix::fs::makedev(0, number))
        };
        match backing {
            Some(backing) if is_ours(backing.file_system) => Ok(device),
            _ => {
                let (noun, name) = (I::KIND.noun, self.info.name());
                Err(Error::Failed(format!("{shown} is not the {noun} `{name}` any more")))
            }
        }
    }

    /// Sends a command, and waits for the reply for so long.
    ///
    /// # Errors
    /// Its server does not answer in time, or not in these terms.
    pub fn ask<R: DeserializeOwned>(
        &self,
        command: &impl Serialize,
        limit: Duration,
    ) -> Result<R, Error> {
        let failed = || Error::system(format!("ask {} `{}`", I::KIND.noun, self.info.name()));
        let wait = ReplyWait { device: self, begun: Instant::now(), limit };
        let path = self.run_directory.device_directory(self.info.name()).control();
        let mut stream = wait.connect(&path)?;
        stream.set_write_timeout(Some(TIMEOUT)).map_err(failed())?;
        match write_line(&mut stream, command) {
            Err(e) if has_ended(&e) => return Err(wait.ended()),
            written => written.map_err(failed())?,
        }
        let reply = serde_json::from_slice(&wait.read_line(&mut stream)?);
        reply.map_err(|_| self.unexpected_reply())
    }

    /// The error for a reply that does not fit the command.
    #[must_use]
    pub fn unexpected_reply(&self) -> Error {
        Error::Failed(format!(
            "{} `{}` sent an unexpected reply: is it of this version?",
            I::KIND.noun,
            self.info.name()
        ))
    }
}

fn killed<I: DeviceInfo>(name: &str) -> Error {
    let DeviceKind { noun, end, again, .. } = I::KIND;
    let again = again.map_or_else(String::new, |again| {
        format!("start it again with `trimtab {noun} {again} {name} …`, or ")
    });
    let what = "its server was killed";
    Error::Failed(format!("`{name}`: {what}; {again}clean up with `trimtab {noun} {end} {name}`"))
}

/// A wait for a device's server, which may be unable to answer.
struct ReplyWait<'a, I> {
    device: &'a Client<I>,
    begun: Instant,
    limit: Duration,
}

impl<I: DeviceInfo> ReplyWait<'_, I> {
    /// Whether waiting still makes sense.
    fn check(&self) -> Result<(), Error> {
        let name = self.device.info.name();
        let waited = self.begun.elapsed();
        let Some(holder) = Holder::of(&self.device.run_directory.device_directory(name).lock())
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
                    "{0} `{name}` does not answer (its process {pid} is stopped): continue it \
                     with `kill -CONT {pid}`, or end it with `trimtab {0} {1} --force {name}`",
                    I::KIND.noun,
                    I::KIND.end
                )))
            }
            Condition::Dying => Err(killed::<I>(name)),
            _ if waited > self.limit => Err(self.no_answer("busy or blocked")),
            _ => Ok(()),
        }
    }

    fn no_answer(&self, is: &str) -> Error {
        let (name, pid) = (self.device.info.name(), self.device.info.pid());
        let limit = self.limit.as_secs();
        Error::NoAnswer(format!(
            "{0} `{name}` does not answer within {limit} s (its process {pid} is {is}): wait, or \
             end it with `trimtab {0} {1} --force {name}`",
            I::KIND.noun,
            I::KIND.end
        ))
    }

    fn failed(&self) -> impl FnOnce(io::Error) -> Error {
        Error::system(format!("ask {} `{}`", I::KIND.noun, self.device.info.name()))
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
        let name = self.device.info.name();
        loop {
            match self.device.run_directory.find(name) {
                Ok(Status::Dead) => return killed::<I>(name),
                Err(error) => return error,
                Ok(_) => {}
            }
            if let Err(error) = self.check() {
                // It may have shut down in order while that was found out.
                return self.device.run_directory.find(name).err().unwrap_or(error);
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
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    if let Err(error) = self.check() {
                        line.extend(last_words(stream).ok_or(error)?);
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if has_ended(&e) => return Err(self.ended()),
                Err(e) => return Err(self.failed()(e)),
            }
        }
        // It also closes the connection after a command that it cannot parse.
        if line.is_empty()
            && matches!(self.device.run_directory.find(self.device.info.name())?, Status::Dead)
        {
            return Err(killed::<I>(self.device.info.name()));
        }
        Ok(line)
    }
}

/// What a server has sent that is taken for dead or busy: it may have replied, and ended as it should,
/// while that was found out. `None`: nothing.
fn last_words(stream: &mut UnixStream) -> Option<Vec<u8>> {
    let mut piece = vec![0; 1 << 16];
    let sent = stream.read(&mut piece).ok().filter(|&sent| sent > 0)?;
    piece.truncate(sent);
    Some(piece)
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

/// Writes a command or a reply.
///
/// # Errors
/// The other end has closed the connection, or does not read.
pub fn write_line(stream: &mut UnixStream, what: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(what)?;
    line.push(b'\n');
    stream.write_all(&line)
}

/// Reads a command or a reply.
///
/// # Errors
/// The other end has closed the connection, or sends something else.
pub fn read_line<T: for<'de> Deserialize<'de>>(stream: &UnixStream) -> io::Result<T> {
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    Ok(serde_json::from_str(&line)?)
}

/// Takes the next client's connection, if one comes within a tenth of a second.
///
/// # Errors
/// The socket fails.
pub fn next_client(control: &UnixListener) -> Result<Option<UnixStream>, Error> {
    let mut waiting = [PollFd::new(control, PollFlags::IN)];
    match poll(&mut waiting, Some(&ACCEPT)) {
        Ok(0) | Err(rustix::io::Errno::INTR) => Ok(None),
        Ok(_) => Ok(control.accept().ok().map(|(stream, _)| stream)),
        Err(e) => Err(Error::system("wait for commands")(e)),
    }
}

/// Reads a client's command. None: the client timed out, for instance while this server was
/// stopped. It was told that nothing was done, and may have acted on that.
///
/// # Errors
/// The client hangs up, or sends something else.
pub fn read_command<T: DeserializeOwned>(stream: &UnixStream) -> io::Result<Option<T>> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let command = read_line(stream)?;
    Ok((!is_disconnected(stream)).then_some(command))
}

/// Whether the client has closed the connection.
fn is_disconnected(stream: &UnixStream) -> bool {
    let mut peer = [PollFd::new(stream, PollFlags::RDHUP)];
    let seen = poll(&mut peer, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
    seen.is_ok() && peer[0].revents().intersects(PollFlags::HUP | PollFlags::RDHUP)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn what_a_server_sent_before_it_ended_is_read() {
        let (mut server, mut client) = UnixStream::pair().unwrap();
        client.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        assert_eq!(last_words(&mut client), None, "it has sent nothing yet");
        server.write_all(b"{}\n").unwrap();
        drop(server);
        assert_eq!(last_words(&mut client).as_deref(), Some(&b"{}\n"[..]));
        assert_eq!(last_words(&mut client), None, "there is no more");
    }
}
