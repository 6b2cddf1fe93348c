//! From a range of an open file or device to the disk that holds it.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::sync::Arc;

use trimtab_io::Nanos;

use crate::extents::Extents;
use crate::layers::Layers;
use crate::topology::{Disk, Resolved, Topology};

/// The place of a byte of a file on its device, or of a range on its disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// At this offset, bytes.
    At(u64),
    /// It has data at an unknown place.
    Unmapped,
    /// It has no data: a hole, or beyond the end of the file. Preallocated space is not a
    /// hole: data may be written there without a change of the file's extents that a process
    /// can detect.
    Hole,
}

/// Why no single disk holds a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoDrive {
    /// There is no disk below whose requests the block layer sees: a file in memory or on the
    /// network, or a file system without one device.
    NoDisk,
    /// Several drives hold the range, or any of several may be read.
    SeveralDrives,
    /// The mapping of the devices below is unknown.
    UnknownMapping,
}

/// The location of an open file or device.
#[derive(Debug)]
pub struct Location {
    base: Base,
    extents: Option<Extents>,
    /// The number of the device or the file system.
    number: (u32, u32),
}

/// The layers below.
#[derive(Debug)]
enum Base {
    Nothing,
    /// The disk, and the partition's offset on it, bytes.
    Disk(Disk, u64),
    Layers(Arc<Layers>),
}

impl Base {
    fn of(number: (u32, u32)) -> Self {
        let Some(topology) = Topology::of(number) else { return Self::Nothing };
        match (topology.disks(), topology.resolve(0, 1)) {
            ([], _) => Self::Nothing,
            ([disk], Resolved::At { offset, .. }) if topology.is_fixed() => {
                Self::Disk(disk.clone(), offset)
            }
            _ => Self::Layers(Arc::new(Layers::new(number, topology))),
        }
    }
}

impl Location {
    /// Locates an open file or device. Reads a file's extents, with one system call for every
    /// 64 of them.
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
        let base = Base::of(number);
        let has_extents = !is_device && !matches!(base, Base::Nothing);
        let extents = has_extents.then(|| Extents::of(Arc::clone(file)));
        Ok(Self { base, extents, number })
    }

    /// The disk that holds all of it; `None` if there are several or that is unknown.
    #[must_use]
    pub fn disk(&self) -> Option<&Disk> {
        match &self.base {
            Base::Nothing => None,
            Base::Disk(disk, _) => Some(disk),
            Base::Layers(layers) => layers.only_disk(),
        }
    }

    /// One of the disks that hold it, by the index that [`find`](Self::find) returns. A disk
    /// keeps its index; one that is added later gets the next.
    #[must_use]
    pub fn disk_at(&self, index: usize) -> Option<&Disk> {
        match &self.base {
            Base::Nothing => None,
            Base::Disk(disk, _) => (index == 0).then_some(disk),
            Base::Layers(layers) => layers.disk(index),
        }
    }

    /// The upper bound of indices.
    #[must_use]
    pub fn most_disks(&self) -> usize {
        match &self.base {
            Base::Nothing => 0,
            Base::Disk(..) => 1,
            Base::Layers(layers) => layers.most_disks(),
        }
    }

    /// The number of the disk, if all of it is on one; otherwise of the file system or device
    /// that holds the data.
    #[must_use]
    pub fn number(&self) -> (u32, u32) {
        self.disk().map_or(self.number, |disk| disk.device.number)
    }

    /// The file's length at the last check, bytes; `None` if it is not a file on a disk.
    #[must_use]
    pub fn length(&self) -> Option<u64> {
        self.extents.as_ref()?.length()
    }

    /// The disk that holds this range, and the range's offset on it. Never waits: a file or a
    /// stack of devices that has changed is examined again by another thread.
    ///
    /// On a disk or partition, and in a hole, only the first byte is looked up: all others are
    /// on the same disk.
    ///
    /// # Errors
    /// Several disks hold it, or none, or the mapping is unknown.
    pub fn find(&self, offset: u64, length: u64, now: Nanos) -> Result<(usize, Place), NoDrive> {
        match (&self.base, &self.extents) {
            (Base::Nothing, _) => Err(NoDrive::NoDisk),
            (Base::Disk(_, start), None) => Ok((0, Place::At(start.saturating_add(offset)))),
            (Base::Disk(_, start), Some(extents)) => {
                let place = match extents.find(offset, now) {
                    Place::At(place) => Place::At(start.saturating_add(place)),
                    other => other,
                };
                Ok((0, place))
            }
            (Base::Layers(layers), extents) => layers.find(extents.as_ref(), offset, length, now),
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
        assert_eq!(location.find(0, 1, Nanos(0)), Err(NoDrive::NoDisk));
        let error = Location::of(&Arc::new(File::open("/").unwrap())).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(21));
    }
}
