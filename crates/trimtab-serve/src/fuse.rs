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
use std::thread::JoinHandle;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};

use super::directory::DeviceDirectory;
use super::error::Error;
pub use file::{FileRequest, Handled, ServedFile};
pub use wire::{Message, wrote};

/// The type of its mounts, by which served devices are recognised.
pub(crate) const FILE_SYSTEM: &str = trimtab_block::EMULATED_FILE_SYSTEM;
/// The only file.
pub(crate) const FILE: &str = "disk";
/// The longest read or write; the kernel splits longer ones.
const MAX_BYTES: u32 = 1 << 20;

/// A connection to the kernel: requests come in, answers go out. Copies are the same connection.
#[derive(Clone, Debug)]
pub struct Connection(Arc<OwnedFd>);

impl Connection {
    /// Bytes that a buffer for messages must have: a write's data, its header, and spare space that
    /// the kernel requires.
    pub const MESSAGE_BYTES: usize = MAX_BYTES as usize + 4096;

    /// Takes the next message, without waiting.
    ///
    /// # Errors
    /// [`Errno::AGAIN`]: there is none. [`Errno::NOENT`] and [`Errno::INTR`]: try again. Others: the
    /// file system was unmounted, or aborted.
    pub fn receive(&self, message: &mut [u8]) -> rustix::io::Result<usize> {
        rustix::io::read(&self.0, message)
    }

    /// Answers a message by its number. The kernel may have dropped the request: then nothing waits
    /// for the answer, and it is ignored.
    pub fn reply(&self, unique: u64, outcome: Result<&[u8], Errno>) {
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

/// A mounted device file. Unmounted when dropped.
///
/// The process that has it must not touch the mount, nor the device over it: it would wait for
/// itself, and could not be killed (helper.rs).
pub struct Mounted {
    directory: DeviceDirectory,
    session: Option<JoinHandle<()>>,
}

impl Mounted {
    /// Mounts the file system in a device's directory. `start` starts the thread that serves it, and
    /// that ends when the connection does.
    ///
    /// # Errors
    /// The kernel has no FUSE, or the process lacks privileges; or those of `start`.
    pub fn new(
        directory: &DeviceDirectory,
        start: impl FnOnce(Connection) -> Result<JoinHandle<()>, Error>,
    ) -> Result<Self, Error> {
        let device = open_device()?;
        mount(&device, &directory.mount())?;
        let mut mounted = Self { directory: directory.clone(), session: None };
        directory.record_connection()?;
        mounted.session = Some(start(Connection(Arc::new(device)))?);
        Ok(mounted)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Outstanding requests end in errors.
        _ = self.directory.take_down();
        if let Some(session) = self.session.take() {
            _ = session.join();
        }
    }
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
pub fn open_device() -> Result<OwnedFd, Error> {
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
