//! Where a file's data lie on its device: `FS_IOC_FIEMAP` (the kernel's
//! Documentation/filesystems/fiemap.rst).

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rustix::ioctl::{self, Opcode, opcode};

/// Extents that are asked for at once.
const BATCH: usize = 64;
/// A file in more pieces than this is one whose places are not known beyond.
const MOST: usize = 1 << 20;

const LAST: u32 = 0x1;
/// Not on the device, not yet there, or not as it is read: unknown, delayed, encoded,
/// encrypted, within metadata, packed with others. (Not aligned is only that.)
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

/// As in include/uapi/linux/fs.h: the size in it is that of the header alone.
const FS_IOC_FIEMAP: Opcode = opcode::read_write::<[u64; 4]>(b'f', 11);

const _: () = assert!(size_of::<Raw>() == 56 && size_of::<Query>() == 32 + 56 * BATCH);

/// A stretch of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    /// Where in the file, bytes.
    pub(super) start: u64,
    /// Where it ends.
    pub(super) end: u64,
    /// Where on the device; none if it has no place there.
    pub(super) place: Option<u64>,
}

/// The extents of a file in order; what lies between them reads as zeroes. Asks for what
/// there is: data that are still to be written get no place by this.
///
/// Room that was set aside and never written (`FIEMAP_EXTENT_UNWRITTEN`) reads as zeroes
/// as well, but has a place: data written there become an extent like any other when they
/// reach the device, which changes neither the file's size nor its times.
///
/// # Errors
/// The file system does not tell; or, `Interrupted`, it `is_over` before all is known.
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
