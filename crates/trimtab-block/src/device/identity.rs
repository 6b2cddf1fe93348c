//! What tells a block device from others.

use std::fs;
use std::path::Path;

use trimtab_predict::Identity;

use crate::BlockDevice;

/// Names of more characters are cut: a drive's have 64 at most, but SCSI's may be made of
/// several.
const LONGEST: usize = 256;

impl BlockDevice {
    /// What tells it from others: as much of it as the kernel tells. NVMe namespaces have
    /// all of it, SCSI and SATA drives a type and a WWID, virtio's may have a serial
    /// number, and loop devices only their capacity.
    #[must_use]
    pub fn identity(&self) -> Identity {
        let first = |files: &[&str]| files.iter().find_map(|file| name_in(&self.sysfs.join(file)));
        Identity {
            bytes: self.size().ok(),
            product: first(&["device/model"]),
            serial: first(&["serial", "device/serial"]),
            wwid: first(&["wwid", "device/wwid"]),
        }
    }
}

/// The name in a file of the kernel's; none if there is no file, or nothing in it.
fn name_in(file: &Path) -> Option<String> {
    let bytes = fs::read(file).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    // Drives fill their fields up with spaces, some with zeroes.
    let name = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
    (!name.is_empty()).then(|| name.chars().take(LONGEST).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the kernel shows an NVMe namespace.
    #[test]
    fn names_are_found_where_drives_of_each_kind_have_them() {
        let sysfs = tempfile::tempdir().unwrap();
        let write = |file: &str, content: &str| {
            let path = sysfs.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        };
        let device = BlockDevice {
            name: "nvme0n1".into(),
            number: (259, 0),
            sysfs: sysfs.path().to_owned(),
            sequence: None,
        };
        assert_eq!(device.identity(), Identity::default());
        write("size", "1000215216\n");
        let capacity = Identity { bytes: Some(512_110_190_592), ..Identity::default() };
        assert_eq!(device.identity(), capacity);
        write("device/model", "Fast 970 1TB                    \n");
        write("device/serial", "S4X1\0\0\0 \n");
        write("wwid", "eui.0025385b\n");
        let name = |name: &str| Some(name.to_owned());
        let nvme = Identity {
            product: name("Fast 970 1TB"),
            serial: name("S4X1"),
            wwid: name("eui.0025385b"),
            ..capacity
        };
        assert_eq!(device.identity(), nvme);
        // As virtio has it.
        write("serial", "disk-7\n");
        assert_eq!(device.identity().serial, name("disk-7"));
        write("wwid", "\n");
        write("device/wwid", &"ä".repeat(300));
        assert_eq!(device.identity().wwid, Some("ä".repeat(256)));
    }
}
