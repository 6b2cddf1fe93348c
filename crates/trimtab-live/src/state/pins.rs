//! The state as a file that others open.

use std::fs::{self, Permissions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use libbpf_rs::{MapCore, MapHandle};

use super::abi::{Device, MAX_DEVICES, VERSION};
use super::drive::{LiveDrive, Memory};
use crate::bpf::mapping::Mapping;
use crate::record::{BlockDevice, Error};

/// The file's name: all drives are in one map.
const DEVICES: &str = "devices";

/// A file by which others open the map of the drives' states; gone when dropped.
///
/// The kernel maps memory only for who has opened it for reading and writing, so
/// everyone may do that. But the map is frozen: whoever has it open can neither map
/// it for writing nor change it by a call. A BPF program could, of whoever may load one:
/// so where every user may, only the owner and the group may open it.
pub(super) struct Pins {
    file: PathBuf,
    /// Directories that were made for it: gone with it, if nobody else uses them.
    _directories: Directories,
}

impl Pins {
    pub(super) fn make(directory: &Path, mut devices: MapHandle) -> Result<Self, Error> {
        let directories = Directories::make(directory)?;
        let file = directory.join(DEVICES);
        remove_abandoned(&file)?;
        devices.pin(&file).map_err(Error::bpf(
            "pin the state (the directory must be on a BPF file system: mount -t bpf bpf \
             /sys/fs/bpf)",
        ))?;
        let this = Self { file, _directories: directories };
        let loading = fs::read_to_string("/proc/sys/kernel/unprivileged_bpf_disabled");
        let_pass(&this.file, mode(loading.ok().as_deref()))?;
        Ok(this)
    }

    /// Whether the file has its name still.
    pub(super) fn is_there(&self) -> bool {
        self.file.exists()
    }
}

/// Who may open the map, where `kernel.unprivileged_bpf_disabled` is this: 0 means that
/// every user may load programs. If it cannot be told, every user might.
fn mode(unprivileged_bpf_disabled: Option<&str>) -> u32 {
    match unprivileged_bpf_disabled.map(str::trim) {
        Some("1" | "2") => 0o666,
        _ => 0o660,
    }
}

fn let_pass(path: &Path, mode: u32) -> Result<(), Error> {
    fs::set_permissions(path, Permissions::from_mode(mode))
        .map_err(Error::system("let others read the state"))
}

/// Directories that were made, the innermost first. Removed when dropped, unless there is
/// something in them.
struct Directories(Vec<PathBuf>);

impl Directories {
    /// Makes a directory, for all to pass, and those that it is in.
    fn make(directory: &Path) -> Result<Self, Error> {
        let missing = |path: &&Path| !path.as_os_str().is_empty() && !path.exists();
        let made = directory.ancestors().take_while(missing).map(Path::to_owned).collect();
        let this = Self(made);
        fs::create_dir_all(directory).map_err(Error::system("make the directory for pins"))?;
        if let Some(innermost) = this.0.first() {
            let_pass(innermost, 0o755)?;
        }
        Ok(this)
    }
}

impl Drop for Directories {
    fn drop(&mut self) {
        for directory in &self.0 {
            // Fails, rightly, if others are there.
            _ = fs::remove_dir(directory);
        }
    }
}

impl Drop for Pins {
    fn drop(&mut self) {
        _ = fs::remove_file(&self.file);
        if let Some(directory) = self.file.parent() {
            // Also one that a killed keeper had made. Fails, rightly, if others are there.
            _ = fs::remove_dir(directory);
        }
    }
}

/// Removes what a keeper has left that was killed.
fn remove_abandoned(file: &Path) -> Result<(), Error> {
    if !file.exists() {
        return Ok(());
    }
    if open(file).is_ok_and(|(memory, _)| lives(&memory)) {
        let why = format!("another process keeps the state at {}", file.display());
        return Err(Error::Kernel(why));
    }
    fs::remove_file(file).map_err(Error::system("remove an abandoned pin"))
}

/// Whether the keeper of a state says again that it lives before it must be taken to be
/// gone. One that was killed just now has said so too.
fn lives(memory: &Memory) -> bool {
    let first = memory.kept(0).beat;
    while memory.is_kept(0, super::now()) {
        if memory.kept(0).beat != first {
            return true;
        }
        thread::sleep(Duration::from_millis(10));
    }
    false
}

/// Maps what a file stands for: so many drives.
fn open(file: &Path) -> Result<(Memory, usize), Error> {
    let open = |source: libbpf_rs::Error| match source.kind() {
        libbpf_rs::ErrorKind::PermissionDenied => Error::System {
            what: "open the state of drives (its directory must let you pass, and kernels \
                   before 5.19 want CAP_BPF)",
            source: io::Error::from(io::ErrorKind::PermissionDenied),
        },
        _ => Error::Bpf { what: "open the state of drives (is it kept and pinned there?)", source },
    };
    let devices = MapHandle::from_pinned_path(file).map_err(open)?;
    let count = devices.max_entries() as usize;
    let other = || Error::Kernel(format!("{} is of another version", file.display()));
    if count > MAX_DEVICES || devices.value_size() as usize != size_of::<Device>() {
        return Err(other());
    }
    let memory = Memory { devices: Mapping::new(devices.as_fd(), count, false)? };
    if (0..count).any(|index| memory.kept(index).version != VERSION) {
        return Err(other());
    }
    Ok((memory, count))
}

impl LiveDrive {
    /// Opens the state of a drive that another process keeps and has
    /// [pinned](super::Keeper::pin) in a directory.
    ///
    /// Any user may, if the directories on the way let them pass: systemd mounts
    /// `/sys/fs/bpf` for root alone (`chmod 755 /sys/fs/bpf`, or have a BPF file system
    /// elsewhere: `mount -t bpf -o mode=755 bpf /run/trimtab-bpf`; not at `/run/trimtab`,
    /// where it would hide the emulated drives and the readers). Linux before 5.19 also
    /// wants `CAP_BPF`.
    ///
    /// Where `kernel.unprivileged_bpf_disabled` is 0, only root and the file's group may:
    /// whoever has the map open, and may load BPF programs, can load one that writes it.
    ///
    /// # Errors
    /// Nothing is kept there, or not of this drive, or the process may not.
    pub fn open(directory: &Path, device: &BlockDevice) -> Result<Self, Error> {
        let (memory, count) = open(&directory.join(DEVICES))?;
        let is_it = |&index: &usize| memory.kept(index).number == device.kernel_number();
        let Some(index) = (0..count).find(is_it) else {
            let why = format!("is not watched by the keeper at {}", directory.display());
            return Err(Error::Device { name: device.name.clone(), why });
        };
        Self::new(Arc::new(memory), index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_could_write_by_a_program_may_not_open_it() {
        for (sysctl, expected) in
            [(Some("2\n"), 0o666), (Some("1\n"), 0o666), (Some("0\n"), 0o660), (None, 0o660)]
        {
            assert_eq!(mode(sysctl), expected, "{sysctl:?}");
        }
    }

    #[test]
    fn directories_that_were_made_go_and_others_stay() {
        let place = tempfile::tempdir().unwrap();
        let inner = place.path().join("a/b");
        drop(Directories::make(&inner).unwrap());
        assert!(!place.path().join("a").exists());
        fs::create_dir(place.path().join("a")).unwrap();
        drop(Directories::make(&inner).unwrap());
        assert!(!inner.exists() && place.path().join("a").exists());
    }
}
