//! The readers of this machine, as any process finds them.
//!
//! Every user may write in the directory, so a file found there is examined before it is
//! believed, and nothing is waited for.

use std::fs::{self, File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags};
use serde::Serialize;

use crate::figures::{Counters, Figures};
use crate::publish::{BYTES, FIXED, HEADER, MAGIC};
use trimtab_io::run_directory;

/// A reader of some process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Published {
    /// The name of its file: no two readers at one time have the same.
    pub name: String,
    /// The process.
    pub pid: u32,
    /// The disk that it reads from, by major and minor number; (0, 0): none that is
    /// known.
    pub device: (u32, u32),
    /// What it has open, as far as it fits (488 bytes).
    pub path: PathBuf,
    /// Its counters.
    pub figures: Figures,
}

/// The directory of this machine's readers: `$TRIMTAB_RUN/readers`, or
/// `/run/trimtab/readers`.
#[must_use]
pub fn readers() -> PathBuf {
    run_directory().join("readers")
}

/// The readers of processes that live, in order of process. What a killed one has left
/// is removed, if this process may.
///
/// # Errors
/// The directory cannot be read. That there is none means that there are no readers.
pub fn published(directory: &Path) -> io::Result<Vec<Published>> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(e),
    };
    let mut all: Vec<_> = entries.flatten().filter_map(|entry| look(&entry.path())).collect();
    all.sort_by(|a, b| (a.pid, &a.path).cmp(&(b.pid, &b.path)));
    Ok(all)
}

/// One of them; what is dead is removed.
fn look(path: &Path) -> Option<Published> {
    let name = path.file_name()?.to_str()?;
    let (file, bytes) = open(path, name)?;
    if rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared).is_ok() {
        remove_dead(&file, path);
        return None;
    }
    parse(name, &bytes)
}

/// A reader's file and what is in it, if it is one. It is locked before it begins with
/// what all begin with.
fn open(path: &Path, name: &str) -> Option<(File, [u8; BYTES])> {
    if !is_name(name) {
        return None;
    }
    // Were it a pipe it would be waited for, and what a link leads to is none of ours.
    let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::options().read(true).custom_flags(flags.bits() as i32).open(path).ok()?;
    let metadata = file.metadata().ok()?;
    if !metadata.is_file() || metadata.len() != BYTES as u64 {
        return None;
    }
    let mut bytes = [0; BYTES];
    file.read_exact(&mut bytes).ok()?;
    bytes.starts_with(&MAGIC).then_some((file, bytes))
}

/// Whether it is `PID-N`.
fn is_name(name: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    name.split_once('-').is_some_and(|(pid, number)| is_number(pid) && is_number(number))
}

/// Removes a file that is not locked. The remover holds its lock, so it is not
/// another reader's of the same name that goes.
fn remove_dead(file: &File, path: &Path) {
    if rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive).is_ok() {
        remove(file, path);
    }
}

/// Removes a file from its directory, if it is there still.
pub(super) fn remove(file: &File, path: &Path) {
    let same = |a: &Metadata, b: &Metadata| (a.dev(), a.ino()) == (b.dev(), b.ino());
    if let (Ok(open), Ok(there)) = (file.metadata(), fs::symlink_metadata(path))
        && same(&open, &there)
    {
        _ = fs::remove_file(path);
    }
}

pub(super) fn parse(name: &str, bytes: &[u8; BYTES]) -> Option<Published> {
    let (header, counters) = bytes.split_first_chunk::<HEADER>()?;
    let number = |i: usize| {
        let at = 8 + 4 * i;
        u32::from_ne_bytes(header[at..at + 4].try_into().expect("four bytes"))
    };
    let length = (number(3) as usize).min(HEADER - FIXED);
    let path = std::ffi::OsStr::from_bytes(&header[FIXED..FIXED + length]).into();
    let figures = Counters::of_bytes(counters.try_into().expect("the rest")).figures();
    let (name, device) = (name.to_owned(), (number(1), number(2)));
    Some(Published { name, pid: number(0), device, path, figures })
}
