//! Identities of devices and files, independent of their names.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// A block device's number, as in `stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Number(pub(super) u64);

impl Number {
    /// Parses "7:1".
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (major, minor) = text.trim().split_once(':')?;
        Some(Self(rustix::fs::makedev(major.parse().ok()?, minor.parse().ok()?)))
    }

    /// The device's directory in sysfs.
    fn sysfs(self) -> Option<PathBuf> {
        let (major, minor) = (rustix::fs::major(self.0), rustix::fs::minor(self.0));
        fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()
    }

    /// The kernel's name for it: `loop1p2`.
    pub(super) fn name(self) -> String {
        let name = self.sysfs().and_then(|sysfs| Some(sysfs.file_name()?.to_str()?.to_owned()));
        name.unwrap_or_else(|| {
            format!("{}:{}", rustix::fs::major(self.0), rustix::fs::minor(self.0))
        })
    }

    /// The disk that it is a partition of.
    pub(super) fn disk(self) -> Option<Self> {
        let sysfs = self.sysfs().filter(|sysfs| sysfs.join("partition").exists())?;
        of(sysfs.parent()?)
    }

    /// Its partitions.
    pub(super) fn partitions(self) -> Vec<Self> {
        let entries = self.sysfs().and_then(|sysfs| fs::read_dir(sysfs).ok());
        let is_partition = |path: &PathBuf| path.join("partition").exists();
        let paths = entries.into_iter().flatten().flatten().map(|entry| entry.path());
        paths.filter(is_partition).filter_map(|path| of(&path)).collect()
    }

    /// Devices built on it: device mapper, RAID.
    pub(super) fn holders(self) -> Vec<String> {
        let directory = self.sysfs().map(|sysfs| sysfs.join("holders"));
        let entries = directory.and_then(|directory| fs::read_dir(directory).ok());
        let names = entries.into_iter().flatten().flatten();
        names.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    }

    /// Its usual device node.
    pub(super) fn node(self) -> Option<PathBuf> {
        let events = fs::read_to_string(self.sysfs()?.join("uevent")).ok()?;
        let name = events.lines().find_map(|line| line.strip_prefix("DEVNAME="))?;
        Some(Path::new("/dev").join(name))
    }
}

/// The number of the device with this directory in sysfs.
fn of(sysfs: &Path) -> Option<Number> {
    Number::parse(&fs::read_to_string(sysfs.join("dev")).ok()?)
}

/// The identity of an object. Two paths to the same object yield the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity(pub(super) Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A block device, independent of the node.
    Device(Number),
    /// A regular file, independent of its names.
    File(FileId),
}

/// A regular file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileId {
    /// The number of its file system, as in `stat`.
    pub(super) device: u64,
    pub(super) inode: u64,
}

impl Identity {
    /// The identity of an open file; `None` if it is neither a block device nor a regular
    /// file.
    ///
    /// # Errors
    /// `fstat`'s.
    pub fn of(file: &fs::File) -> io::Result<Option<Self>> {
        Ok(Self::of_metadata(&file.metadata()?))
    }

    pub(super) fn of_metadata(metadata: &fs::Metadata) -> Option<Self> {
        let kind = metadata.file_type();
        if kind.is_block_device() {
            Some(Self(Kind::Device(Number(metadata.rdev()))))
        } else if kind.is_file() {
            Some(Self(Kind::File(FileId { device: metadata.dev(), inode: metadata.ino() })))
        } else {
            None
        }
    }

    /// Whether writing to one can change the other: they are the same, or a disk and one of
    /// its partitions.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        let (Self(Kind::Device(one)), Self(Kind::Device(another))) = (self, other) else {
            return self == other;
        };
        one == another || one.disk() == Some(*another) || another.disk() == Some(*one)
    }
}
