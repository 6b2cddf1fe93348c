//! The BPF file system that the state is pinned in, which is mounted again if it was
//! unmounted.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::statfs;
use rustix::mount::{MountFlags, mount};

use trimtab_bpf::Error;

/// `BPF_FS_MAGIC` (include/uapi/linux/magic.h)
const BPF_FS_MAGIC: u64 = 0xcafe_4a11;

/// A directory for pins, and its BPF file system.
pub(crate) struct BpfMount {
    directory: PathBuf,
    mount_point: PathBuf,
    /// The permissions of the file system's root.
    mode: u32,
}

impl BpfMount {
    /// Finds the mount of a directory on a BPF file system.
    pub(crate) fn of(directory: &Path) -> Result<Self, Error> {
        let find = || -> io::Result<Self> {
            let directory = fs::canonicalize(directory)?;
            let on = fs::metadata(&directory)?.dev();
            let is_on = |path: &&Path| fs::metadata(path).is_ok_and(|m| m.dev() == on);
            let mount_point = directory.ancestors().take_while(is_on).last().unwrap_or(&directory);
            let mode = fs::metadata(mount_point)?.permissions().mode() & 0o7777;
            Ok(Self { mount_point: mount_point.to_owned(), mode, directory })
        };
        find().map_err(Error::system("find the BPF file system of the pins"))
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Mounts the file system again at the same place, unless there is one.
    pub(crate) fn mount(&self) -> Result<(), Error> {
        let there = statfs(&self.mount_point);
        if there.is_ok_and(|fs| fs.f_type.cast_unsigned() & 0xffff_ffff == BPF_FS_MAGIC) {
            return Ok(());
        }
        let options = CString::new(format!("mode={:o}", self.mode)).expect("no zero in it");
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        mount("bpf", &self.mount_point, "bpf", flags, Some(&*options)).map_err(|e| {
            let point = self.mount_point.display();
            Error::Kernel(format!(
                "the BPF file system at {point} is unmounted and cannot be mounted again ({e}): \
                 mount -t bpf bpf {point}"
            ))
        })
    }
}
