//! The run directory: one directory per device, for commands and for cleaning up.
//!
//! ```text
//!   /run/trimtab/drives/NAME/        (arrays/NAME for an array)
//!     lock        held while the server lives; contains its process number
//!     connection  the number of its FUSE connection
//!     ublk        the cookie by which its ublk device is found
//!     flags       memory in which an array flags reads of a drive
//!     job         the helper's current job; locked while it runs
//!     info.json   the device's description
//!     control     the socket for commands
//!     log         the server's messages
//!     mount/      the file system with the device's file
//! ```
//!
//! Other parts of trimtab, run by other users, have directories in `/run/trimtab` too: so that is
//! readable by all, and those of devices by their owner only.

use std::fs::{self, File};
use std::io;
use std::marker::PhantomData;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, FlockOperation};
use serde::Serialize;
use serde::de::DeserializeOwned;
use trimtab_io::{RUN_VARIABLE, run_directory};

use super::directory::{Claimed, DeviceDirectory, WhatWaits};
use super::error::Error;
use super::holder::{Condition, Holder};

/// A kind of device that a process serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceKind {
    /// What a device is, in messages. It is the command of its kind too.
    pub noun: &'static str,
    /// The directory of all of them, in the run directory.
    pub directory: &'static str,
    /// The verb of the command that ends one, and removes what a killed server has left.
    pub end: &'static str,
    /// The verb of the command that starts one again whose server was killed, if its content is not
    /// lost with the server.
    pub again: Option<&'static str>,
}

impl DeviceKind {
    /// Emulated drives.
    pub const DRIVE: Self = Self { noun: "drive", directory: "drives", end: "remove", again: None };
    /// Arrays.
    pub const ARRAY: Self =
        Self { noun: "array", directory: "arrays", end: "stop", again: Some("assemble") };
}

/// What is known of each device of a kind: its description, in `info.json`.
pub trait DeviceInfo: Clone + Serialize + DeserializeOwned {
    /// Which kind.
    const KIND: DeviceKind;

    /// Its name.
    fn name(&self) -> &str;

    /// Its block device. The description has it as the key `device`, and the loop device's I/O
    /// scheduler before, if it was changed, as `scheduler_before`: the process that takes the
    /// device down restores that.
    fn device(&self) -> &Path;

    /// The server's process number.
    fn pid(&self) -> u32;
}

/// The devices' directories on this machine (or of one test).
#[derive(Clone, Debug)]
pub struct RunDirectory<I> {
    devices: PathBuf,
    kind: PhantomData<I>,
}

/// A device's status.
#[derive(Clone, Debug, PartialEq)]
pub enum Status<I> {
    /// Its server lives.
    Running(I),
    /// Its server was stopped, by a signal or a debugger.
    Stopped(I),
    /// Its server is starting or shutting down.
    Changing,
    /// Its server was killed; its device and mount may remain.
    Dead,
}

/// Checks a device's name: letters, digits, `-` and `_`, at most 32.
///
/// # Errors
/// It has others, or too many.
pub fn check_name(noun: &str, name: &str) -> Result<(), Error> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if (1..=32).contains(&name.len()) && name.chars().all(fits) && !name.starts_with('-') {
        return Ok(());
    }
    let article = if noun.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
    Err(Error::BadInput(format!(
        "`{name}`: {article} {noun}'s name is 1 to 32 letters, digits, - and _, no - first"
    )))
}

impl<I: DeviceInfo> RunDirectory<I> {
    /// `$TRIMTAB_RUN`, or `/run/trimtab`.
    #[must_use]
    pub fn from_environment() -> Self {
        Self { devices: run_directory().join(I::KIND.directory), kind: PhantomData }
    }

    /// Checks that devices' directories can be made here.
    ///
    /// # Errors
    /// The directory is not writable.
    pub fn check(&self) -> Result<(), Error> {
        let is_there = self.devices.exists();
        let made = self.make_run_directory().and_then(|()| self.make_devices_directory());
        let access = made.and_then(|()| {
            Ok(rustix::fs::access(&self.devices, Access::WRITE_OK | Access::EXEC_OK)?)
        });
        if !is_there {
            _ = fs::remove_dir(&self.devices);
        }
        let (shown, variable) = (self.devices.display(), RUN_VARIABLE);
        let failed = format!("make directories in {shown} ({variable} names another directory)");
        access.map_err(Error::system(failed))
    }

    fn make_devices_directory(&self) -> io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.devices)
    }

    /// All devices, sorted by name.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn list(&self) -> Result<Vec<(String, Status<I>)>, Error> {
        let entries = match fs::read_dir(&self.devices) {
            Ok(entries) => entries,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(unreadable(format!("read {}", self.devices.display()), e)),
        };
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        let mut all: Vec<_> =
            names.filter_map(|name| self.find(&name).ok().map(|found| (name, found))).collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(all)
    }

    /// A device's status.
    ///
    /// # Errors
    /// There is no such device, or this user may not access it.
    pub fn find(&self, name: &str) -> Result<Status<I>, Error> {
        check_name(I::KIND.noun, name)?;
        let directory = self.device_directory(name);
        let lock = match File::open(directory.lock()) {
            Ok(lock) => lock,
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                return Err(unreadable(format!("look for `{name}`"), e));
            }
            // It was killed when only its directory was left.
            Err(_) if directory.is_there() => return Ok(Status::Dead),
            Err(_) => {
                let why = format!("`{name}`: no such {0} (see `trimtab {0} list`)", I::KIND.noun);
                return Err(Error::BadInput(why));
            }
        };
        let is_free = || rustix::fs::flock(&lock, FlockOperation::NonBlockingLockShared).is_ok();
        if is_free() {
            return Ok(Status::Dead);
        }
        let condition = Holder::of(&directory.lock()).map(|holder| holder.condition());
        Ok(match (condition, directory.info()) {
            (Some(Condition::Dying), _) => Status::Dead,
            // It may have ended just now.
            (None, _) if is_free() => Status::Dead,
            (Some(Condition::Stopped), Some(info)) => Status::Stopped(info),
            (_, Some(info)) => Status::Running(info),
            (_, None) => Status::Changing,
        })
    }

    /// Claims a device's directory. First removes what a dead device of that name left.
    ///
    /// # Errors
    /// It exists, or its directory cannot be made; or its server was killed, and what uses it waits
    /// for another one.
    pub fn claim(&self, name: &str) -> Result<Claimed, Error> {
        self.claim_with(name, WhatWaits::RemoveUnused)
    }

    /// The same, but if a killed server's device waits for another one, that stays to be taken over
    /// ([`Served::take_over`](crate::Served::take_over)): then returns its description too.
    ///
    /// # Errors
    /// Those of [`claim`](Self::claim).
    pub fn claim_waiting(&self, name: &str) -> Result<(Claimed, Option<I>), Error> {
        check_name(I::KIND.noun, name)?;
        // Without a description it has never been used.
        let info = self.device_directory(name).info::<I>();
        let waiting = if info.is_some() { WhatWaits::Keep } else { WhatWaits::RemoveUnused };
        let claimed = self.claim_with(name, waiting)?;
        let info = info.filter(|_| claimed.keeps());
        Ok((claimed, info))
    }

    /// The block device of a killed server, if requests to it wait for another one.
    #[must_use]
    pub fn waiting(&self, name: &str) -> Option<PathBuf> {
        check_name(I::KIND.noun, name).ok()?;
        self.device_directory(name).what_waits()
    }

    fn claim_with(&self, name: &str, waiting: WhatWaits) -> Result<Claimed, Error> {
        check_name(I::KIND.noun, name)?;
        let directory = self.device_directory(name);
        let make = |e| Error::system(format!("make {}", self.devices.display()))(e);
        self.make_run_directory().map_err(make)?;
        directory.claim(waiting)
    }

    /// Creates the parent directory if it is missing. It is readable by all users, whichever needs
    /// it first.
    fn make_run_directory(&self) -> io::Result<()> {
        let Some(run) = self.devices.parent().filter(|run| !run.exists()) else { return Ok(()) };
        fs::create_dir_all(run)?;
        fs::set_permissions(run, fs::Permissions::from_mode(0o755))
    }

    /// The description of a device whose server was killed, as far as it had got.
    #[must_use]
    pub fn info_of_dead(&self, name: &str) -> Option<I> {
        check_name(I::KIND.noun, name).ok()?;
        self.device_directory(name).info()
    }

    /// Removes what a killed device left. Returns the mount point of a file system on it, if one is
    /// still mounted; only its user can unmount that. `force`: even if programs wait for it, which
    /// another server could serve.
    ///
    /// # Errors
    /// It lives, or something of it cannot be removed.
    pub fn remove_dead(&self, name: &str, force: bool) -> Result<Option<String>, Error> {
        // Before its own mount is gone: the devices are found by it.
        let mounted = self.device_directory(name).mounted_at();
        let waiting = if force { WhatWaits::Remove } else { WhatWaits::RemoveUnused };
        self.claim_with(name, waiting)?;
        Ok(mounted)
    }

    /// Kills the server of a device that does not answer, whatever state it is in, and removes what
    /// it leaves. Returns what [`remove_dead`](Self::remove_dead) does.
    ///
    /// # Errors
    /// Its process cannot be found or ended, or something cannot be removed.
    pub fn end(&self, name: &str) -> Result<Option<String>, Error> {
        check_name(I::KIND.noun, name)?;
        match Holder::of(&self.device_directory(name).lock()) {
            Some(holder) => match holder.kill() {
                Ok(()) | Err(rustix::io::Errno::SRCH) => {}
                Err(e) => return Err(Error::system(format!("end the server of `{name}`"))(e)),
            },
            None if matches!(self.find(name)?, Status::Dead) => {}
            None => {
                let why = "its server's process is not visible from here (it is in another \
                           container, or of an earlier version)";
                return Err(Error::Failed(format!("`{name}`: {why}")));
            }
        }
        self.remove_dead(name, true)
    }

    /// The log file of a device's server.
    #[must_use]
    pub fn log(&self, name: &str) -> PathBuf {
        self.device_directory(name).file("log")
    }

    pub(crate) fn device_directory(&self, name: &str) -> DeviceDirectory {
        DeviceDirectory::new(self.devices.join(name), I::KIND.noun)
    }
}

/// An error that asks for root, if the user may not access the directory.
fn unreadable(what: String, error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::PermissionDenied => Error::Privilege,
        _ => Error::system(what)(error),
    }
}

#[cfg(test)]
mod tests;
