//! A device's directory: the server that holds it, and the removal of its device, mount and
//! files.

use std::cell::Cell;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};
use trimtab_io::WholeFile;

use super::error::Error;
use super::holder::{Condition, Holder};
use super::predictable::FLAGS;
use super::ublk::{Control, UblkDevice};
use super::{fuse, fusectl, helper, loopdev};

const INFO: WholeFile = WholeFile::json("a device's info");

/// How long other processes' status checks, and the removal of the directory by its previous
/// holder, may stand in the way. Both take microseconds, on a stalled machine seconds.
const PASSING_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a list of devices waits for one whose server has just been killed.
const LOOK_TIMEOUT: Duration = Duration::from_secs(2);
/// A server that ends has released its lock within this.
const RELEASE_TIMEOUT: Duration = Duration::from_millis(100);
/// A killed server has released everything within this, unless it hangs in the kernel.
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);
/// The same after its connection was aborted; freeing much memory takes long.
const ABORT_TIMEOUT: Duration = Duration::from_secs(20);

/// The part of a device's description that is needed here.
#[derive(Debug, Deserialize)]
struct Attached {
    device: PathBuf,
    #[serde(default)]
    scheduler_before: Option<String>,
}

/// What becomes of the device of a killed server that waits for another one, when its directory is
/// claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WhatWaits {
    /// It is removed: what uses it gets errors.
    Remove,
    /// It is removed if nothing uses it.
    RemoveUnused,
    /// It stays, to be taken over.
    Keep,
}

/// A device's directory.
#[derive(Clone, Debug)]
pub struct DeviceDirectory {
    directory: PathBuf,
    /// What the device is, in messages.
    noun: &'static str,
}

impl DeviceDirectory {
    pub(crate) const fn new(directory: PathBuf, noun: &'static str) -> Self {
        Self { directory, noun }
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    pub(crate) fn lock(&self) -> PathBuf {
        self.file("lock")
    }

    /// Its socket for commands.
    #[must_use]
    pub fn control(&self) -> PathBuf {
        self.file("control")
    }

    /// The memory in which an array flags reads of a drive
    /// ([`FlagTable`](super::FlagTable)).
    #[must_use]
    pub fn flags(&self) -> PathBuf {
        self.file(FLAGS)
    }

    pub(crate) fn mount(&self) -> PathBuf {
        self.file("mount")
    }

    pub(crate) fn job(&self) -> PathBuf {
        self.file("job")
    }

    pub(crate) fn is_there(&self) -> bool {
        self.directory.is_dir()
    }

    fn connection(&self) -> PathBuf {
        self.file("connection")
    }

    pub(crate) fn info<I: for<'de> Deserialize<'de>>(&self) -> Option<I> {
        serde_json::from_slice(&INFO.read(&self.file("info.json")).ok()?).ok()
    }

    /// Its ublk device's cookie.
    fn ublk(&self) -> PathBuf {
        self.file("ublk")
    }

    /// Records the cookie by which its ublk device is found, and returns it. Must be called before
    /// there is one.
    pub(crate) fn record_ublk(&self) -> Result<u64, Error> {
        let mut cookie = [0; 8];
        let flags = rustix::rand::GetRandomFlags::empty();
        rustix::rand::getrandom(&mut cookie, flags).map_err(Error::system("get random bytes"))?;
        let cookie = u64::from_ne_bytes(cookie);
        let failed = format!("write {}", self.ublk().display());
        fs::write(self.ublk(), format!("{cookie:016x}\n")).map_err(Error::system(failed))?;
        Ok(cookie)
    }

    fn ublk_cookie(&self) -> Option<u64> {
        u64::from_str_radix(fs::read_to_string(self.ublk()).ok()?.trim(), 16).ok()
    }

    /// Its ublk device, whatever state that is in.
    pub(crate) fn ublk_device(&self) -> Option<UblkDevice> {
        let cookie = self.ublk_cookie()?;
        Control::open().ok()?.found(cookie).first().copied()
    }

    /// Its ublk device, if that waits for another server because its own was killed.
    pub(crate) fn waiting(&self, control: &mut Control) -> Option<UblkDevice> {
        control.settled_within(self.ublk_cookie()?, LOOK_TIMEOUT).filter(UblkDevice::waits)
    }

    /// The block device that waits for another server.
    pub(crate) fn what_waits(&self) -> Option<PathBuf> {
        self.ublk_cookie()?;
        self.waiting(&mut Control::open().ok()?).map(|device| device.path())
    }

    /// An error if the device of a killed server waits for another one, and is in use.
    fn check_unused(&self) -> Result<(), Error> {
        let Some(device) = self.what_waits() else { return Ok(()) };
        let Some(why) = loopdev::use_without_opening(&device) else { return Ok(()) };
        let name = self.directory.file_name().unwrap_or_default().to_string_lossy();
        Err(Error::Failed(format!(
            "`{name}`: its server was killed, and {why}: have another server take it over, or \
             remove it with --force"
        )))
    }

    /// Claims the directory, and creates it if necessary.
    pub(crate) fn claim(self, waiting: WhatWaits) -> Result<Claimed, Error> {
        let control = self.control();
        // One byte ends it (`sun_path`, unix(7)).
        if control.as_os_str().len() >= 108 {
            let why = "is too long for a socket: at most 107 bytes";
            return Err(Error::BadInput(format!("{} {why}", control.display())));
        }
        let lock = self.take_lock()?;
        // From here on other processes find it, whatever happens to this one.
        let noted = lock.set_len(0).and_then(|()| fs::write(self.lock(), pid_line()));
        noted.map_err(Error::system(format!("write {}", self.lock().display())))?;
        self.forget_lost()?;
        let keeps = waiting == WhatWaits::Keep && self.what_waits().is_some();
        if keeps {
            for name in ["control", FLAGS] {
                _ = fs::remove_file(self.file(name));
            }
            helper::wait_for_end(&self.job())?;
        } else {
            if waiting != WhatWaits::Remove {
                self.check_unused()?;
            }
            self.sweep()?;
            let make = |e| Error::system(format!("make {}", self.mount().display()))(e);
            fs::create_dir(self.mount()).map_err(make)?;
        }
        Ok(Claimed { directory: self, keeps: Cell::new(keeps), _lock: lock })
    }

    /// Takes the device's lock. Waits for processes that only check whether the device lives (they
    /// share the lock), and for a killed server that hangs; both hold the lock without being a
    /// running server.
    fn take_lock(&self) -> Result<File, Error> {
        let make = |e| Error::system(format!("make {}", self.directory.display()))(e);
        let begun = Instant::now();
        let mut aborted = false;
        loop {
            fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(&self.directory)
                .map_err(make)?;
            let mut options = File::options();
            let lock = options.create(true).truncate(false).write(true).mode(0o600);
            let lock = match lock.open(self.lock()) {
                Ok(lock) => lock,
                // The previous holder has just removed its directory.
                Err(e)
                    if e.kind() == io::ErrorKind::NotFound && begun.elapsed() < PASSING_TIMEOUT =>
                {
                    continue;
                }
                Err(e) => return Err(make(e)),
            };
            if rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
                if is_at(&lock, &self.lock()) {
                    return Ok(lock);
                }
                continue;
            }
            let waited = begun.elapsed();
            let is_shared = rustix::fs::flock(&lock, FlockOperation::NonBlockingLockShared).is_ok();
            drop(lock);
            if is_shared && waited < PASSING_TIMEOUT {
                std::thread::sleep(Duration::from_millis(1));
                continue;
            }
            let holder = Holder::of(&self.lock());
            match holder.filter(|holder| holder.condition() == Condition::Dying) {
                None if waited > RELEASE_TIMEOUT => {
                    let name = self.directory.file_name().unwrap_or_default().to_string_lossy();
                    let why = format!("`{name}`: the {} already exists", self.noun);
                    return Err(Error::BadInput(why));
                }
                Some(holder) if waited > ABORT_TIMEOUT => {
                    let pid = holder.pid().as_raw_nonzero();
                    return Err(Error::Failed(format!(
                        "the {}'s server, process {pid}, was killed and does not end: the \
                         kernel's log may say what it waits for",
                        self.noun
                    )));
                }
                Some(_) if waited > EXIT_TIMEOUT && !aborted => {
                    aborted = true;
                    self.abort_hanging();
                }
                _ => {}
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Records the number of the file system's connection, by which it can be aborted. Must be
    /// called before any process can wait for the file system.
    pub(crate) fn record_connection(&self) -> Result<(), Error> {
        let failed = format!("write {}", self.connection().display());
        let number = fusectl::mounted_on(&self.mount()).last().copied();
        let number =
            number.ok_or(Error::Failed("the kernel does not list its mount".to_owned()))?;
        fs::write(self.connection(), number.to_string()).map_err(Error::system(failed))
    }

    /// Aborts the connection of a killed server that hangs. While it hangs, its lock and
    /// `/dev/fuse` are open, so the recorded number is still its own; but the file system may have
    /// been unmounted.
    fn abort_hanging(&self) {
        self.abort();
        let noted = fs::read_to_string(self.connection()).ok();
        let noted = noted.and_then(|number| number.trim().parse().ok());
        if let Some(number) = noted.filter(|&number| !fusectl::is_of_another(number)) {
            _ = fusectl::abort(number);
        }
    }

    /// Aborts the connections of all that is mounted here: requests to it fail from then on, and no
    /// process waits for a server any more.
    fn abort(&self) {
        for number in fusectl::mounted_on(&self.mount()) {
            if fusectl::abort(number).is_err() {
                // Fallback where fusectl cannot be opened. The mount stays while a device is
                // attached to its file.
                _ = fuse::unmount_idle(&self.mount());
            }
        }
    }

    /// Loop devices over the device's file, found without accessing the file.
    fn devices(&self) -> Vec<PathBuf> {
        let mut all = loopdev::attached_to(&fuse::file_in(&self.mount()));
        // The file system may have been unmounted by another process.
        let noted = self.info().map(|info: Attached| info.device);
        all.extend(noted.filter(|device| loopdev::is_attached_to_lost(device, fuse::FILE)));
        all
    }

    /// The mount point of a file system on one of its devices.
    pub(crate) fn mounted_at(&self) -> Option<String> {
        let ublk = self.ublk_device().map(|device| device.path());
        self.devices().iter().chain(&ublk).find_map(|device| loopdev::mounted_at(device))
    }

    /// An error if the kernel does not take back the requests of the killed server, because it has lost
    /// one (ublk/queues.rs): to remove the device would wait for ever. It is forgotten then, and
    /// nothing prevents another one.
    fn forget_lost(&self) -> Result<(), Error> {
        let Some(cookie) = self.ublk_cookie() else { return Ok(()) };
        let Ok(mut control) = Control::open() else { return Ok(()) };
        let Some(device) = control.settled(cookie).filter(UblkDevice::is_live) else {
            return Ok(());
        };
        _ = fs::remove_file(self.ublk());
        Err(Error::Failed(format!(
            "{}: the kernel does not let go of this device's killed server (before Linux 6.15 ublk \
             can lose a request of it): what programs ask of it waits until the machine restarts. \
             It is given up; do this again, and another device gets the name",
            device.path().display()
        )))
    }

    /// Removes its ublk device. Requests that wait for a server fail.
    fn delete_ublk(&self) -> Result<(), Error> {
        let Some(cookie) = self.ublk_cookie() else { return Ok(()) };
        // Without the driver there is no device.
        let Ok(mut control) = Control::open() else { return Ok(()) };
        for device in control.found(cookie) {
            let failed = || Error::system(format!("remove {}", device.path().display()));
            control.stop(device.id).map_err(failed())?;
            control.delete(device.id).map_err(failed())?;
        }
        Ok(())
    }

    /// Ends the file system, and the devices over its file. Aborts it first, so that nothing blocks
    /// on the server.
    pub(crate) fn take_down(&self) -> Result<(), Error> {
        self.abort();
        // A helper that waits for its requests ends with them.
        self.delete_ublk()?;
        helper::wait_for_end(&self.job())?;
        let info = self.info::<Attached>();
        for device in self.devices() {
            // The number may be reused by now, but not by a file system with our file.
            if let Some(info) = info.as_ref().filter(|info| info.device == device) {
                loopdev::restore_scheduler(&device, info.scheduler_before.as_deref());
            }
            loopdev::detach(&device);
        }
        // More than one mount if a server was killed, and a second one after it.
        while !fusectl::mounted_on(&self.mount()).is_empty() {
            let at = format!("unmount {}", self.mount().display());
            fuse::unmount(&self.mount()).map_err(Error::system(at))?;
        }
        Ok(())
    }

    /// Removes everything but the lock: device, mount, files.
    pub(crate) fn sweep(&self) -> Result<(), Error> {
        self.take_down()?;
        _ = fs::remove_dir(self.mount());
        for name in
            ["control", "info.json", "info.json.new", "log", "job", "connection", "ublk", FLAGS]
        {
            _ = fs::remove_file(self.file(name));
        }
        Ok(())
    }
}

fn pid_line() -> String {
    format!("{}\n", std::process::id())
}

/// Whether an open file is the one now at this path.
fn is_at(file: &File, path: &Path) -> bool {
    let of = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
    file.metadata().map(of).ok().zip(fs::metadata(path).map(of).ok()).is_some_and(|(a, b)| a == b)
}

/// A device's directory, claimed by this process. Removed when dropped.
#[derive(Debug)]
pub struct Claimed {
    directory: DeviceDirectory,
    /// Whether a device waits in it that has not been taken over.
    keeps: Cell<bool>,
    _lock: File,
}

impl Claimed {
    /// The directory.
    #[must_use]
    pub const fn directory(&self) -> &DeviceDirectory {
        &self.directory
    }

    /// Whether a device waits to be taken over. Until it [has been](Self::taken_over) it stays,
    /// whatever becomes of this.
    #[must_use]
    pub fn keeps(&self) -> bool {
        self.keeps.get()
    }

    /// The device that waited is this process's now.
    pub fn taken_over(&self) {
        self.keeps.set(false);
    }

    /// Makes the device visible to other processes.
    ///
    /// # Errors
    /// Its description cannot be written.
    pub fn publish(&self, info: &impl Serialize) -> Result<(), Error> {
        let text = serde_json::to_vec_pretty(info).expect("plain data has a form in JSON");
        // Renamed into place: readers never see half of it.
        let (new, file) = (self.directory.file("info.json.new"), self.directory.file("info.json"));
        fs::write(&new, text)
            .and_then(|()| fs::rename(&new, &file))
            .map_err(Error::system(format!("write {}", file.display())))
    }
}

impl Drop for Claimed {
    fn drop(&mut self) {
        if self.keeps.get() || self.directory.sweep().is_err() {
            // Directory and lock stay, so that it can be found and swept again.
            return;
        }
        _ = fs::remove_file(self.directory.lock());
        _ = fs::remove_dir(&self.directory.directory);
        // The last device removes the parent directory too.
        _ = self.directory.directory.parent().map(fs::remove_dir);
    }
}
