//! The run directory: one directory per drive, for commands and for cleaning up.
//!
//! ```text
//!   /run/trimtab/drives/NAME/
//!     lock        held while the server lives; contains its process number
//!     connection  the number of its FUSE connection
//!     job         the helper's current job; locked while it runs
//!     info.json   the drive's description
//!     control     the socket for commands
//!     log         the server's messages
//!     mount/      the file system with the drive's file
//! ```
//!
//! Other parts of trimtab, run by other users, have directories in `/run/trimtab` too: so that is
//! readable by all, and `drives` by its owner only.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::PathBuf;

use rustix::fs::{Access, FlockOperation};
use serde::{Deserialize, Serialize};
use trimtab_io::{RUN_VARIABLE, run_directory};

use super::drive_directory::{Claimed, DriveDirectory};
use super::error::Error;
use super::holder::{Condition, Holder};
use super::spec;

/// The drives' directories on this machine (or of one test).
#[derive(Clone, Debug)]
pub struct RunDirectory {
    drives: PathBuf,
}

/// A drive's description.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DriveInfo {
    /// Its name.
    pub name: String,
    /// Its block device.
    pub device: PathBuf,
    /// The server's process number.
    pub pid: u32,
    /// Its capacity, bytes.
    pub capacity: u64,
    /// The name of its profile.
    pub profile: String,
    /// Its seed.
    pub seed: u64,
    /// Where its content is: none, memory or file.
    pub data: String,
    /// The loop device's I/O scheduler before, if it was changed. The setting outlives the drive,
    /// so that the process that takes the drive down restores it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler_before: Option<String>,
}

/// A drive's status.
#[derive(Clone, Debug, PartialEq)]
pub enum DriveStatus {
    /// Its server lives.
    Running(DriveInfo),
    /// Its server was stopped, by a signal or a debugger.
    Stopped(DriveInfo),
    /// Its server is starting or shutting down.
    Changing,
    /// Its server was killed; its device and mount may remain.
    Dead,
}

impl RunDirectory {
    /// `$TRIMTAB_RUN`, or `/run/trimtab`.
    #[must_use]
    pub fn from_environment() -> Self {
        Self { drives: run_directory().join("drives") }
    }

    /// Checks that drives' directories can be made here.
    ///
    /// # Errors
    /// The directory is not writable.
    pub fn check(&self) -> Result<(), Error> {
        let is_there = self.drives.exists();
        let made = self.make_run_directory().and_then(|()| self.make_drives_directory());
        let access = made.and_then(|()| {
            Ok(rustix::fs::access(&self.drives, Access::WRITE_OK | Access::EXEC_OK)?)
        });
        if !is_there {
            _ = fs::remove_dir(&self.drives);
        }
        let (shown, variable) = (self.drives.display(), RUN_VARIABLE);
        let failed = format!("make directories in {shown} ({variable} names another directory)");
        access.map_err(Error::system(failed))
    }

    fn make_drives_directory(&self) -> io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.drives)
    }

    /// All drives, sorted by name.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn list(&self) -> Result<Vec<(String, DriveStatus)>, Error> {
        let entries = match fs::read_dir(&self.drives) {
            Ok(entries) => entries,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(unreadable(format!("read {}", self.drives.display()), e)),
        };
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        let mut all: Vec<_> =
            names.filter_map(|name| self.find(&name).ok().map(|found| (name, found))).collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(all)
    }

    /// A drive's status.
    ///
    /// # Errors
    /// There is no such drive, or this user may not access it.
    pub fn find(&self, name: &str) -> Result<DriveStatus, Error> {
        spec::check_name(name)?;
        let directory = self.drive_directory(name);
        let lock = match File::open(directory.lock()) {
            Ok(lock) => lock,
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                return Err(unreadable(format!("look for `{name}`"), e));
            }
            // It was killed when only its directory was left.
            Err(_) if directory.is_there() => return Ok(DriveStatus::Dead),
            Err(_) => {
                let why = format!("`{name}`: no such drive (see `trimtab drive list`)");
                return Err(Error::BadInput(why));
            }
        };
        let is_free = || rustix::fs::flock(&lock, FlockOperation::NonBlockingLockShared).is_ok();
        if is_free() {
            return Ok(DriveStatus::Dead);
        }
        let condition = Holder::of(&directory.lock()).map(|holder| holder.condition());
        Ok(match (condition, directory.info()) {
            (Some(Condition::Dying), _) => DriveStatus::Dead,
            // It may have ended just now.
            (None, _) if is_free() => DriveStatus::Dead,
            (Some(Condition::Stopped), Some(info)) => DriveStatus::Stopped(info),
            (_, Some(info)) => DriveStatus::Running(info),
            (_, None) => DriveStatus::Changing,
        })
    }

    /// Claims a drive's directory. First removes what a dead drive of that name left.
    pub(super) fn claim(&self, name: &str) -> Result<Claimed, Error> {
        spec::check_name(name)?;
        let directory = self.drive_directory(name);
        let make = |e| Error::system(format!("make {}", self.drives.display()))(e);
        self.make_run_directory().map_err(make)?;
        directory.claim()
    }

    /// Creates the parent directory if it is missing. It is readable by all users, whichever needs
    /// it first.
    fn make_run_directory(&self) -> io::Result<()> {
        let Some(run) = self.drives.parent().filter(|run| !run.exists()) else { return Ok(()) };
        fs::create_dir_all(run)?;
        fs::set_permissions(run, fs::Permissions::from_mode(0o755))
    }

    /// Removes what a killed drive left. Returns the mount point of a file system on it, if one is
    /// still mounted; only its user can unmount that.
    ///
    /// # Errors
    /// It lives, or something of it cannot be removed.
    pub fn remove_dead(&self, name: &str) -> Result<Option<String>, Error> {
        // Before its own mount is gone: the devices are found by it.
        let mounted = self.drive_directory(name).mounted_at();
        self.claim(name)?;
        Ok(mounted)
    }

    /// Kills the server of a drive that does not answer, whatever state it is in, and removes what
    /// it leaves. Returns what [`remove_dead`](Self::remove_dead) does.
    ///
    /// # Errors
    /// Its process cannot be found or ended, or something cannot be removed.
    pub fn end(&self, name: &str) -> Result<Option<String>, Error> {
        spec::check_name(name)?;
        match Holder::of(&self.drive_directory(name).lock()) {
            Some(holder) => match holder.kill() {
                Ok(()) | Err(rustix::io::Errno::SRCH) => {}
                Err(e) => return Err(Error::system(format!("end the server of `{name}`"))(e)),
            },
            None if self.find(name)? == DriveStatus::Dead => {}
            None => {
                let why = "its server's process is not visible from here (it is in another \
                           container, or of an earlier version)";
                return Err(Error::Failed(format!("`{name}`: {why}")));
            }
        }
        self.remove_dead(name)
    }

    /// The log file of a drive's server.
    #[must_use]
    pub fn log(&self, name: &str) -> PathBuf {
        self.drive_directory(name).file("log")
    }

    pub(super) fn drive_directory(&self, name: &str) -> DriveDirectory {
        DriveDirectory::new(self.drives.join(name))
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
