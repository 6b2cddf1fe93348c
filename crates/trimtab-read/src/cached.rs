//! Reads that need no drive, because the page cache holds them.
//!
//! A read with `RWF_NOWAIT` is no suitable test: if nothing is cached, it starts readahead
//! (`filemap_get_pages` in the kernel's mm/filemap.c), and the drive to be avoided is sent a
//! read. So the kernel is first asked what it holds, by `cachestat` (Linux 6.5), which starts
//! no I/O.

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd as _;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rustix::io::Errno;

/// The number is the same on all supported architectures (include/uapi/asm-generic/unistd.h).
const SYS_CACHESTAT: libc::c_long = 451;

/// `struct cachestat_range`
#[repr(C)]
struct Range {
    offset: u64,
    length: u64,
}

/// `struct cachestat`
#[derive(Default)]
#[repr(C)]
struct Stat {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// Whether a range is cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Held {
    /// All of it is in the page cache.
    Yes,
    /// Some of it is not.
    No,
    /// The kernel does not report it.
    Unknown,
}

/// Whether the page cache holds all pages of a range that lies in the file.
pub(super) fn is_held(file: &File, offset: u64, length: u64) -> Held {
    static IS_MISSING: AtomicBool = AtomicBool::new(false);
    if IS_MISSING.load(Relaxed) {
        return Held::Unknown;
    }
    let page = rustix::param::page_size() as u64;
    let first = offset / page;
    let pages = offset.saturating_add(length).div_ceil(page) - first;
    let range = Range { offset: first * page, length: pages * page };
    let mut stat = Stat::default();
    // SAFETY: the system call reads one structure and writes another, both of which
    // outlive it.
    let result = unsafe {
        libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), &raw const range, &raw mut stat, 0)
    };
    match result {
        0 if stat.cached >= pages => Held::Yes,
        0 => Held::No,
        _ => {
            if io::Error::last_os_error().raw_os_error() == Some(Errno::NOSYS.raw_os_error()) {
                IS_MISSING.store(true, Relaxed);
            }
            Held::Unknown
        }
    }
}

/// Reads from the page cache without blocking. Returns the number of bytes, which are
/// initialised in the buffer; `None` if the first of them is not cached.
///
/// # Errors
/// The kernel or the file system does not support such reads.
pub(super) fn read(
    file: &File,
    buffer: &mut [MaybeUninit<u8>],
    offset: u64,
) -> io::Result<Option<usize>> {
    let Ok(offset) = libc::off_t::try_from(offset) else { return Err(Errno::INVAL.into()) };
    let piece = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: the kernel only writes to the buffer, within its length.
    let read = unsafe { libc::preadv2(file.as_raw_fd(), &piece, 1, offset, libc::RWF_NOWAIT) };
    match usize::try_from(read) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(_) => match io::Error::last_os_error() {
            e if e.raw_os_error() == Some(libc::EAGAIN) => Ok(None),
            e => Err(e),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::FileExt as _;

    use super::*;

    #[test]
    fn cached_ranges_are_detected() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, [7; 3 * 4096]).unwrap();
        let file = File::open(&path).unwrap();
        file.sync_all().unwrap();
        match is_held(&file, 100, 2 * 4096) {
            Held::Unknown => {
                let why = "the kernel does not report what it caches";
                return trimtab_testdisk::skip(trimtab_testdisk::Feature::Kernel, why);
            }
            held => assert_eq!(held, Held::Yes),
        }
        let mut buffer = [MaybeUninit::uninit(); 4096];
        assert_eq!(read(&file, &mut buffer, 4096).unwrap(), Some(4096));
        // SAFETY: all of them were read.
        assert!(buffer.iter().all(|byte| unsafe { byte.assume_init() } == 7));
        // If the file system supports it, dropped pages are not held, and the test does not
        // load them again.
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        let dropped = is_held(&file, 0, 4096);
        assert_eq!(is_held(&file, 0, 4096), dropped);
        file.read_exact_at(&mut [0; 4096], 0).unwrap();
        assert_eq!(is_held(&file, 0, 4096), Held::Yes);
    }
}
