//! The identity of a block device.

use std::fs;
use std::path::Path;

use trimtab_predict::Identity;

use crate::BlockDevice;

/// Longer names are cut: a drive's have at most 64 characters, but SCSI's may be composed of
/// several.
const LONGEST: usize = 256;

impl BlockDevice {
    /// Its identity, as far as the kernel reports it. NVMe namespaces have all fields, SCSI
    /// and SATA drives a type and a WWID, virtio disks may have a serial number, and loop
    /// devices only their capacity.
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

/// The name in a file of sysfs; `None` if there is no file, or it is empty.
fn name_in(file: &Path) -> Option<String> {
    let bytes = fs::read(file).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    // Drives pad their fields with spaces, some with zeroes.
    let name = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
    (!name.is_empty()).then(|| name.chars().take(LONGEST).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As for an NVMe namespace.
    #[test]
    fn identity_is_found_for_each_kind_of_drive() {
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
        // As for virtio.
        write("serial", "disk-7\n");
        assert_eq!(device.identity().serial, name("disk-7"));
        write("wwid", "\n");
        write("device/wwid", &"ä".repeat(300));
        assert_eq!(device.identity().wwid, Some("ä".repeat(256)));
    }
}
