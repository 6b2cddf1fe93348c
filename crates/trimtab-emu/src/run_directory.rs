//! Where drives leave their traces: one directory for each.
//!
//! ```text
//!   /run/trimtab/drives/NAME/
//!     lock        held as long as the server lives, whose process it names
//!     connection  the number of its FUSE connection
//!     job         what a helper does for it, held as long as that takes
//!     info.json   what the drive is
//!     control     the socket that commands go to
//!     log         what the server had to say
//!     mount/      the file system with the drive's file
//! ```
//!
//! Others have theirs in `/run/trimtab` too, whoever they are: so that is open to all,
//! and `drives` to its owner alone.

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

/// Where all drives of this machine (or of one test) are.
#[derive(Clone, Debug)]
pub struct RunDirectory {
    drives: PathBuf,
}

/// What a drive is, for others to read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Info {
    /// Its name.
    pub name: String,
    /// The block device.
    pub device: PathBuf,
    /// The server's process.
    pub pid: u32,
    /// Its bytes.
    pub capacity: u64,
    /// The name of its profile.
    pub profile: String,
    /// Its seed.
    pub seed: u64,
    /// Where its content is: none, memory or file.
    pub data: String,
    /// The loop device's I/O scheduler before, if it has another now: that outlives the
    /// drive, and is set back by who takes it down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler_before: Option<String>,
}

/// A drive's state.
#[derive(Clone, Debug, PartialEq)]
pub enum Found {
    /// Its server lives.
    Running(Info),
    /// Its server was stopped, by a signal or a debugger: it does nothing until it is
    /// continued.
    Stopped(Info),
    /// Its server is being started, or ends.
    Changing,
    /// Its server was killed, and has left things behind.
    Dead,
}

impl RunDirectory {
    /// `$TRIMTAB_RUN`, or `/run/trimtab`.
    #[must_use]
    pub fn from_environment() -> Self {
        Self { drives: run_directory().join("drives") }
    }

    /// Whether drives can have their directories here.
    ///
    /// # Errors
    /// It cannot be written to.
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
        let failed = format!("make directories in {shown} ({variable} names another place)");
        access.map_err(Error::system(failed))
    }

    fn make_drives_directory(&self) -> io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.drives)
    }

    /// The drives, in order of their names.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn list(&self) -> Result<Vec<(String, Found)>, Error> {
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

    /// Looks for a drive.
    ///
    /// # Errors
    /// There is none of that name, or this user may not know.
    pub fn find(&self, name: &str) -> Result<Found, Error> {
        spec::check_name(name)?;
        let place = self.place(name);
        let lock = match File::open(place.lock()) {
            Ok(lock) => lock,
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                return Err(unreadable(format!("look for `{name}`"), e));
            }
            // One that was killed when all but its directory had gone.
            Err(_) if place.is_there() => return Ok(Found::Dead),
            Err(_) => {
                let why = format!("`{name}`: no such drive (see `trimtab drive list`)");
                return Err(Error::BadInput(why));
            }
        };
        let is_free = || rustix::fs::flock(&lock, FlockOperation::NonBlockingLockShared).is_ok();
        if is_free() {
            return Ok(Found::Dead);
        }
        let condition = Holder::of(&place.lock()).map(|holder| holder.condition());
        Ok(match (condition, place.info()) {
            (Some(Condition::Dying), _) => Found::Dead,
            // It may have ended just now.
            (None, _) if is_free() => Found::Dead,
            (Some(Condition::Stopped), Some(info)) => Found::Stopped(info),
            (_, Some(info)) => Found::Running(info),
            (_, None) => Found::Changing,
        })
    }

    /// Makes a drive's directory; of a dead one of that name, removes what it has
    /// left behind before.
    pub(super) fn claim(&self, name: &str) -> Result<Claimed, Error> {
        spec::check_name(name)?;
        let place = self.place(name);
        let make = |e| Error::system(format!("make {}", self.drives.display()))(e);
        self.make_run_directory().map_err(make)?;
        place.claim()
    }

    /// What the drives' directory is in, if it is not there: for all to pass, whoever is
    /// the first to need it.
    fn make_run_directory(&self) -> io::Result<()> {
        let Some(run) = self.drives.parent().filter(|run| !run.exists()) else { return Ok(()) };
        fs::create_dir_all(run)?;
        fs::set_permissions(run, fs::Permissions::from_mode(0o755))
    }

    /// Removes what a killed drive has left behind. Returns where a file system of
    /// it is still mounted, which only its user can end.
    ///
    /// # Errors
    /// It lives, or something of it cannot be removed.
    pub fn remove_dead(&self, name: &str) -> Result<Option<String>, Error> {
        // Looked for first: without the drive's mount its devices are not to be found.
        let mounted = self.place(name).mounted_at();
        self.claim(name)?;
        Ok(mounted)
    }

    /// Ends a drive's server, whatever that does or waits for, and removes what it leaves
    /// behind: for one that does not answer. Returns what [`remove_dead`](Self::remove_dead)
    /// does.
    ///
    /// # Errors
    /// Its process cannot be found or ended, or something cannot be removed.
    pub fn end(&self, name: &str) -> Result<Option<String>, Error> {
        spec::check_name(name)?;
        match Holder::of(&self.place(name).lock()) {
            Some(holder) => match holder.kill() {
                Ok(()) | Err(rustix::io::Errno::SRCH) => {}
                Err(e) => return Err(Error::system(format!("end the server of `{name}`"))(e)),
            },
            None if self.find(name)? == Found::Dead => {}
            None => {
                let why = "its server is no process that is to be seen from here (in another \
                           container, or of an earlier version)";
                return Err(Error::Failed(format!("`{name}`: {why}")));
            }
        }
        self.remove_dead(name)
    }

    /// The file for what a drive's server has to say when nobody listens any more.
    #[must_use]
    pub fn log(&self, name: &str) -> PathBuf {
        self.place(name).file("log")
    }

    pub(super) fn place(&self, name: &str) -> DriveDirectory {
        DriveDirectory::new(self.drives.join(name))
    }
}

/// Drives are their owner's alone to know.
fn unreadable(what: String, error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::PermissionDenied => Error::Privilege,
        _ => Error::system(what)(error),
    }
}

#[cfg(test)]
mod tests;
