//! What is known of a drive by other processes.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use trimtab_device::FaultError;
use trimtab_serve::{Backend, DeviceInfo, DeviceKind, Error, Status};

/// The drives' directories on this machine (or of one test).
pub type RunDirectory = trimtab_serve::RunDirectory<DriveInfo>;

/// A drive's status.
pub type DriveStatus = Status<DriveInfo>;

/// A drive's description.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DriveInfo {
    /// Its name.
    pub name: String,
    /// Its block device.
    pub device: PathBuf,
    /// The server's process number.
    pub pid: u32,
    /// Its capacity, bytes.
    pub capacity: u64,
    /// The name of its profile.
    pub profile: String,
    /// Its seed.
    pub seed: u64,
    /// Where its content is: none, memory or file.
    pub data: String,
    /// How the kernel reaches it.
    #[serde(default)]
    pub backend: Backend,
    /// The file of its content, if that is in one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
    /// What tells its content from that of all others: a UUID. Empty of earlier versions.
    #[serde(default)]
    pub uuid: String,
    /// The loop device's I/O scheduler before, if it was changed. The setting outlives the drive,
    /// so that the process that takes the drive down restores it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler_before: Option<String>,
}

impl DeviceInfo for DriveInfo {
    const KIND: DeviceKind = DeviceKind::DRIVE;

    fn name(&self) -> &str {
        &self.name
    }

    fn device(&self) -> &Path {
        &self.device
    }

    fn pid(&self) -> u32 {
        self.pid
    }
}

/// The error for a fault that cannot be.
pub(super) fn bad_fault(error: FaultError) -> Error {
    Error::BadInput(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn info_of_earlier_versions_parses() {
        let text = r#"{"name": "a", "device": "/dev/loop0", "pid": 1, "capacity": 4096,
            "profile": "p", "seed": 1, "data": "none"}"#;
        let info: DriveInfo = serde_json::from_str(text).unwrap();
        assert_eq!((info.scheduler_before, info.uuid.as_str()), (None, ""));
        assert_eq!(info.backend, Backend::Fuse);
    }
}
