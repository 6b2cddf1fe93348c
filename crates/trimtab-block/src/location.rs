//! From an offset in an open file or device to one on the disk that holds it.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::sync::Arc;

use trimtab_io::Nanos;

use crate::device::BlockDevice;
use crate::extents::Extents;

/// Where a byte of a file or device lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// At this offset on the disk, bytes.
    At(u64),
    /// It has data, but their place is not known.
    Unmapped,
    /// It has none: a hole, or the end of the file. Preallocated space is no hole: data may
    /// be written there without a change of the file's extents that a process is told of.
    Hole,
}

/// An open file or device, and where its bytes lie.
#[derive(Debug)]
pub struct Location {
    disk: Option<Disk>,
    extents: Option<Extents>,
    /// That of the disk; of the device or the file system where the disk is unknown.
    number: (u32, u32),
}

/// The disk that holds it.
#[derive(Debug)]
pub struct Disk {
    /// The disk itself.
    pub device: BlockDevice,
    /// Its size, bytes.
    pub size: u64,
    /// Where on it the partition begins, bytes.
    start: u64,
}

impl Location {
    /// Locates an open file or device. A file's extents are read, which takes a system call
    /// for every 64 of them.
    ///
    /// # Errors
    /// It is a directory, or cannot be examined.
    pub fn of(file: &Arc<File>) -> io::Result<Self> {
        let metadata = file.metadata()?;
        let kind = metadata.file_type();
        if kind.is_dir() {
            return Err(rustix::io::Errno::ISDIR.into());
        }
        let is_device = kind.is_block_device();
        let number = if is_device { metadata.rdev() } else { metadata.dev() };
        let number = (rustix::fs::major(number), rustix::fs::minor(number));
        let disk = BlockDevice::holding(number).and_then(|(device, start)| {
            let size = device.size().ok()?;
            Some(Disk { device, size, start })
        });
        let extents = (disk.is_some() && !is_device).then(|| Extents::of(Arc::clone(file)));
        let number = disk.as_ref().map_or(number, |disk| disk.device.number);
        Ok(Self { disk, extents, number })
    }

    /// The disk that holds it; none if that is not known, or it is not one disk.
    #[must_use]
    pub const fn disk(&self) -> Option<&Disk> {
        self.disk.as_ref()
    }

    /// The number that reads of the same drive share: that of the disk, or of the file
    /// system or device that holds the data.
    #[must_use]
    pub const fn number(&self) -> (u32, u32) {
        self.number
    }

    /// The file's length at the last look, bytes; none if it is no file on a disk.
    #[must_use]
    pub fn length(&self) -> Option<u64> {
        self.extents.as_ref()?.length()
    }

    /// Where the byte at this offset lies. Never waits: a file that has changed is examined
    /// again by another thread.
    #[must_use]
    pub fn find(&self, offset: u64, now: Nanos) -> Place {
        let start = self.disk.as_ref().map_or(0, |disk| disk.start);
        match &self.extents {
            None => Place::At(start + offset),
            Some(extents) => match extents.find(offset, now) {
                Place::At(place) => Place::At(start + place),
                other => other,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_on_no_disk_has_no_disk_and_no_extents() {
        let location = Location::of(&Arc::new(File::open("/proc/version").unwrap())).unwrap();
        assert!(location.disk().is_none() && location.extents.is_none());
        let error = Location::of(&Arc::new(File::open("/").unwrap())).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(21));
    }
}
