//! What block devices are made of, down to the disks whose requests the block layer sees.
//!
//! A [`Topology`] is a tree of devices. The root is the device that a program reads from: an
//! LVM volume, a dm-crypt device, an md array, a partition, the head of an NVMe multipath
//! namespace. The leaves are disks with a request queue. [`Topology::resolve`] follows a range
//! of bytes from the root to the disk that holds it.
//!
//! ```text
//!   dm-1  dm-crypt      [0, 8 GiB)  ─> dm-0 + 16 MiB
//!    └ dm-0  LVM volume [0, 4 GiB)  ─> sda2 + 1 MiB     [4 GiB, 9 GiB) ─> sdb + 1 MiB
//!       ├ sda2  partition           ─> sda + 512 MiB
//!       └ sdb, sda  disks
//! ```
//!
//! The result is conservative. A range that needs two drives is on
//! [several](Resolved::SeveralDrives), and so is one whose data either of two drives may send
//! (mirrors). A mapping that the kernel does not report, or whose arithmetic is not
//! implemented here (thin pools, caches, arrays that are being reshaped), is
//! [unknown](Resolved::Unknown). If only the drive is certain, the result [has no
//! offset](Resolved::Within).
//!
//! [`Topology::of`] reads `/sys`, `/proc/diskstats`, and the tables of device-mapper devices,
//! which takes `CAP_SYS_ADMIN`. Without that a device-mapper device is opaque; if everything
//! below it is on one disk, the disk is still known.
//!
//! ```no_run
//! use trimtab_block::topology::{Resolved, Topology};
//!
//! # fn main() -> Result<(), trimtab_block::DeviceError> {
//! let topology = Topology::find("/dev/vg/data")?;
//! println!("{}", topology.describe());
//! if let Resolved::At { disk, offset } = topology.resolve(1 << 30, 4096) {
//!     println!("{} at byte {offset}", topology.disks()[disk].device.name);
//! }
//! # Ok(())
//! # }
//! ```

mod build;
mod describe;
mod ioctl;
mod md;
mod striped;
mod sysfs;
mod table;

#[cfg(test)]
mod tests;

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

use crate::DeviceError;
use crate::device::BlockDevice;
use striped::Striped;
use sysfs::System;

/// A disk whose requests the block layer sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    /// The disk itself.
    pub device: BlockDevice,
    /// Its size, bytes.
    pub size: u64,
}

/// The disk that holds a range of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolved {
    /// One disk, and the range begins at this offset on it.
    At {
        /// Index into [`Topology::disks`].
        disk: usize,
        /// Bytes.
        offset: u64,
    },
    /// One disk; the offset on it is unknown.
    Within {
        /// Index into [`Topology::disks`].
        disk: usize,
    },
    /// More than one disk, or any of several.
    SeveralDrives,
    /// The mapping is unknown.
    Unknown,
}

/// The kind of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceKind {
    /// A disk with a request queue.
    Disk,
    /// A loop device, on this file or device.
    Loop(String),
    /// A part of the device below.
    Partition,
    /// A device-mapper device: the tool that made it (`LVM`, `CRYPT`, from its UUID, or
    /// empty), and its name.
    DeviceMapper {
        /// The UUID's prefix; empty without a UUID.
        tool: String,
        /// As in `/dev/mapper`.
        name: String,
    },
    /// An md array of this level (`raid5`).
    Md(String),
    /// The head of an NVMe namespace with several paths.
    Multipath,
    /// A device without a request queue, and without devices below that the kernel names.
    Opaque,
}

/// A device of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The kernel's name.
    pub name: String,
    /// Major and minor number.
    pub number: (u32, u32),
    /// Bytes.
    pub size: u64,
    /// Its kind.
    pub kind: DeviceKind,
    /// The devices directly below, as indices of [`Topology::nodes`].
    pub below: Vec<usize>,
    mapping: Mapping,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Mapping {
    /// Index of the disk.
    Disk(usize),
    /// In order, without overlap. Gaps are unknown.
    Segments(Vec<Segment>),
}

/// A range of a device that is mapped by one rule.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Segment {
    start: u64,
    end: u64,
    target: Target,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Target {
    /// At this offset of the device below.
    Linear(Member),
    Striped(Striped),
    /// Several devices hold a copy.
    Copies,
    /// The process may not read the rule.
    Hidden,
    /// A rule of another kind: its members may be known, not what is where.
    Unknown,
}

/// A range of the device below, from this offset on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Member {
    node: usize,
    at: u64,
}

/// The devices below a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// The first is the root. A node precedes the devices below it.
    nodes: Vec<Node>,
    disks: Vec<Disk>,
}

impl Topology {
    /// The topology of the device with this number, on the running system; `None` if there is
    /// no such device (file systems without a device have such numbers).
    #[must_use]
    pub fn of(number: (u32, u32)) -> Option<Self> {
        build::topology(&System::running(), number)
    }

    /// The same from a copy of the files in `/sys`, for tests: without hidden disks, and
    /// without the tables of device-mapper devices.
    #[doc(hidden)]
    #[must_use]
    pub fn in_tree(sys: &Path, number: (u32, u32)) -> Option<Self> {
        let system = System { sys: sys.into(), diskstats: sys.join("diskstats"), table: |_| None };
        build::topology(&system, number)
    }

    /// The topology of a device given by name (`dm-0`) or path (`/dev/vg/data`).
    ///
    /// # Errors
    /// There is no such block device.
    pub fn find(given: &str) -> Result<Self, DeviceError> {
        let system = System::running();
        let error = |why: &str| DeviceError::new(given, why.to_owned());
        let number = if given.contains('/') {
            let metadata =
                fs::metadata(given).map_err(|e| error(&format!("cannot look at it: {e}")))?;
            let is_device = metadata.file_type().is_block_device();
            is_device
                .then(|| (rustix::fs::major(metadata.rdev()), rustix::fs::minor(metadata.rdev())))
        } else {
            system.number(&Path::new("/sys/class/block").join(given))
        };
        let number = number.ok_or_else(|| error("is no block device"))?;
        build::topology(&system, number).ok_or_else(|| error("the kernel does not list it"))
    }

    /// The disks that ranges can be resolved to.
    #[must_use]
    pub fn disks(&self) -> &[Disk] {
        &self.disks
    }

    /// All devices, the root first.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The device itself.
    #[must_use]
    pub fn root(&self) -> &Node {
        &self.nodes[0]
    }

    /// Whether it is a disk, or a partition of one: such a mapping never changes while the
    /// device is open.
    #[must_use]
    pub fn is_fixed(&self) -> bool {
        let is_plain = |node: &Node| {
            matches!(node.kind, DeviceKind::Disk | DeviceKind::Loop(_) | DeviceKind::Partition)
        };
        self.nodes.iter().all(is_plain)
    }

    /// Whether some range of it can be resolved to one disk.
    #[must_use]
    pub fn has_single_drive_ranges(&self) -> bool {
        let size = self.root().size;
        match &self.root().mapping {
            Mapping::Disk(_) => true,
            Mapping::Segments(segments) => {
                let starts = segments.iter().map(|segment| segment.start);
                starts.chain([0, size / 2]).any(|at| is_single(self.resolve(at, 1)))
            }
        }
    }

    /// The disk that holds these bytes.
    ///
    /// A range that extends past the device's end is cut there; of one that lies beyond it the
    /// last byte is looked up.
    #[must_use]
    pub fn resolve(&self, offset: u64, length: u64) -> Resolved {
        self.resolve_in(0, offset, length)
    }

    /// The disk that holds bytes of the device at an unknown offset.
    pub(crate) fn resolve_somewhere(&self) -> Resolved {
        self.somewhere_below(0, Resolved::Unknown)
    }

    fn resolve_in(&self, index: usize, offset: u64, length: u64) -> Resolved {
        let node = &self.nodes[index];
        let segments = match &node.mapping {
            Mapping::Disk(disk) => return Resolved::At { disk: *disk, offset },
            Mapping::Segments(segments) => segments,
        };
        let mut at = offset.min(node.size.saturating_sub(1));
        let end = offset.saturating_add(length).clamp(at + 1, node.size.max(at + 1));
        let mut found = None;
        let first = segments.partition_point(|segment| segment.end <= at);
        for segment in &segments[first..] {
            if segment.start > at {
                break;
            }
            let piece = end.min(segment.end) - at;
            let next = self.resolve_target(index, &segment.target, at - segment.start, piece);
            let all = joined(found, next);
            at += piece;
            if at == end || !is_single(all) {
                return all;
            }
            found = Some(all);
        }
        self.somewhere_below(index, Resolved::Unknown)
    }

    fn resolve_target(&self, node: usize, target: &Target, offset: u64, length: u64) -> Resolved {
        match target {
            Target::Linear(member) => self.resolve_member(*member, offset, length),
            Target::Striped(striped) => {
                let mut found = None;
                for piece in striped.pieces(offset, length) {
                    let next = match piece {
                        Some((member, at, length)) => self.resolve_member(member, at, length),
                        // It is computed from the other members.
                        None => Resolved::SeveralDrives,
                    };
                    let all = joined(found, next);
                    if !is_single(all) {
                        return all;
                    }
                    found = Some(all);
                }
                found.unwrap_or(Resolved::Unknown)
            }
            Target::Copies => self.somewhere_below(node, Resolved::SeveralDrives),
            Target::Hidden | Target::Unknown => self.somewhere_below(node, Resolved::Unknown),
        }
    }

    /// The result without a known rule: the disk, if everything below is on one.
    fn somewhere_below(&self, node: usize, otherwise: Resolved) -> Resolved {
        self.only_disk_below(node).map_or(otherwise, |disk| Resolved::Within { disk })
    }

    fn resolve_member(&self, member: Member, offset: u64, length: u64) -> Resolved {
        match member.at.checked_add(offset) {
            Some(offset) if offset < self.nodes[member.node].size => {
                self.resolve_in(member.node, offset, length)
            }
            _ => Resolved::Unknown,
        }
    }

    /// The disk that holds everything below a node, if there is only one.
    fn only_disk_below(&self, node: usize) -> Option<usize> {
        let node = &self.nodes[node];
        if let Mapping::Disk(disk) = node.mapping {
            return Some(disk);
        }
        let mut disks = node.below.iter().map(|&below| self.only_disk_below(below));
        let first = disks.next()??;
        disks.all(|disk| disk == Some(first)).then_some(first)
    }
}

const fn is_single(found: Resolved) -> bool {
    matches!(found, Resolved::At { .. } | Resolved::Within { .. })
}

/// The number of a disk that has no device file, by its directory in `/sys`.
pub(crate) fn number_of_hidden(directory: &Path) -> Option<(u32, u32)> {
    System::running().number(directory)
}

/// Combines the results of two consecutive ranges.
pub(crate) fn joined(found: Option<Resolved>, next: Resolved) -> Resolved {
    use Resolved::{At, SeveralDrives, Unknown, Within};
    let Some(found) = found else { return next };
    match (found, next) {
        (Unknown, _) | (_, Unknown) => Unknown,
        (SeveralDrives, _) | (_, SeveralDrives) => SeveralDrives,
        (At { disk: a, .. } | Within { disk: a }, At { disk: b, .. } | Within { disk: b }) => {
            if a == b { found } else { SeveralDrives }
        }
    }
}
