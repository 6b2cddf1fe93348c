//! Where drives leave their traces: one directory for each.
//!
//! ```text
//!   /run/trimtab/drives/NAME/
//!     lock       held as long as the server lives
//!     info.json  what the drive is
//!     control    the socket that commands go to
//!     log        what the server had to say
//!     mount/     the file system with the drive's file
//! ```
//!
//! Others have theirs in `/run/trimtab` too, whoever they are: so that is open to all,
//! and `drives` to its owner alone.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use super::error::Error;
use super::{fuse, loopdev, spec};

/// The environment variable that names another place than `/run/trimtab`.
pub const RUN_VARIABLE: &str = "TRIMTAB_RUN";

/// Who looks whether a drive lives holds its lock for much less than that.
const LOOKING: Duration = Duration::from_millis(100);

/// Where all drives of this machine (or of one test) are.
#[derive(Clone, Debug)]
pub struct Home {
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
    /// Its server is being started, or ends.
    Changing,
    /// Its server was killed, and has left things behind.
    Dead,
}

/// `$TRIMTAB_RUN`, or `/run/trimtab`: where all that runs leaves word of itself.
pub(crate) fn run_directory() -> PathBuf {
    let run = std::env::var_os(RUN_VARIABLE).unwrap_or_else(|| "/run/trimtab".into());
    // What the kernel tells of a mount is absolute.
    std::path::absolute(&run).unwrap_or_else(|_| run.into())
}

impl Home {
    /// `$TRIMTAB_RUN`, or `/run/trimtab`.
    #[must_use]
    pub fn from_environment() -> Self {
        Self { drives: run_directory().join("drives") }
    }

    /// The drives, in order of their names.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn list(&self) -> Result<Vec<(String, Found)>, Error> {
        let entries = match fs::read_dir(&self.drives) {
            Ok(entries) => entries,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(Error::system(format!("read {}", self.drives.display()))(e)),
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
    /// There is none of that name.
    pub fn find(&self, name: &str) -> Result<Found, Error> {
        spec::check_name(name)?;
        let place = self.place(name);
        let Ok(lock) = File::open(place.file("lock")) else {
            return Err(Error::BadInput(format!(
                "`{name}`: no such drive (see `trimtab drive list`)"
            )));
        };
        if rustix::fs::flock(&lock, FlockOperation::NonBlockingLockShared).is_ok() {
            return Ok(Found::Dead);
        }
        Ok(place.info().map_or(Found::Changing, Found::Running))
    }

    /// Makes a drive's directory; of a dead one of that name, removes what it has
    /// left behind before.
    pub(super) fn claim(&self, name: &str) -> Result<Claimed, Error> {
        spec::check_name(name)?;
        let place = self.place(name);
        let make = |e| Error::system(format!("make {}", place.0.display()))(e);
        self.make_run_directory().map_err(make)?;
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&place.0).map_err(make)?;
        let mut options = File::options();
        let lock = options.create(true).truncate(false).write(true).mode(0o600);
        let lock = lock.open(place.file("lock")).map_err(make)?;
        if !take(&lock) {
            return Err(Error::BadInput(format!("`{name}`: there is such a drive already")));
        }
        place.sweep()?;
        fs::create_dir(place.mount()).map_err(make)?;
        Ok(Claimed { place, _lock: lock })
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
        let devices = self.place(name).devices();
        let mounted = devices.iter().find_map(|device| loopdev::mounted_at(device));
        self.claim(name)?;
        Ok(mounted)
    }

    /// The file for what a drive's server has to say when nobody listens any more.
    #[must_use]
    pub fn log(&self, name: &str) -> PathBuf {
        self.place(name).file("log")
    }

    pub(super) fn place(&self, name: &str) -> Place {
        Place(self.drives.join(name))
    }
}

/// A drive's directory.
#[derive(Clone, Debug)]
pub(super) struct Place(PathBuf);

impl Place {
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(super) fn control(&self) -> PathBuf {
        self.file("control")
    }

    pub(super) fn mount(&self) -> PathBuf {
        self.file("mount")
    }

    /// Loop devices over the drive's file.
    fn devices(&self) -> Vec<PathBuf> {
        loopdev::attached_to(&fuse::file_in(&self.mount()))
    }

    fn info(&self) -> Option<Info> {
        serde_json::from_slice(&fs::read(self.file("info.json")).ok()?).ok()
    }

    /// Takes away all but the lock: device, mount, files.
    fn sweep(&self) -> Result<(), Error> {
        let info = self.info();
        for device in self.devices() {
            // The number may be another's by now, but not of one that has our file.
            if let Some(info) = info.as_ref().filter(|info| info.device == device) {
                loopdev::restore_scheduler(&device, info.scheduler_before.as_deref());
            }
            loopdev::detach(&device);
        }
        // More than one where a server was killed, and another one after it.
        while is_mount(&self.mount()) {
            let at = format!("unmount {}", self.mount().display());
            fuse::unmount(&self.mount()).map_err(Error::system(at))?;
        }
        _ = fs::remove_dir(self.mount());
        for name in ["control", "info.json", "log"] {
            _ = fs::remove_file(self.file(name));
        }
        Ok(())
    }
}

/// Takes a drive's lock; whether nobody has it. Who only looks whether the drive lives
/// has it for a moment too, and must not be taken for a server.
fn take(lock: &File) -> bool {
    let until = Instant::now() + LOOKING;
    while rustix::fs::flock(lock, FlockOperation::NonBlockingLockExclusive).is_err() {
        if Instant::now() > until {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}

/// Whether something is mounted there, be its server dead.
fn is_mount(directory: &Path) -> bool {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let escaped = directory.to_string_lossy().replace('\\', "\\134").replace(' ', "\\040");
    mounts.lines().any(|line| line.split(' ').nth(4) == Some(&escaped))
}

/// A drive's directory, for as long as this process has it. Gone when dropped.
pub(super) struct Claimed {
    pub(super) place: Place,
    _lock: File,
}

impl Claimed {
    /// Tells others that the drive is there.
    pub(super) fn publish(&self, info: &Info) -> Result<(), Error> {
        let text = serde_json::to_vec_pretty(info).expect("plain data has a form in JSON");
        // Others must not see half of it.
        let (new, file) = (self.place.file("info.json.new"), self.place.file("info.json"));
        fs::write(&new, text)
            .and_then(|()| fs::rename(&new, &file))
            .map_err(Error::system(format!("write {}", file.display())))
    }
}

impl Drop for Claimed {
    fn drop(&mut self) {
        if self.place.sweep().is_err() {
            // Its directory and its lock stay: by them it can be found, and swept again.
            return;
        }
        _ = fs::remove_file(self.place.file("lock"));
        _ = fs::remove_dir(&self.place.0);
        // The last one leaves nothing at all.
        _ = self.place.0.parent().map(fs::remove_dir);
    }
}

#[cfg(test)]
mod tests;
