//! The server's handle to its block device, which it accesses through helpers only.

use std::path::PathBuf;

use trimtab_io::Nanos;

use super::directory::DeviceDirectory;
use super::error::Error;
use super::helper::{Helper, Job, Outcome};
use super::{fuse, loopdev};

/// How a loop device is attached.
#[derive(Clone, Debug)]
pub struct Attachment {
    /// Bytes of a block: 512, 1024, 2048 or 4096.
    pub block_bytes: u32,
    /// The kernel's I/O scheduler.
    pub scheduler: String,
    /// Whether the kernel takes it for a disk with platters.
    pub rotational: bool,
}

/// The loop device over a device's file. Detached when dropped; the kernel does that as soon as no
/// process has it open. The file must still be served then, so that the kernel can write back what
/// it holds.
#[derive(Debug)]
pub struct Device {
    /// `/dev/loop…`
    pub path: PathBuf,
    /// Its I/O scheduler before, if it was changed.
    pub scheduler_before: Option<String>,
    helper: Helper,
    job: PathBuf,
}

impl Device {
    /// Attaches a device to the file in a directory's mount.
    ///
    /// # Errors
    /// The machine lacks something, or does not take the settings.
    pub fn attach(
        helper: Helper,
        directory: &DeviceDirectory,
        attachment: &Attachment,
    ) -> Result<Self, Error> {
        let file = fuse::file_in(&directory.mount());
        let Attachment { block_bytes, scheduler, rotational } = attachment.clone();
        let job = directory.job();
        match helper.run(&job, &Job::Attach { file, block_bytes, scheduler, rotational })? {
            Outcome::Attached { device: path, scheduler_before } => {
                Ok(Self { path, scheduler_before, helper, job })
            }
            _ => Err(unexpected_reply()),
        }
    }

    /// The kernel's name for it.
    #[must_use]
    pub fn name(&self) -> &str {
        loopdev::name(&self.path)
    }

    /// Reads these pages, one after the other; returns each offset and latency.
    ///
    /// # Errors
    /// A read fails.
    pub fn read(&self, offsets: Vec<u64>) -> Result<Vec<(u64, Nanos)>, Error> {
        match self.helper.run(&self.job, &Job::Read { device: self.path.clone(), offsets })? {
            Outcome::Read(seen) => {
                Ok(seen.into_iter().map(|(offset, time)| (offset, Nanos(time))).collect())
            }
            _ => Err(unexpected_reply()),
        }
    }

    /// How the device is used, if detaching it would break a user.
    ///
    /// # Errors
    /// That cannot be determined.
    pub fn in_use(&self) -> Result<Option<String>, Error> {
        match self.helper.run(&self.job, &Job::Look { device: self.path.clone() })? {
            Outcome::InUse(why) => Ok(why),
            _ => Err(unexpected_reply()),
        }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let (device, scheduler_before) = (self.path.clone(), self.scheduler_before.take());
        // If this fails, the device is detached when its file is not served any more; writes that
        // programs have not flushed are lost then.
        _ = self.helper.run(&self.job, &Job::Detach { device, scheduler_before });
    }
}

fn unexpected_reply() -> Error {
    Error::Failed("the device's helper sent an unexpected reply: is it of this version?".to_owned())
}
