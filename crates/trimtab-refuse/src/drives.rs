//! The drive that a file lies on.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};

use trimtab_block::BlockDevice;
use trimtab_block::topology::{Resolved, Topology};

/// The drives below file systems and block devices, by their numbers; each is looked up once.
#[derive(Debug, Default)]
pub(crate) struct DriveMap {
    known: BTreeMap<(u32, u32), Option<BlockDevice>>,
}

impl DriveMap {
    /// The drive that holds all of a file, directory or block device; `None` if there are
    /// several, or none whose requests the block layer sees.
    pub(crate) fn of(&mut self, found: &Metadata) -> Option<BlockDevice> {
        let is_device = found.file_type().is_block_device();
        let number = if is_device { found.rdev() } else { found.dev() };
        let number = (rustix::fs::major(number), rustix::fs::minor(number));
        self.known.entry(number).or_insert_with(|| drive_below(number)).clone()
    }
}

fn drive_below(number: (u32, u32)) -> Option<BlockDevice> {
    let topology = Topology::of(number)?;
    match topology.resolve(0, topology.root().size) {
        Resolved::At { disk, .. } | Resolved::Within { disk } => {
            Some(topology.disks()[disk].device.clone())
        }
        Resolved::SeveralDrives | Resolved::Unknown => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_in_memory_is_on_no_drive() {
        let mut drives = DriveMap::default();
        assert_eq!(drives.of(&std::fs::metadata("/proc/version").unwrap()), None);
        assert_eq!(drives.known.len(), 1);
    }
}
