//! The file system with one file, over which the loop device is attached.
//!
//! The FUSE protocol is implemented here (wire.rs), a dozen messages: a server's thread can then wait
//! for requests together with whatever else it waits for, which a library's own loop does not allow.

mod file;
mod wire;

use std::ffi::CString;
use std::io::IoSlice;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};

use super::directory::DeviceDirectory;
use super::error::Error;
use crate::requests::{DiskRequest, Found, Taken, Ticket, TicketKind};
use crate::served::ServedDisk;
use file::{Handled, ServedFile};
use wire::Message;

/// The type of its mounts, by which served devices are recognised.
pub(crate) const FILE_SYSTEM: &str = trimtab_block::EMULATED_FILE_SYSTEM;
/// The only file.
pub(crate) const FILE: &str = "disk";
/// The longest read or write; the kernel splits longer ones.
const MAX_BYTES: u32 = 1 << 20;

/// A connection to the kernel: requests come in, answers go out. Copies are the same connection.
#[derive(Clone, Debug)]
pub(crate) struct Connection(Arc<OwnedFd>);

impl Connection {
    /// Bytes that a buffer for messages must have: a write's data, its header, and spare space that
    /// the kernel requires.
    pub(crate) const MESSAGE_BYTES: usize = MAX_BYTES as usize + 4096;

    /// Takes the next message, without waiting.
    ///
    /// # Errors
    /// [`Errno::AGAIN`]: there is none. [`Errno::NOENT`] and [`Errno::INTR`]: try again. Others: the
    /// file system was unmounted, or aborted.
    fn receive(&self, message: &mut [u8]) -> rustix::io::Result<usize> {
        rustix::io::read(&self.0, message)
    }

    /// Answers a request.
    pub(crate) fn answer(&self, ticket: Ticket, outcome: Result<&[u8], Errno>) {
        match (outcome, ticket.kind) {
            (Ok(_), TicketKind::Write) => {
                self.reply(ticket.number, Ok(&wire::wrote(ticket.length)))
            }
            (outcome, _) => self.reply(ticket.number, outcome),
        }
    }

    /// Answers a message by its number. The kernel may have dropped the request: then nothing waits
    /// for the answer, and it is ignored.
    fn reply(&self, unique: u64, outcome: Result<&[u8], Errno>) {
        let header = wire::header(unique, outcome.map(<[u8]>::len));
        let parts = [IoSlice::new(&header), IoSlice::new(outcome.unwrap_or_default())];
        _ = rustix::io::writev(&self.0, &parts);
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The requests of a mounted file.
#[derive(Debug)]
pub(crate) struct FuseRequests {
    connection: Connection,
    file: ServedFile,
}

impl FuseRequests {
    pub(crate) const fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Takes the next request, and answers messages that are none. A write's data are in `buffer`.
    pub(crate) fn take<'a>(&mut self, buffer: &'a mut [u8]) -> Taken<'a> {
        loop {
            let length = match self.connection.receive(buffer) {
                Ok(length) => length,
                Err(Errno::AGAIN) => return Taken::Nothing,
                // The request was dropped meanwhile, or a signal arrived.
                Err(Errno::NOENT | Errno::INTR) => continue,
                // Unmounted or aborted.
                Err(_) => return Taken::Ended,
            };
            let Some(message) = Message::parse(&buffer[..length]) else { continue };
            let number = message.unique;
            let ticket = |kind, length| Ticket { number, kind, length };
            let (ticket, found) = match self.file.handle(&message) {
                Handled::Answer(bytes) => {
                    self.connection.reply(number, Ok(&bytes));
                    continue;
                }
                Handled::Refusal(errno) => {
                    self.connection.reply(number, Err(errno));
                    continue;
                }
                Handled::Silence => continue,
                Handled::Request(DiskRequest::Read { offset, length }) => {
                    (ticket(TicketKind::Read, length as u32), Found::Read { offset, length })
                }
                Handled::Request(DiskRequest::Write { offset, data }) => {
                    let bytes = length - data.len()..length;
                    let written = ticket(TicketKind::Write, data.len() as u32);
                    (written, Found::Write { offset, bytes })
                }
                Handled::Request(DiskRequest::Zero { offset, length }) => {
                    (ticket(TicketKind::Other, 0), Found::Zero { offset, length })
                }
                Handled::Request(DiskRequest::Flush) => {
                    (ticket(TicketKind::Other, 0), Found::Flush)
                }
            };
            return Taken::Request(ticket, found.with(buffer));
        }
    }
}

/// Mounts the file system with a device's file in its directory.
pub(crate) fn mount_file(
    directory: &DeviceDirectory,
    disk: &ServedDisk,
) -> Result<FuseRequests, Error> {
    let device = open_device()?;
    mount(&device, &directory.mount())?;
    if let Err(error) = directory.record_connection() {
        _ = directory.take_down();
        return Err(error);
    }
    let ServedDisk { capacity, makes_zeroes, discard_bytes, .. } = *disk;
    let file = ServedFile { capacity, makes_zeroes, discard_bytes };
    Ok(FuseRequests { connection: Connection(Arc::new(device)), file })
}

/// The device's file in its mount.
pub(crate) fn file_in(directory: &Path) -> PathBuf {
    directory.join(FILE)
}

/// Unmounts the directory if anything is mounted there, a dead server's mount included; lazily if
/// it is in use.
pub(crate) fn unmount(directory: &Path) -> rustix::io::Result<()> {
    rustix::mount::unmount(directory, UnmountFlags::DETACH | UnmountFlags::FORCE)
}

/// Fails all requests to the mount, and unmounts it if no file of it is open.
pub(crate) fn unmount_idle(directory: &Path) -> rustix::io::Result<()> {
    rustix::mount::unmount(directory, UnmountFlags::FORCE)
}

/// Opens the FUSE device, and so checks that the kernel has it.
///
/// # Errors
/// It has none, or the process lacks privileges.
pub(crate) fn open_device() -> Result<OwnedFd, Error> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK;
    rustix::fs::open("/dev/fuse", flags, Mode::empty()).map_err(|e| match e {
        Errno::NOENT | Errno::NODEV => Error::Failed(
            "this kernel has no FUSE (/dev/fuse): load the module fuse, or simulate with \
             `trimtab sim run`"
                .to_owned(),
        ),
        Errno::ACCESS | Errno::PERM => Error::Privilege,
        e => Error::system("open /dev/fuse")(e),
    })
}

fn mount(device: &OwnedFd, directory: &Path) -> Result<(), Error> {
    let options = format!("fd={},rootmode=40000,user_id=0,group_id=0", device.as_raw_fd());
    let options = CString::new(options).expect("no zero in it");
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    rustix::mount::mount("trimtab", directory, FILE_SYSTEM, flags, options.as_c_str()).map_err(
        |e| match e {
            Errno::PERM => Error::Privilege,
            e => Error::system(format!("mount a file system at {}", directory.display()))(e),
        },
    )
}
