//! The pinned map by which other processes open the state.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use libbpf_rs::MapHandle;
use trimtab_bpf::Error as BpfError;
use trimtab_io::monotonic;
use trimtab_state::{PIN_NAME, StateMemory};

use crate::Error;

/// A file by which other processes open the map of the drives' states; removed when dropped.
///
/// The kernel maps a map only for a process that has opened it for reading and writing, so
/// every process may do so. But the map is frozen: such a process can neither map it for
/// writing nor change it by a call. A BPF program can: so if every user may load programs,
/// only the owner and the group may open the file.
pub(crate) struct Pins {
    file: PathBuf,
    /// Directories that were made for it: removed with it, unless they are in use.
    _directories: Directories,
}

impl Pins {
    pub(crate) fn make(directory: &Path, mut devices: MapHandle) -> Result<Self, Error> {
        let directories = Directories::make(directory)?;
        let file = directory.join(PIN_NAME);
        remove_abandoned(&file)?;
        devices.pin(&file).map_err(BpfError::bpf(
            "pin the state (the directory must be on a BPF file system: mount -t bpf bpf \
             /sys/fs/bpf)",
        ))?;
        let this = Self { file, _directories: directories };
        let loading = fs::read_to_string("/proc/sys/kernel/unprivileged_bpf_disabled");
        set_mode(&this.file, mode(loading.ok().as_deref()))?;
        Ok(this)
    }

    /// Whether the file still exists under its name.
    pub(crate) fn is_there(&self) -> bool {
        self.file.exists()
    }
}

/// The mode of the file for this value of `kernel.unprivileged_bpf_disabled`: 0 means that
/// every user may load programs. Unknown counts as 0.
fn mode(unprivileged_bpf_disabled: Option<&str>) -> u32 {
    match unprivileged_bpf_disabled.map(str::trim) {
        Some("1" | "2") => 0o666,
        _ => 0o660,
    }
}

fn set_mode(path: &Path, mode: u32) -> Result<(), Error> {
    let set = fs::set_permissions(path, Permissions::from_mode(mode));
    Ok(set.map_err(BpfError::system("let others read the state"))?)
}

/// Directories that were made, the innermost first. Removed when dropped, unless they are not
/// empty.
struct Directories(Vec<PathBuf>);

impl Directories {
    /// Makes a directory that all users may search, and its parents.
    fn make(directory: &Path) -> Result<Self, Error> {
        let missing = |path: &&Path| !path.as_os_str().is_empty() && !path.exists();
        let made = directory.ancestors().take_while(missing).map(Path::to_owned).collect();
        let this = Self(made);
        fs::create_dir_all(directory).map_err(BpfError::system("make the directory for pins"))?;
        if let Some(innermost) = this.0.first() {
            set_mode(innermost, 0o755)?;
        }
        Ok(this)
    }
}

impl Drop for Directories {
    fn drop(&mut self) {
        for directory in &self.0 {
            // Fails, as intended, if there are other files.
            _ = fs::remove_dir(directory);
        }
    }
}

impl Drop for Pins {
    fn drop(&mut self) {
        _ = fs::remove_file(&self.file);
        if let Some(directory) = self.file.parent() {
            // Also one that a killed tracker had made. Fails, as intended, if there are other
            // files.
            _ = fs::remove_dir(directory);
        }
    }
}

/// Removes the pin of a tracker that was killed.
fn remove_abandoned(file: &Path) -> Result<(), Error> {
    if !file.exists() {
        return Ok(());
    }
    if StateMemory::open(file).is_ok_and(|memory| lives(&memory)) {
        return Err(Error::PinInUse(file.to_owned()));
    }
    Ok(fs::remove_file(file).map_err(BpfError::system("remove an abandoned pin"))?)
}

/// Whether the tracker of a state sends another heartbeat before it counts as gone. One that
/// was killed a moment ago has a recent heartbeat too.
fn lives(memory: &StateMemory) -> bool {
    let first = memory.tracker(0).heartbeat_ns;
    while memory.is_tracked(0, monotonic()) {
        if memory.tracker(0).heartbeat_ns != first {
            return true;
        }
        thread::sleep(Duration::from_millis(10));
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mode_excludes_users_that_may_load_programs() {
        for (sysctl, expected) in
            [(Some("2\n"), 0o666), (Some("1\n"), 0o666), (Some("0\n"), 0o660), (None, 0o660)]
        {
            assert_eq!(mode(sysctl), expected, "{sysctl:?}");
        }
    }

    #[test]
    fn only_directories_that_were_made_are_removed() {
        let place = tempfile::tempdir().unwrap();
        let inner = place.path().join("a/b");
        drop(Directories::make(&inner).unwrap());
        assert!(!place.path().join("a").exists());
        fs::create_dir(place.path().join("a")).unwrap();
        drop(Directories::make(&inner).unwrap());
        assert!(!inner.exists() && place.path().join("a").exists());
    }
}
