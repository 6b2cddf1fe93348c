//! The server's handle to its block device, which it accesses through helpers only.

use std::path::PathBuf;

use trimtab_io::Nanos;

use super::error::Error;
use super::helper::{Helper, Job, Outcome};
use super::served::{Served, ServedDisk};
use super::{fuse, loopdev};

/// The block device that programs use: a ublk device, or a loop device over a device's file. Detached
/// when dropped; a loop device as soon as no process has it open. The device must still be served
/// then, so that the kernel can write back what it holds.
#[derive(Debug)]
pub struct Device {
    /// `/dev/ublkb…` or `/dev/loop…`
    pub path: PathBuf,
    /// A loop device's I/O scheduler before, if it was changed.
    pub scheduler_before: Option<String>,
    /// Of a ublk device.
    ublk: Option<u32>,
    helper: Helper,
    job: PathBuf,
}

impl Device {
    /// Attaches the block device of what is served.
    ///
    /// # Errors
    /// The machine lacks something, or does not take the settings.
    pub fn attach(helper: Helper, served: &Served) -> Result<Self, Error> {
        let directory = served.directory();
        let ServedDisk { block_bytes, scheduler, rotational, .. } = served.disk().clone();
        let (job, ublk) = (directory.job(), served.ublk());
        let attach = match ublk {
            Some((device, is_taken_over)) => Job::Start {
                device: device.id,
                server: std::process::id(),
                // One that was taken over has what it had.
                scheduler: (!is_taken_over).then_some(scheduler),
            },
            None => {
                let file = fuse::file_in(&directory.mount());
                Job::Attach { file, block_bytes, scheduler, rotational }
            }
        };
        match helper.run(&job, &attach)? {
            Outcome::Attached { device: path, scheduler_before } => {
                served.attached();
                let ublk = ublk.map(|(device, _)| device.id);
                Ok(Self { path, scheduler_before, ublk, helper, job })
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
        let job = match self.ublk {
            Some(device) => Job::Stop { device },
            None => Job::Detach { device, scheduler_before },
        };
        // If this fails, the device is detached when its file is not served any more; writes that
        // programs have not flushed are lost then.
        _ = self.helper.run(&self.job, &job);
    }
}

fn unexpected_reply() -> Error {
    Error::Failed("the device's helper sent an unexpected reply: is it of this version?".to_owned())
}
