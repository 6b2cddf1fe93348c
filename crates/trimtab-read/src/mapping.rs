//! The mappings of this process: which file lies at an address.
//!
//! A record by address must not outlive its mapping: another file may be mapped there later,
//! whose pages were never read. The kernel reports a single mapping since Linux 6.11
//! (`PROCMAP_QUERY`); before, `/proc/self/maps` is parsed.

use std::fs::File;
use std::os::fd::AsRawFd as _;

/// A mapping of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mapping {
    pub(super) start: usize,
    pub(super) end: usize,
    /// Of the file.
    device: (u32, u32),
    inode: u64,
    /// The offset in the file of address 0, modulo 2⁶⁴: the same for all pages, also when the
    /// mapping is split or extended.
    origin: u64,
}

impl Mapping {
    fn new(start: usize, end: usize, device: (u32, u32), inode: u64, offset: u64) -> Self {
        Self { start, end, device, inode, origin: offset.wrapping_sub(start as u64) }
    }

    pub(super) const fn contains(&self, address: usize) -> bool {
        self.start <= address && address < self.end
    }

    pub(super) const fn overlaps(&self, other: &Self) -> bool {
        self.start < other.end && other.start < self.end
    }

    /// Whether an address has the same byte of the same file in both.
    pub(super) fn is_same_file(&self, other: &Self) -> bool {
        (self.device, self.inode, self.origin) == (other.device, other.inode, other.origin)
    }

    const fn of_file(self) -> Option<Self> {
        if self.inode == 0 { None } else { Some(self) }
    }
}

/// `struct procmap_query`
#[derive(Default)]
#[repr(C)]
struct Query {
    size: u64,
    flags: u64,
    address: u64,
    start: u64,
    end: u64,
    vma_flags: u64,
    page_size: u64,
    offset: u64,
    inode: u64,
    major: u32,
    minor: u32,
    name_size: u32,
    build_id_size: u32,
    name: u64,
    build_id: u64,
}

/// `PROCMAP_QUERY`: `_IOWR('f', 17, struct procmap_query)`.
const PROCMAP_QUERY: libc::c_ulong =
    (3 << 30) | ((size_of::<Query>() as libc::c_ulong) << 16) | ((b'f' as libc::c_ulong) << 8) | 17;

/// The mapping of a file at this address; `None` if there is none, or it cannot be known. The
/// file is opened anew: one that was open before a `fork` shows the parent's memory.
pub(super) fn find(address: usize) -> Option<Mapping> {
    let maps = File::open("/proc/self/maps").ok()?;
    let mut query =
        Query { size: size_of::<Query>() as u64, address: address as u64, ..Query::default() };
    // SAFETY: the kernel reads and writes the structure, of the size in its first field.
    match unsafe { libc::ioctl(maps.as_raw_fd(), PROCMAP_QUERY as _, &raw mut query) } {
        0 => {
            let device = (query.major, query.minor);
            let (start, end) = (query.start as usize, query.end as usize);
            Mapping::new(start, end, device, query.inode, query.offset).of_file()
        }
        _ if std::io::Error::last_os_error().raw_os_error() == Some(libc::ENOENT) => None,
        _ => parse(&std::io::read_to_string(maps).ok()?, address),
    }
}

/// The mapping at this address, by the text of `/proc/self/maps`.
fn parse(text: &str, address: usize) -> Option<Mapping> {
    let line = |line: &str| {
        let mut fields = line.split_ascii_whitespace();
        let (start, end) = fields.next()?.split_once('-')?;
        let number = |text: &str| u64::from_str_radix(text, 16).ok();
        let (start, end) = (number(start)? as usize, number(end)? as usize);
        let offset = number(fields.nth(1)?)?;
        let (major, minor) = fields.next()?.split_once(':')?;
        let device = (number(major)? as u32, number(minor)? as u32);
        let inode = fields.next()?.parse().ok()?;
        Some(Mapping::new(start, end, device, inode, offset))
    };
    text.lines().filter_map(line).find(|mapping| mapping.contains(address))?.of_file()
}

#[cfg(test)]
mod tests {
    use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

    use super::*;

    #[test]
    fn kernel_and_text_report_the_same_mapping() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(8 << 12).unwrap();
        let null = std::ptr::null_mut();
        // SAFETY: a new mapping at an address that the kernel chooses.
        let start =
            unsafe { mmap(null, 4 << 12, ProtFlags::READ, MapFlags::SHARED, &file, 1 << 12) }
                .unwrap();
        let address = start.expose_provenance();
        let found = find(address + 5000).unwrap();
        let text = std::fs::read_to_string("/proc/self/maps").unwrap();
        assert_eq!(parse(&text, address + 5000), Some(found));
        assert_eq!((found.start, found.end), (address, address + (4 << 12)));
        assert_eq!(found.origin.wrapping_add(address as u64), 1 << 12);
        // The stack is no file's.
        let local = 0_u8;
        assert_eq!(find((&raw const local).expose_provenance()), None);
        assert_eq!(parse(&text, (&raw const local).expose_provenance()), None);
        // SAFETY: it is this mapping, which is not used any more.
        unsafe { munmap(start, 4 << 12) }.unwrap();
        assert!(find(address).is_none_or(|other| !other.is_same_file(&found)));
    }

    #[test]
    fn malformed_lines_are_skipped() {
        let text = "nonsense\n1000-x r--p 0 00:00 0\n2000-3000 r--s 00001000 fe:01 77 /a b\n";
        let found = parse(text, 0x2fff).unwrap();
        assert_eq!((found.start, found.device, found.inode), (0x2000, (0xfe, 1), 77));
        assert_eq!(parse(text, 0x3000), None);
    }
}
