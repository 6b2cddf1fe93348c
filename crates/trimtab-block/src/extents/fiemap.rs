//! Reads the extents of a file: `FS_IOC_FIEMAP` (the kernel's
//! Documentation/filesystems/fiemap.rst).

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rustix::ioctl::{self, Opcode, opcode};

/// Extents per request.
const BATCH: usize = 64;
/// The most extents of a file; the places of further ones are unknown.
const MOST: usize = 1 << 20;

const LAST: u32 = 0x1;
/// Flags of extents without a usable place: unknown, delayed, encoded, encrypted, inline,
/// packed with others. (An unaligned extent has a place.)
const NO_PLACE: u32 = 0x2 | 0x4 | 0x8 | 0x80 | 0x200 | 0x400;
/// `struct fiemap_extent`
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Raw {
    logical: u64,
    physical: u64,
    length: u64,
    reserved: [u64; 2],
    flags: u32,
    reserved2: [u32; 3],
}

/// `struct fiemap`, with room for the extents.
#[repr(C)]
struct Query {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    count: u32,
    reserved: u32,
    extents: [Raw; BATCH],
}

/// As in include/uapi/linux/fs.h: the encoded size is that of the header alone.
const FS_IOC_FIEMAP: Opcode = opcode::read_write::<[u64; 4]>(b'f', 11);

const _: () = assert!(size_of::<Raw>() == 56 && size_of::<Query>() == 32 + 56 * BATCH);

/// A stretch of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    /// Its start in the file, bytes.
    pub(super) start: u64,
    /// Its end.
    pub(super) end: u64,
    /// Its place on the device; `None` if it has none.
    pub(super) place: Option<u64>,
}

/// The extents of a file in order; the gaps between them read as zeroes. This does not flush
/// delayed data, which have no place yet.
///
/// Preallocated space (`FIEMAP_EXTENT_UNWRITTEN`) reads as zeroes as well, but has a place:
/// data written there become an ordinary extent when they reach the device, which changes
/// neither the file's size nor its times.
///
/// # Errors
/// The file system does not report extents; or `is_over` was set before the end
/// (`Interrupted`).
pub(super) fn extents(file: &File, is_over: &AtomicBool) -> io::Result<Vec<Extent>> {
    let mut all = Vec::new();
    let mut start = 0;
    loop {
        if is_over.load(Relaxed) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let mut query = Query {
            start,
            length: u64::MAX - start,
            flags: 0,
            mapped: 0,
            count: BATCH as u32,
            reserved: 0,
            extents: [Raw::default(); BATCH],
        };
        // SAFETY: the request reads and writes a `struct fiemap` with room for `count`
        // extents, which this is, and does not keep the pointer.
        unsafe { ioctl::ioctl(file, ioctl::Updater::<FS_IOC_FIEMAP, _>::new(&mut query)) }?;
        let mapped = &query.extents[..(query.mapped as usize).min(BATCH)];
        all.extend(mapped.iter().map(|raw| Extent {
            start: raw.logical,
            end: raw.logical.saturating_add(raw.length),
            place: (raw.flags & NO_PLACE == 0).then_some(raw.physical),
        }));
        match mapped.last() {
            Some(raw) if raw.flags & LAST == 0 && all.len() < MOST => {
                start = raw.logical + raw.length;
            }
            Some(raw) if raw.flags & LAST == 0 => {
                let start = raw.logical + raw.length;
                all.push(Extent { start, end: u64::MAX, place: None });
                return Ok(all);
            }
            _ => return Ok(all),
        }
    }
}
