//! `addrcheck` of mapped files, on a real file system.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::thread;
use std::time::{Duration, Instant};

use rustix::mm::{Advice as MapAdvice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};
use trimtab_read::{ReadError, RefusalCause, addrcheck};

mod evicted;
use evicted::{evict, resident_pages, written};

const PAGE: usize = 4096;
const PAGES: usize = 64;
const AT_ONCE: Duration = Duration::ZERO;
const PATIENCE: Duration = Duration::from_secs(20);

/// A mapping of a whole file, or anonymous memory.
struct Map(*mut u8, usize);

impl Map {
    fn new(file: &File) -> Self {
        let length = file.metadata().unwrap().len() as usize;
        let null = std::ptr::null_mut();
        // SAFETY: a new mapping at an address that the kernel chooses.
        let at = unsafe { mmap(null, length, ProtFlags::READ, MapFlags::SHARED, file, 0) }.unwrap();
        // The access to a page is not to map its neighbours.
        // SAFETY: the range of this mapping.
        unsafe { madvise(at, length, MapAdvice::Random) }.unwrap();
        Self(at.cast(), length)
    }

    fn at(&self, page: usize) -> *const u8 {
        self.0.wrapping_add(page * PAGE)
    }

    /// Loads pages by access.
    fn touch(&self, pages: std::ops::Range<usize>) {
        for page in pages {
            // SAFETY: within the mapping, whose file is as long.
            assert_eq!(unsafe { self.at(page).read_volatile() }, page as u8);
        }
    }

    /// Drops the pages from this mapping, and from memory.
    fn evict(&self, file: &File) {
        // SAFETY: a shared mapping of a file: the content stays.
        unsafe { madvise(self.0.cast(), self.1, MapAdvice::LinuxDontNeed) }.unwrap();
        assert!(evict(file));
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: it is this mapping, and no reference into it exists.
        _ = unsafe { munmap(self.0.cast(), self.1) };
    }
}

fn is_busy(result: &Result<(), ReadError>) -> bool {
    matches!(result, Err(ReadError::Refused(refusal)) if refusal.cause == RefusalCause::Evicted)
}

fn errno(result: Result<(), ReadError>) -> Option<i32> {
    match result {
        Err(ReadError::Io(error)) => error.raw_os_error(),
        _ => None,
    }
}

#[test]
fn evicted_pages_are_busy_and_brought_in_and_first_accesses_are_not() {
    let Some((_directory, file)) = written(PAGES as u64) else { return };
    let map = Map::new(&file);
    assert!(addrcheck(map.at(0), PAGES * PAGE, AT_ONCE).is_ok(), "never read");
    map.touch(0..16);
    assert!(addrcheck(map.at(0), 16 * PAGE, AT_ONCE).is_ok(), "in memory");
    map.evict(&file);
    assert!(addrcheck(map.at(16), PAGE, AT_ONCE).is_ok(), "never read");
    assert!(addrcheck(map.at(15), 2 * PAGE, AT_ONCE).is_ok(), "one was never read");
    let long = Duration::from_secs(60);
    assert!(addrcheck(map.at(0), PAGE, long).is_ok(), "the drive is fast enough");
    // Not aligned: the last byte of one page and the first of the next.
    let refused = addrcheck(map.at(5).wrapping_sub(1), 2, AT_ONCE);
    assert!(is_busy(&refused), "{refused:?}");
    let begun = Instant::now();
    while addrcheck(map.at(4), 2 * PAGE, AT_ONCE).is_err() {
        assert!(begun.elapsed() < PATIENCE);
        thread::sleep(Duration::from_millis(1));
    }
    // By the background alone: these pages, and no others that were asked for.
    assert_eq!(&resident_pages(&file)[4..6], [1, 1]);
    map.touch(0..PAGES);
    // The wait has been measured, or will be.
    let begun = Instant::now();
    loop {
        assert!(addrcheck(map.at(8), PAGE, AT_ONCE).is_ok());
        map.evict(&file);
        match addrcheck(map.at(8), PAGE, AT_ONCE) {
            Err(ReadError::Refused(refusal)) if refusal.expected_wait.is_some() => break,
            result => assert!(is_busy(&result), "{result:?}"),
        }
        assert!(begun.elapsed() < PATIENCE);
        map.touch(8..9);
    }
}

#[test]
fn bad_ranges_are_errors() {
    let Some((_directory, file)) = written(4) else { return };
    let map = Map::new(&file);
    for length in [0, 1] {
        let null = addrcheck(std::ptr::null(), length, AT_ONCE);
        assert_eq!(errno(null), (length > 0).then_some(libc::ENOMEM), "{length}");
    }
    let at = map.at(1);
    assert_eq!(errno(addrcheck(at, usize::MAX, AT_ONCE)), Some(libc::ENOMEM));
    assert_eq!(errno(addrcheck(at, usize::MAX / 4, AT_ONCE)), Some(libc::ENOMEM));
    let last = std::ptr::without_provenance(usize::MAX);
    assert_eq!(errno(addrcheck(last, 1, AT_ONCE)), Some(libc::ENOMEM));
    // A hole in the middle.
    // SAFETY: a page of this mapping, which is not read afterwards.
    unsafe { munmap(map.at(2).cast_mut().cast(), PAGE) }.unwrap();
    assert_eq!(errno(addrcheck(map.at(0), 4 * PAGE, AT_ONCE)), Some(libc::ENOMEM));
    assert!(addrcheck(map.at(0), 2 * PAGE, AT_ONCE).is_ok());
}

/// Another file at the same address has not been read before.
#[test]
fn another_file_at_the_address_is_a_first_access() {
    let Some((_directory, file)) = written(8) else { return };
    let Some((_other_directory, other)) = written(8) else { return };
    let map = Map::new(&file);
    map.touch(0..8);
    assert!(addrcheck(map.at(0), 8 * PAGE, AT_ONCE).is_ok());
    map.evict(&file);
    assert!(is_busy(&addrcheck(map.at(0), PAGE, AT_ONCE)));
    let fixed = MapFlags::SHARED | MapFlags::FIXED;
    assert!(evict(&other));
    // SAFETY: in place of this mapping, to which there are no references.
    unsafe { mmap(map.0.cast(), 8 * PAGE, ProtFlags::READ, fixed, &other, 0) }.unwrap();
    assert!(addrcheck(map.at(0), PAGE, AT_ONCE).is_ok());
    assert!(addrcheck(map.at(7), PAGE, AT_ONCE).is_ok());
    // The file may be closed, and is checked as before.
    drop(file);
    // SAFETY: as before.
    unsafe { madvise(map.0.cast(), 8 * PAGE, MapAdvice::Random) }.unwrap();
    map.touch(2..3);
    assert!(addrcheck(map.at(2), PAGE, AT_ONCE).is_ok());
    map.evict(&other);
    assert!(is_busy(&addrcheck(map.at(2), PAGE, AT_ONCE)));
}

#[test]
fn memory_of_no_file_is_accepted() {
    let null = std::ptr::null_mut();
    // SAFETY: a new mapping at an address that the kernel chooses.
    let at =
        unsafe { mmap_anonymous(null, 16 * PAGE, ProtFlags::READ, MapFlags::PRIVATE) }.unwrap();
    let map = Map(at.cast(), 16 * PAGE);
    for _ in 0..2 {
        assert!(addrcheck(map.at(0), 16 * PAGE, AT_ONCE).is_ok(), "never touched");
    }
    let local = [0_u8; 3 * PAGE];
    assert!(addrcheck(local.as_ptr(), local.len(), AT_ONCE).is_ok());
}

/// More pages than one system call reports, written by the test itself.
#[test]
fn long_ranges_are_checked_to_their_end() {
    let Some((_directory, file)) = written(2000) else { return };
    let map = Map::new(&file);
    map.touch(0..2000);
    assert!(addrcheck(map.at(0), 2000 * PAGE, AT_ONCE).is_ok());
    map.evict(&file);
    let mut page = [0; PAGE];
    // All but the last.
    for number in 0..1999 {
        file.read_exact_at(&mut page, number * PAGE as u64).unwrap();
    }
    // Readahead may have brought the last page.
    if resident_pages(&file)[1999] == 0 {
        assert!(is_busy(&addrcheck(map.at(0), 2000 * PAGE, AT_ONCE)));
    }
    assert!(addrcheck(map.at(0), 1999 * PAGE, AT_ONCE).is_ok());
}
