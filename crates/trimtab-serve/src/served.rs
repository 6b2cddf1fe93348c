//! A device's end at its server: what the kernel has of it, and the thread that serves it.

use std::cell::Cell;
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};

use serde::{Deserialize, Serialize};

use crate::backend::Backend;
use crate::directory::DeviceDirectory;
use crate::error::Error;
use crate::fuse;
use crate::requests::{Link, Requests};
use crate::ublk::{Control, UblkDevice};

/// The disk that programs see.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServedDisk {
    /// Its bytes.
    pub capacity: u64,
    /// Bytes of a block: 512, 1024, 2048 or 4096.
    pub block_bytes: u32,
    /// The kernel's I/O scheduler.
    pub scheduler: String,
    /// Whether the kernel takes it for a disk with platters.
    pub rotational: bool,
    /// Whether it makes zeroes without data
    /// ([`DiskRequest::Zero`](crate::DiskRequest::Zero)); otherwise the kernel writes them.
    pub makes_zeroes: bool,
    /// The granularity of discards, bytes: programs need not ask for smaller ones.
    pub discard_bytes: u32,
}

/// What serves requests, made and run by a thread of its own.
pub type Serve = Box<dyn FnOnce()>;

/// A device that is served: a mounted file, or a ublk device. Taken down when dropped, when the thread
/// has done all it had to do. The thread itself is not waited for: it cannot end while the kernel has a request
/// of its io_uring for a device that does not answer.
///
/// The process that has it must not touch the device, nor the mount: it would wait for itself, and
/// could not be killed (helper.rs).
pub struct Served {
    directory: DeviceDirectory,
    disk: ServedDisk,
    ublk: Option<UblkDevice>,
    /// Whether it was taken over from a server that was killed.
    is_taken_over: bool,
    is_attached: Cell<bool>,
    /// Disconnected when the thread has done everything.
    session: Option<Receiver<Never>>,
}

/// Is never sent.
enum Never {}

impl Served {
    /// Serves a device. `prepare` is called in the thread that serves it, and returns what that does
    /// until the requests end; the block device itself is
    /// [attached](crate::Device::attach) afterwards.
    ///
    /// # Errors
    /// The kernel lacks something, or the process privileges; or those of `prepare`.
    pub fn new(
        directory: &DeviceDirectory,
        backend: Backend,
        disk: ServedDisk,
        prepare: impl FnOnce(Requests) -> Result<Serve, Error> + Send + 'static,
    ) -> Result<Self, Error> {
        match backend {
            Backend::Fuse => {
                let link = Link::Fuse(fuse::mount_file(directory, &disk)?);
                Self::over(directory, disk, link, None, false, prepare)
            }
            Backend::Ublk => {
                let cookie = directory.record_ublk()?;
                let device = Control::open()?.add(cookie, &disk)?;
                let link = Link::Ublk(device);
                Self::over(directory, disk, link, Some(device), false, prepare)
            }
        }
    }

    /// Takes over the ublk device of a server that was killed, from its directory
    /// ([`RunDirectory::claim_waiting`](crate::RunDirectory::claim_waiting)).
    ///
    /// # Errors
    /// It is of another size, or cannot be taken over; or those of `prepare`.
    pub fn take_over(
        directory: &DeviceDirectory,
        disk: ServedDisk,
        prepare: impl FnOnce(Requests) -> Result<Serve, Error> + Send + 'static,
    ) -> Result<Self, Error> {
        let mut control = Control::open()?;
        let device = directory.waiting(&mut control);
        let device = device.ok_or(Error::Failed("no device waits any more".to_owned()))?;
        let failed = || Error::system(format!("take over {}", device.path().display()));
        let (capacity, block_bytes) = control.size(device.id).map_err(failed())?;
        if (capacity, block_bytes) != (disk.capacity, disk.block_bytes) {
            return Err(Error::BadInput(format!(
                "{} has {capacity} bytes in blocks of {block_bytes}, and what is to take it over \
                 {} in blocks of {}",
                device.path().display(),
                disk.capacity,
                disk.block_bytes
            )));
        }
        control.begin_recovery(device.id).map_err(failed())?;
        Self::over(directory, disk, Link::Ublk(device), Some(device), true, prepare)
    }

    fn over(
        directory: &DeviceDirectory,
        disk: ServedDisk,
        link: Link,
        ublk: Option<UblkDevice>,
        is_taken_over: bool,
        prepare: impl FnOnce(Requests) -> Result<Serve, Error> + Send + 'static,
    ) -> Result<Self, Error> {
        let is_attached = Cell::new(false);
        let directory = directory.clone();
        let mut served = Self { directory, disk, ublk, is_taken_over, is_attached, session: None };
        let (started, result) = sync_channel(1);
        let (running, session): (Sender<Never>, _) = channel();
        // Queues and rings belong to the thread that makes them.
        let run = move || {
            match Requests::open(link).and_then(prepare) {
                Ok(serve) => {
                    _ = started.send(Ok(()));
                    serve();
                }
                Err(error) => _ = started.send(Err(error)),
            }
            drop(running);
        };
        let thread = std::thread::Builder::new().name("requests".to_owned()).spawn(run);
        thread.map_err(Error::system("start a thread"))?;
        served.session = Some(session);
        let ended = |_| Error::Failed("the device's thread ended at its start".to_owned());
        result.recv().map_err(ended)??;
        Ok(served)
    }

    pub(crate) const fn directory(&self) -> &DeviceDirectory {
        &self.directory
    }

    pub(crate) const fn disk(&self) -> &ServedDisk {
        &self.disk
    }

    /// The ublk device, and whether it was taken over.
    pub(crate) fn ublk(&self) -> Option<(UblkDevice, bool)> {
        self.ublk.map(|device| (device, self.is_taken_over))
    }

    /// Its block device has been attached.
    pub(crate) fn attached(&self) {
        self.is_attached.set(true);
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if self.is_taken_over && !self.is_attached.get() {
            // It goes on waiting for a server, and the thread ends with the process.
            return;
        }
        // Outstanding requests end in errors.
        _ = self.directory.take_down();
        if let Some(session) = self.session.take() {
            _ = session.recv();
        }
    }
}
