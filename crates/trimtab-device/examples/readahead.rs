//! How far the readahead of `PageCache` agrees with the running kernel's: after each read of a
//! file, the pages in memory (`mincore`) are compared with the model's.
//!
//! `cargo run --release -p trimtab-device --example readahead -- DIRECTORY [READAHEAD_KIB]`: the
//! directory is on a disk, whose `read_ahead_kb` is the number (128).

#![allow(clippy::print_stdout)]

use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::Duration;
use std::{io, ptr, thread};

use trimtab_device::{Below, CacheProfile, OpenFile, PAGE, PageCache};
use trimtab_io::SplitMix64;

const PAGES: u64 = 2048;

/// Reads (first page, pages) of a pattern.
fn pattern(name: &str) -> Vec<(u64, u64)> {
    let mut random = SplitMix64::new(1);
    match name {
        "sequential, 4 KiB" => (0..600).map(|i| (i, 1)).collect(),
        "sequential, 16 KiB" => (0..300).map(|i| (4 * i, 4)).collect(),
        "sequential, 128 KiB" => (0..40).map(|i| (32 * i, 32)).collect(),
        "sequential from the middle" => (0..400).map(|i| (700 + i, 1)).collect(),
        "backwards" => (0..300).map(|i| (1500 - i, 1)).collect(),
        "every fourth page" => (1..300).map(|i| (4 * i, 1)).collect(),
        "two streams" => {
            (0..400).map(|i| if i % 2 == 0 { (i / 2, 1) } else { (1000 + i / 2, 1) }).collect()
        }
        _ => (0..300).map(|_| (random.next() % PAGES, 1)).collect(),
    }
}

/// Which pages of the file are in memory, when no more arrive.
fn resident(at: *mut libc::c_void) -> Vec<bool> {
    let ask = || {
        let mut pages = vec![0; PAGES as usize];
        // SAFETY: a mapping of this length; the kernel writes a byte for each page.
        let result = unsafe { libc::mincore(at, (PAGES * PAGE) as usize, pages.as_mut_ptr()) };
        assert_eq!(result, 0, "{}", io::Error::last_os_error());
        pages.iter().map(|page| page & 1 == 1).collect::<Vec<_>>()
    };
    let mut before = ask();
    loop {
        thread::sleep(Duration::from_micros(500));
        let now = ask();
        if now == before {
            return now;
        }
        before = now;
    }
}

fn evict(file: &File) -> io::Result<()> {
    for _ in 0..5 {
        rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed)?;
        thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

fn compare(path: &Path, name: &str, readahead: u64) -> io::Result<()> {
    let file = File::open(path)?;
    let length = (PAGES * PAGE) as usize;
    // SAFETY: a new mapping at an address that the kernel chooses; it is not accessed.
    let at = unsafe {
        let (read, shared) = (libc::PROT_READ, libc::MAP_SHARED);
        libc::mmap(ptr::null_mut(), length, read, shared, file.as_raw_fd(), 0)
    };
    evict(&file)?;
    let profile = CacheProfile { readahead, ..CacheProfile::default() };
    let mut cache = PageCache::new(&profile).map_err(io::Error::other)?;
    let mut model = OpenFile::new(0, PAGES);
    let (mut same, mut reads, mut pages, mut below) = (0, 0_u32, 0, Vec::new());
    let (mut ours, mut kernels) = (0, 0);
    let mut buffer = vec![0; 1 << 20];
    for (first, count) in pattern(name) {
        file.read_exact_at(&mut buffer[..(count * PAGE) as usize], first * PAGE)?;
        cache.read(&mut model, first, count, &mut below);
        for request in below.drain(..) {
            if let Below::Read { first, pages, .. } = request {
                cache.filled(first, pages);
            }
        }
        let resident = resident(at);
        let differs = |page: &u64| resident[*page as usize] != cache.is_resident(*page);
        same += u64::from((0..PAGES).filter(differs).count() == 0);
        reads += 1;
        ours = (0..PAGES).filter(|page| cache.is_resident(*page)).count() as u64;
        kernels = resident.iter().filter(|is| **is).count() as u64;
        pages += (0..PAGES).filter(differs).count() as u64;
    }
    // SAFETY: this mapping.
    unsafe { libc::munmap(at, length) };
    println!(
        "{name}: {same} of {reads} reads leave the same pages in memory; {:.1} pages differ after \
         a read in the mean; at the end {ours} pages, the kernel {kernels}",
        pages as f64 / f64::from(reads)
    );
    Ok(())
}

fn main() -> io::Result<()> {
    let mut args = std::env::args().skip(1);
    let directory = args.next().unwrap_or_else(|| ".".to_owned());
    let readahead = args.next().and_then(|text| text.parse().ok()).unwrap_or(128) << 10;
    let path = Path::new(&directory).join(format!("readahead-{}", std::process::id()));
    let mut file = File::create_new(&path)?;
    for page in 0..PAGES {
        file.write_all(&[page as u8; PAGE as usize])?;
    }
    file.sync_all()?;
    let names = [
        "sequential, 4 KiB",
        "sequential, 16 KiB",
        "sequential, 128 KiB",
        "sequential from the middle",
        "backwards",
        "every fourth page",
        "two streams",
        "random",
    ];
    let result = names.iter().try_for_each(|name| compare(&path, name, readahead));
    std::fs::remove_file(&path)?;
    result
}
