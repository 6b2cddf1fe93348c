//! The back end: one file in a FUSE file system, with a loop device over it.
//!
//! ```text
//!   block device ─> loop ─> FUSE ─> Requests ─> Engine ─> reply
//! ```
//!
//! The FUSE protocol is implemented here (wire.rs): one thread waits both for requests and for
//! the times at which answers are due, which a library's own loop does not allow. On a kernel
//! with ublk, ublk would replace this module and the loop device.

mod requests;
mod wire;
mod work;

use std::ffi::CString;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, UnmountFlags};

use super::cpu_idle::UseNotifier;
use super::drive_directory::DriveDirectory;
use super::engine::Engine;
use super::error::Error;
use super::store::Store;
use requests::Requests;
pub(super) use requests::Ticket;

/// The type of its mounts, by which emulated drives are recognised.
pub(crate) const FILE_SYSTEM: &str = trimtab_block::EMULATED_FILE_SYSTEM;
/// The only file.
pub(super) const FILE: &str = "disk";
/// Requests that the kernel may have outstanding (`max_background`); its default of 12 would
/// throttle the drive.
const MAX_IN_FLIGHT: u16 = 512;

/// A mounted drive file. Unmounted when dropped.
///
/// The process that has it must not touch the mount, nor the device over it: it would wait for
/// itself, and could not be killed (helper.rs).
pub(super) struct Mounted {
    directory: DriveDirectory,
    session: Option<JoinHandle<()>>,
}

impl Mounted {
    /// Mounts a file of `capacity` bytes in a drive's directory.
    pub(super) fn new(
        directory: &DriveDirectory,
        capacity: u64,
        engine: Arc<Engine<Ticket>>,
        store: Arc<Store>,
        waker: Option<UseNotifier>,
    ) -> Result<Self, Error> {
        let device = open_device()?;
        mount(&device, &directory.mount())?;
        let mut mounted = Self { directory: directory.clone(), session: None };
        directory.record_connection()?;
        let requests = Requests::new(Arc::new(device), capacity, store, Arc::clone(&engine), waker);
        let mut requests = requests?;
        let serve = move || engine.serve(&mut requests);
        let thread = std::thread::Builder::new().name("requests".to_owned()).spawn(serve);
        mounted.session = Some(thread.map_err(Error::system("start a thread"))?);
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

/// The drive's file in its mount.
pub(super) fn file_in(directory: &Path) -> PathBuf {
    directory.join(FILE)
}

/// Unmounts the directory if anything is mounted there, a dead server's mount included; lazily if
/// it is in use.
pub(super) fn unmount(directory: &Path) -> rustix::io::Result<()> {
    rustix::mount::unmount(directory, UnmountFlags::DETACH | UnmountFlags::FORCE)
}

/// Fails all requests to the mount, and unmounts it if no file of it is open.
pub(super) fn unmount_idle(directory: &Path) -> rustix::io::Result<()> {
    rustix::mount::unmount(directory, UnmountFlags::FORCE)
}

/// Opens the FUSE device, and so checks that the kernel has it.
pub(super) fn open_device() -> Result<OwnedFd, Error> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK;
    rustix::fs::open("/dev/fuse", flags, Mode::empty()).map_err(|e| match e {
        rustix::io::Errno::NOENT | rustix::io::Errno::NODEV => Error::Failed(
            "this kernel has no FUSE (/dev/fuse): load the module fuse, or simulate with \
             `trimtab sim run`"
                .to_owned(),
        ),
        rustix::io::Errno::ACCESS | rustix::io::Errno::PERM => Error::Privilege,
        e => Error::system("open /dev/fuse")(e),
    })
}

fn mount(device: &OwnedFd, directory: &Path) -> Result<(), Error> {
    let options = format!("fd={},rootmode=40000,user_id=0,group_id=0", device.as_raw_fd());
    let options = CString::new(options).expect("no zero in it");
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    rustix::mount::mount("trimtab", directory, FILE_SYSTEM, flags, options.as_c_str()).map_err(
        |e| match e {
            rustix::io::Errno::PERM => Error::Privilege,
            e => Error::system(format!("mount a file system at {}", directory.display()))(e),
        },
    )
}
