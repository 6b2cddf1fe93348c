//! From an offset in what is read to one on its disk.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::sync::Arc;

use trimtab_io::Nanos;

use super::extents::Extents;
use crate::record::BlockDevice;

/// What a read asks of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Where {
    /// Data at this offset on the disk, bytes.
    At(u64),
    /// Data of which the place is not known.
    Somewhere,
    /// Nothing: a hole, or the end of the file. Room that was set aside is none: data may
    /// be written there without a change of the file's extents that anybody is told of.
    Nowhere,
}

/// What is read, and where it is.
#[derive(Debug)]
pub(super) struct Place {
    disk: Option<Disk>,
    extents: Option<Extents>,
    /// Of the disk; where none is known, of the device or the file system.
    number: (u32, u32),
}

/// The disk that it is on.
#[derive(Debug)]
pub(super) struct Disk {
    pub(super) device: BlockDevice,
    /// Its size, bytes.
    pub(super) size: u64,
    /// Where on it the partition begins.
    start: u64,
}

impl Place {
    /// Of an open device or file.
    pub(super) fn of(file: &Arc<File>) -> io::Result<Self> {
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

    pub(super) const fn disk(&self) -> Option<&Disk> {
        self.disk.as_ref()
    }

    /// What reads of the same drive have in common: the number of the disk, or of what
    /// else holds the data.
    pub(super) const fn number(&self) -> (u32, u32) {
        self.number
    }

    /// How long the file was when that was looked at last; none of what is no file on a
    /// disk.
    pub(super) fn length(&self) -> Option<u64> {
        self.extents.as_ref()?.length()
    }

    /// Where the first byte of a read lies.
    pub(super) fn find(&self, offset: u64, now: Nanos) -> Where {
        let start = self.disk.as_ref().map_or(0, |disk| disk.start);
        match &self.extents {
            None => Where::At(start + offset),
            Some(extents) => match extents.find(offset, now) {
                Where::At(place) => Where::At(start + place),
                other => other,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without a disk below there is nothing to look up, and nothing to fail.
    #[test]
    fn what_is_on_no_disk_has_none() {
        let place = Place::of(&Arc::new(File::open("/proc/version").unwrap())).unwrap();
        assert!(place.disk().is_none() && place.extents.is_none());
        let error = Place::of(&Arc::new(File::open("/").unwrap())).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(21));
    }
}
