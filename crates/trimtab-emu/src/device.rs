//! The server's handle to its drive's block device, which it accesses through helpers only.

use std::path::PathBuf;

use trimtab_device::DriveProfile;
use trimtab_io::Nanos;

use super::drive_directory::DriveDirectory;
use super::error::Error;
use super::helper::{Helper, Job, Outcome};
use super::spec::Spec;
use super::{fuse, loopdev};

/// The loop device over a drive's file. Detached when dropped; the kernel does that as soon as no
/// process has it open. The file must still be served then, so that the kernel can write back what
/// it holds.
pub(super) struct Device {
    /// `/dev/loop…`
    pub(super) path: PathBuf,
    /// Its I/O scheduler before, if it was changed.
    pub(super) scheduler_before: Option<String>,
    helper: Helper,
    job: PathBuf,
}

impl Device {
    /// Attaches a device to the drive's file.
    pub(super) fn attach(
        helper: Helper,
        directory: &DriveDirectory,
        spec: &Spec,
    ) -> Result<Self, Error> {
        let file = fuse::file_in(&directory.mount());
        let (block_bytes, scheduler) = (spec.block_bytes, spec.scheduler.clone());
        let rotational = matches!(spec.profile, DriveProfile::Disk(_));
        let job = directory.job();
        match helper.run(&job, &Job::Attach { file, block_bytes, scheduler, rotational })? {
            Outcome::Attached { device: path, scheduler_before } => {
                Ok(Self { path, scheduler_before, helper, job })
            }
            _ => Err(unexpected_reply()),
        }
    }

    /// The kernel's name for it.
    pub(super) fn name(&self) -> &str {
        loopdev::name(&self.path)
    }

    /// Reads at these offsets, one after the other; returns each offset and latency.
    pub(super) fn read(&self, offsets: Vec<u64>) -> Result<Vec<(u64, Nanos)>, Error> {
        match self.helper.run(&self.job, &Job::Read { device: self.path.clone(), offsets })? {
            Outcome::Read(seen) => {
                Ok(seen.into_iter().map(|(offset, time)| (offset, Nanos(time))).collect())
            }
            _ => Err(unexpected_reply()),
        }
    }

    /// How the device is used, if detaching it would break a user.
    pub(super) fn in_use(&self) -> Result<Option<String>, Error> {
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
    Error::Failed("the drive's helper sent an unexpected reply: is it of this version?".to_owned())
}
