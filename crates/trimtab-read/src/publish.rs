//! Publication of readers' counters: one small file for each.
//!
//! ```text
//!   /run/trimtab/readers/PID-N     header of 512 bytes, then the counters
//! ```
//!
//! The reader counts in the file itself, which it has mapped: publishing costs nothing. A file
//! is locked as long as its process lives; an unlocked one is from a killed process.
//! `published.rs` reads the files.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rustix::fs::{FallocateFlags, FlockOperation};
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

use crate::figures::Counters;
use crate::published::remove;

/// The beginning of each file; the last byte is the layout's version.
pub(super) const MAGIC: [u8; 8] = *b"trimrdr\x03";
pub(super) const HEADER: usize = 512;
/// Every user may create files, and remove their own.
const SHARED: u32 = 0o1777;
/// Every user may read.
const OPEN: u32 = 0o755;
/// The number of names to try.
const TRIES: u32 = 64;
/// Magic, process, device's major and minor number, length of the path.
pub(super) const FIXED: usize = 8 + 4 * 4;
pub(super) const BYTES: usize = HEADER + size_of::<Counters>();

fn header(pid: u32, device: (u32, u32), path: &Path) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    let path = path.as_os_str().as_bytes();
    let path = &path[..path.len().min(HEADER - FIXED)];
    header[..8].copy_from_slice(&MAGIC);
    for (i, number) in [pid, device.0, device.1, path.len() as u32].into_iter().enumerate() {
        header[8 + 4 * i..12 + 4 * i].copy_from_slice(&number.to_ne_bytes());
    }
    header[FIXED..FIXED + path.len()].copy_from_slice(path);
    header
}

/// Makes the directory if there is none. It serves readers of all users: as in /tmp, every
/// user may create files in it, and a file belongs to its creator.
fn make(directory: &Path) -> io::Result<()> {
    if let Some(parent) = directory.parent() {
        parent.parent().map_or(Ok(()), fs::create_dir_all)?;
        make_one(parent, OPEN)?;
    }
    make_one(directory, SHARED)
}

/// Makes a directory with exactly this mode, regardless of the umask, if there is none.
fn make_one(directory: &Path, mode: u32) -> io::Result<()> {
    match DirBuilder::new().mode(mode).create(directory) {
        Ok(()) => fs::set_permissions(directory, Permissions::from_mode(mode)),
        Err(_) if directory.is_dir() => Ok(()),
        Err(e) => Err(e),
    }
}

/// Locks a new file, writes its header and maps it.
fn map(file: &mut File, header: &[u8; HEADER]) -> io::Result<NonNull<u8>> {
    rustix::fs::flock(&*file, FlockOperation::NonBlockingLockExclusive)?;
    // Allocates the whole file: counting on a full file system would be a fault.
    rustix::fs::fallocate(&*file, FallocateFlags::empty(), 0, BYTES as u64)?;
    file.write_all(header)?;
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping at an address that the kernel chooses. The file is as long, and
    // only its owner can shorten it.
    let start =
        unsafe { mmap(std::ptr::null_mut(), BYTES, protection, MapFlags::SHARED, file, 0) }?;
    Ok(NonNull::new(start.cast()).expect("a mapping is never at address 0"))
}

/// A reader's counters: in a file that others may read, or in private memory.
#[derive(Debug)]
pub(super) struct PublishedCounters {
    start: NonNull<u8>,
    /// Locked as long as it is open.
    file: Option<(File, PathBuf)>,
}

impl PublishedCounters {
    /// Counters at zero. They are published if that is requested and possible; a reader works
    /// without it.
    pub(super) fn new(directory: Option<&Path>, device: (u32, u32), path: &Path) -> Self {
        let published = directory.and_then(|directory| {
            make(directory).ok()?;
            (0..TRIES).find_map(|_| Self::publish(directory, device, path).ok())
        });
        published.unwrap_or_else(Self::private)
    }

    fn private() -> Self {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses.
        let start =
            unsafe { mmap_anonymous(std::ptr::null_mut(), BYTES, protection, MapFlags::PRIVATE) };
        let start = NonNull::new(start.expect("a page of memory").cast());
        Self { start: start.expect("a mapping is never at address 0"), file: None }
    }

    fn publish(directory: &Path, device: (u32, u32), path: &Path) -> io::Result<Self> {
        static READERS: AtomicU64 = AtomicU64::new(0);
        let pid = std::process::id();
        // An existing file belongs to a killed process of this number, or to one of another
        // container: try the next number.
        let name = directory.join(format!("{pid}-{}", READERS.fetch_add(1, Relaxed)));
        let mut options = File::options();
        let mut file = options.read(true).write(true).create_new(true).mode(0o644).open(&name)?;
        match map(&mut file, &header(pid, device, path)) {
            Ok(start) => Ok(Self { start, file: Some((file, name)) }),
            Err(e) => {
                remove(&file, &name);
                Err(e)
            }
        }
    }

    pub(super) const fn counters(&self) -> &Counters {
        // SAFETY: within the mapping, which lives as long as `self`; it starts at a page, so
        // this is aligned. These are atomics, for which all bit patterns are valid.
        unsafe { self.start.add(HEADER).cast::<Counters>().as_ref() }
    }

    /// The published file.
    pub(super) fn path(&self) -> Option<&Path> {
        self.file.as_ref().map(|(_, path)| &**path)
    }
}

// SAFETY: the mapping belongs to no thread, and is accessed as atomics.
unsafe impl Send for PublishedCounters {}
// SAFETY: as above.
unsafe impl Sync for PublishedCounters {}

impl Drop for PublishedCounters {
    fn drop(&mut self) {
        if let Some((file, path)) = &self.file {
            remove(file, path);
        }
        // SAFETY: this is the mapped range, and every use of it borrows `self`.
        _ = unsafe { munmap(self.start.as_ptr().cast(), BYTES) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::published::{parse, published};

    #[test]
    fn counters_are_published_until_dropped() {
        let run = tempfile::tempdir().unwrap();
        let directory = run.path().join("readers");
        assert_eq!(published(&directory).unwrap(), []);
        let board = PublishedCounters::new(Some(&directory), (7, 3), Path::new("/data/file"));
        assert!(board.path().is_some());
        board.counters().with_deadline();
        let found = published(&directory).unwrap();
        let [one] = &found[..] else { panic!("{found:?}") };
        assert_eq!((one.pid, one.device), (std::process::id(), (7, 3)));
        assert_eq!(
            (&*one.path, one.figures),
            (Path::new("/data/file"), board.counters().figures())
        );
        assert_eq!(one.figures.admitted, 1);
        drop(board);
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
    }

    #[test]
    fn dead_files_are_removed_and_other_files_ignored() {
        let run = tempfile::tempdir().unwrap();
        let left = run.path().join("4194304-0");
        let mut bytes = [0; BYTES];
        bytes[..HEADER].copy_from_slice(&header(4_194_304, (7, 0), Path::new("/gone")));
        fs::write(&left, bytes).unwrap();
        // None of these is a reader's file: another name, another length, another content,
        // another type of file.
        let others = ["notes", "1-x", "2-0", "3-0", "4-0", "5-0"];
        let [name, number, short, content, link, pipe] = others.map(|name| run.path().join(name));
        for file in [&name, &number] {
            fs::write(file, bytes).unwrap();
        }
        fs::write(&short, &bytes[..HEADER]).unwrap();
        fs::write(&content, [7; BYTES]).unwrap();
        std::os::unix::fs::symlink(&name, &link).unwrap();
        let made = rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        );
        made.unwrap();
        assert_eq!(published(run.path()).unwrap(), []);
        assert!(!left.exists());
        for other in [name, number, short, content, link, pipe] {
            assert!(other.symlink_metadata().is_ok(), "{}", other.display());
        }
    }

    /// Processes of two containers may have the same number.
    #[test]
    fn files_of_other_processes_are_kept() {
        let run = tempfile::tempdir().unwrap();
        let board = PublishedCounters::new(Some(run.path()), (7, 0), Path::new("/a"));
        let path = board.path().unwrap().to_owned();
        // From here on another process's file has the name.
        fs::remove_file(&path).unwrap();
        fs::write(&path, "").unwrap();
        drop(board);
        assert!(path.exists());
        // A name that another file has is not used.
        let taken: Vec<PathBuf> = (0..32).map(|i| beside(&path, i)).collect();
        taken.iter().for_each(|path| fs::write(path, "another's").unwrap());
        let board = PublishedCounters::new(Some(run.path()), (7, 0), Path::new("/a"));
        assert!(board.path().is_some_and(|path| !taken.iter().any(|taken| taken == path)));
        drop(board);
        taken.iter().for_each(|path| assert_eq!(fs::read(path).unwrap(), b"another's"));
    }

    /// The file of this process that follows this one by `n`.
    fn beside(path: &Path, after: u64) -> PathBuf {
        let name = path.file_name().unwrap().to_str().unwrap();
        let (pid, number) = name.split_once('-').unwrap();
        path.with_file_name(format!("{pid}-{}", number.parse::<u64>().unwrap() + 1 + after))
    }

    #[test]
    fn directory_is_writable_by_all_users() {
        let run = tempfile::tempdir().unwrap();
        let directory = run.path().join("trimtab/readers");
        drop(PublishedCounters::new(Some(&directory), (0, 0), Path::new("")));
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode(&directory), SHARED);
        assert_eq!(mode(directory.parent().unwrap()), OPEN);
    }

    #[test]
    fn reader_works_unpublished() {
        let run = tempfile::tempdir().unwrap();
        let file = run.path().join("file");
        fs::write(&file, "").unwrap();
        let board = PublishedCounters::new(Some(&file), (0, 0), Path::new(""));
        assert!(board.path().is_none());
        board.counters().with_deadline();
        assert_eq!(board.counters().figures().with_deadline, 1);
    }

    #[test]
    fn long_path_is_cut() {
        let path = PathBuf::from("x".repeat(4000));
        let mut bytes = [0; BYTES];
        bytes[..HEADER].copy_from_slice(&header(1, (0, 0), &path));
        assert_eq!(parse("1-0", &bytes).unwrap().path, PathBuf::from("x".repeat(HEADER - FIXED)));
    }
}
