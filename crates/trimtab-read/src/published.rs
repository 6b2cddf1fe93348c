//! The readers of this machine, as seen by any process.
//!
//! Every user may write in the directory, so a file found there is checked before it is used,
//! and opening it never blocks.

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
    /// The name of its file, which is unique among current readers.
    pub name: String,
    /// Its process number.
    pub pid: u32,
    /// The disk that it reads from, by major and minor number; (0, 0) if unknown.
    pub device: (u32, u32),
    /// The path that it has open, cut to 488 bytes.
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

/// The readers of live processes, in order of process number. Files of killed processes are
/// removed, if this process may.
///
/// # Errors
/// The directory cannot be read. A missing directory means that there are no readers.
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

/// Reads one of them; a dead one is removed.
fn look(path: &Path) -> Option<Published> {
    let name = path.file_name()?.to_str()?;
    let (file, bytes) = open(path, name)?;
    if rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared).is_ok() {
        remove_dead(&file, path);
        return None;
    }
    parse(name, &bytes)
}

/// A reader's file and its content, if it is one. A reader locks its file before it writes the
/// magic.
fn open(path: &Path, name: &str) -> Option<(File, [u8; BYTES])> {
    if !is_name(name) {
        return None;
    }
    // A pipe must not block, and a link's target is not a reader's file.
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

/// Whether it has the form `PID-N`.
fn is_name(name: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    name.split_once('-').is_some_and(|(pid, number)| is_number(pid) && is_number(number))
}

/// Removes an unlocked file. The remover holds its lock, so the removed file cannot be a new
/// reader's of the same name.
fn remove_dead(file: &File, path: &Path) {
    if rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive).is_ok() {
        remove(file, path);
    }
}

/// Removes a file from its directory, if it is still there.
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
