//! A drive's block device, as its server has it: through helpers only.

use std::path::PathBuf;

use trimtab_io::Nanos;

use super::drive_directory::DriveDirectory;
use super::error::Error;
use super::helper::{Helper, Job, Outcome};
use super::spec::Spec;
use super::{fuse, loopdev};

/// The loop device over a drive's file. Detached when dropped; the kernel does that as soon
/// as nobody has it open. Its file must be served then, so that what was written and is not
/// yet there gets there.
pub(super) struct Device {
    /// `/dev/loop…`
    pub(super) path: PathBuf,
    /// What its scheduler was, if it has another now.
    pub(super) scheduler_before: Option<String>,
    helper: Helper,
    job: PathBuf,
}

impl Device {
    /// Attaches a device to the drive's file.
    pub(super) fn attach(
        helper: Helper,
        place: &DriveDirectory,
        spec: &Spec,
    ) -> Result<Self, Error> {
        let file = fuse::file_in(&place.mount());
        let (block_bytes, scheduler) = (spec.block_bytes, spec.scheduler.clone());
        let job = place.job();
        match helper.run(&job, &Job::Attach { file, block_bytes, scheduler })? {
            Outcome::Attached { device: path, scheduler_before } => {
                Ok(Self { path, scheduler_before, helper, job })
            }
            _ => Err(odd()),
        }
    }

    /// The kernel's name for it.
    pub(super) fn name(&self) -> &str {
        loopdev::name(&self.path)
    }

    /// Reads from these places, one after the other: what, and how long each took.
    pub(super) fn read(&self, places: Vec<u64>) -> Result<Vec<(u64, Nanos)>, Error> {
        match self.helper.run(&self.job, &Job::Read { device: self.path.clone(), places })? {
            Outcome::Read(seen) => {
                Ok(seen.into_iter().map(|(offset, time)| (offset, Nanos(time))).collect())
            }
            _ => Err(odd()),
        }
    }

    /// How it is used, if detaching it would pull it away under somebody.
    pub(super) fn in_use(&self) -> Result<Option<String>, Error> {
        match self.helper.run(&self.job, &Job::Look { device: self.path.clone() })? {
            Outcome::InUse(why) => Ok(why),
            _ => Err(odd()),
        }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let (device, scheduler_before) = (self.path.clone(), self.scheduler_before.take());
        // What this leaves is detached when nothing is served any more, without what programs
        // have written and not flushed.
        _ = self.helper.run(&self.job, &Job::Detach { device, scheduler_before });
    }
}

fn odd() -> Error {
    Error::Failed("the drive's helper gave an odd answer: is it of this version?".to_owned())
}
