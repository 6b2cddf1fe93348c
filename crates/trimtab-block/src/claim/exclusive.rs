//! Opening a device or file for writing, exclusively.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;

use super::drives::has_open;
use super::holder::{Holder, InUse, Part};
use super::number::{Identity, Kind};
use super::survey::Survey;

/// Much longer than it takes to execute a program, and no delay to a person who is told that
/// something is in use.
const PATIENCE: Duration = Duration::from_millis(100);

/// Why something cannot be claimed. Each displays as one line.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// It cannot be opened.
    #[error("{path}: cannot open for direct I/O: {source}")]
    Open {
        /// The path as given.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// The path is neither a regular file nor a block device.
    #[error("{0}: is neither a file nor a block device")]
    NoStorage(PathBuf),
    /// Something else uses it.
    #[error("{path} {by}")]
    InUse {
        /// The path as given.
        path: PathBuf,
        /// Its user.
        by: InUse,
    },
    /// Its users cannot be determined.
    #[error("{path}: cannot determine whether it is in use: {source}")]
    Unknown {
        /// The path as given.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
}

/// A block device or regular file that only this process may write to, until this is dropped
/// and all duplicates of its file are closed.
///
/// A device is open with `O_EXCL`, as is each device below a loop device: until they are
/// closed, they cannot be mounted, swapped to or made part of another device. A regular file
/// is locked (`flock`), which emulated drives and other claims respect; other programs may
/// still have it open or mapped.
#[derive(Debug)]
pub struct Claim {
    file: File,
    identity: Identity,
    /// Devices below it.
    _below: Vec<File>,
}

impl Claim {
    /// Opens it for direct reading and writing, if nothing else uses it.
    ///
    /// # Errors
    /// It cannot be opened, is not storage, or is in use: mounted in any namespace, swap, part
    /// of another device, behind a loop device, an emulated drive or its content; or the same
    /// applies to its disk, one of its partitions, or the back end of a loop device.
    pub fn exclusive(path: &Path) -> Result<Self, ClaimError> {
        Self::open(path, false)
    }

    /// The same, but an emulated drive or an array may be claimed itself: as a member of an array.
    ///
    /// # Errors
    /// As [`exclusive`](Self::exclusive), except for that.
    pub fn member(path: &Path) -> Result<Self, ClaimError> {
        Self::open(path, true)
    }

    fn open(path: &Path, served_too: bool) -> Result<Self, ClaimError> {
        let failed = |e: io::Error| ClaimError::Open { path: path.to_owned(), source: e };
        // The path is looked up only here.
        let found = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, 0.into());
        let found = File::from(found.map_err(|e| failed(e.into()))?);
        let identity = Identity::of(&found).map_err(failed)?;
        let identity = identity.ok_or_else(|| ClaimError::NoStorage(path.to_owned()))?;
        let claim = match patiently(is_busy, || open_again(&found, identity, OFlags::DIRECT)) {
            Ok(file) => Self::of_open(file, path, served_too)?,
            Err(e) if is_busy(&e) => {
                let survey = Survey::take().map_err(|e| unknown(path, e))?;
                return Err(in_use(path, claimed_by(&survey, identity)));
            }
            Err(e) => return Err(failed(e)),
        };
        Ok(claim)
    }

    /// Claims an open file: a regular file, or a device that was opened with `O_EXCL`. The
    /// path is for messages.
    ///
    /// # Errors
    /// As [`exclusive`](Self::exclusive).
    pub fn of(file: File, path: &Path) -> Result<Self, ClaimError> {
        Self::of_open(file, path, false)
    }

    fn of_open(file: File, path: &Path, served_too: bool) -> Result<Self, ClaimError> {
        let identity = Identity::of(&file).map_err(|e| unknown(path, e))?;
        let identity = identity.ok_or_else(|| ClaimError::NoStorage(path.to_owned()))?;
        // Surveyed after the lock is taken: later users find it claimed.
        let locked = match identity.0 {
            Kind::File(_) => patiently(
                |error| *error == Errno::WOULDBLOCK,
                || rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive),
            ),
            Kind::Device(_) => Ok(()),
        };
        let survey = Survey::take().map_err(|e| unknown(path, e))?;
        if let Some(by) = survey.user(identity, served_too) {
            return Err(in_use(path, by));
        }
        // File systems without locks hold no emulated drive's content either.
        if locked == Err(Errno::WOULDBLOCK) {
            return Err(in_use(path, claimed_by(&survey, identity)));
        }
        let below = survey.below(identity);
        let below = below.into_iter().filter_map(|below| hold(below, path, &survey).transpose());
        Ok(Self { file, identity, _below: below.collect::<Result<_, _>>()? })
    }

    /// The claimed object.
    #[must_use]
    pub const fn identity(&self) -> Identity {
        self.identity
    }

    /// The open file, for writing.
    #[must_use]
    pub const fn file(&self) -> &File {
        &self.file
    }
}

/// Opens the object for reading and writing, even if its path leads elsewhere by now.
fn open_again(found: &File, identity: Identity, flags: OFlags) -> io::Result<File> {
    // O_EXCL has no effect on a regular file.
    let exclusive = match identity.0 {
        Kind::Device(_) => OFlags::EXCL,
        Kind::File(_) => OFlags::empty(),
    };
    let flags = (flags | exclusive).bits().cast_signed();
    let path = format!("/proc/self/fd/{}", found.as_raw_fd());
    OpenOptions::new().read(true).write(true).custom_flags(flags).open(path)
}

/// Keeps a device below a loop device from being mounted while the loop device is written to.
/// `None` for a regular file, and for a device without a node.
fn hold(below: Identity, path: &Path, survey: &Survey) -> Result<Option<File>, ClaimError> {
    let Kind::Device(number) = below.0 else { return Ok(None) };
    let Some(node) = number.node() else { return Ok(None) };
    let flags = OFlags::EXCL.bits().cast_signed();
    match patiently(is_busy, || OpenOptions::new().read(true).custom_flags(flags).open(&node)) {
        Ok(file) if file.metadata().is_ok_and(|metadata| metadata.rdev() == number.0) => {
            Ok(Some(file))
        }
        Err(e) if is_busy(&e) => {
            let InUse { holder, .. } = claimed_by(survey, below);
            Err(in_use(path, InUse { part: Part::BackEnd(number.name()), holder }))
        }
        Ok(_) | Err(_) => Ok(None),
    }
}

/// The user of something that cannot be claimed.
fn claimed_by(survey: &Survey, what: Identity) -> InUse {
    survey.user(what, false).unwrap_or_else(|| {
        let own = std::process::id();
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        let mut processes =
            processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let process = processes.find(|&process| process != own && has_open(process, what));
        let holder = process.map_or(Holder::Unseen, |process| {
            let name = fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
            Holder::Process { process, name: name.trim_end().to_owned() }
        });
        InUse { part: Part::Itself, holder }
    })
}

/// Tries again for up to [`PATIENCE`] while something is in use.
///
/// A process that this one starts has copies of all its open files until it executes its
/// program, so what was closed a moment ago may still be claimed.
fn patiently<T, E>(
    in_use: impl Fn(&E) -> bool,
    mut claim: impl FnMut() -> Result<T, E>,
) -> Result<T, E> {
    let started = Instant::now();
    loop {
        match claim() {
            Err(error) if in_use(&error) && started.elapsed() < PATIENCE => {
                thread::sleep(Duration::from_millis(1));
            }
            result => return result,
        }
    }
}

fn is_busy(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::ResourceBusy
}

fn in_use(path: &Path, by: InUse) -> ClaimError {
    ClaimError::InUse { path: path.to_owned(), by }
}

fn unknown(path: &Path, source: io::Error) -> ClaimError {
    ClaimError::Unknown { path: path.to_owned(), source }
}
