//! Files whose pages can be evicted.

use std::fs::File;
use std::io::Write as _;
use std::thread;
use std::time::Duration;

use rustix::fs::{Advice, fadvise};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use trimtab_testdisk::Feature;

const PAGE: usize = 4096;

/// A file of pages that each hold their number, none of them in memory. `None`, with a note,
/// where pages cannot be evicted: on a file system in memory.
pub(crate) fn written(pages: u64) -> Option<(tempfile::TempDir, File)> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let mut file = File::options().read(true).write(true).create_new(true).open(path).unwrap();
    for page in 0..pages {
        file.write_all(&[page as u8; PAGE]).unwrap();
    }
    file.sync_all().unwrap();
    if !evict(&file) {
        trimtab_testdisk::skip(Feature::Kernel, "pages of temporary files cannot be evicted");
        return None;
    }
    Some((directory, file))
}

/// Which pages are in memory: 1 or 0 for each.
pub(crate) fn resident_pages(file: &File) -> Vec<u8> {
    let length = file.metadata().unwrap().len() as usize;
    let mut pages = vec![0; length.div_ceil(PAGE)];
    // SAFETY: a new mapping, which is asked about and unmapped, but not read.
    unsafe {
        let at = mmap(std::ptr::null_mut(), length, ProtFlags::READ, MapFlags::SHARED, file, 0);
        let at = at.unwrap();
        assert_eq!(libc::mincore(at, length, pages.as_mut_ptr()), 0);
        munmap(at, length).unwrap();
    }
    pages.iter_mut().for_each(|page| *page &= 1);
    pages
}

/// Evicts all pages. False if some stay.
pub(crate) fn evict(file: &File) -> bool {
    (0..50).any(|_| {
        fadvise(file, 0, None, Advice::DontNeed).unwrap();
        let is_gone = resident_pages(file).iter().all(|page| *page == 0);
        if !is_gone {
            thread::sleep(Duration::from_millis(2));
        }
        is_gone
    })
}
