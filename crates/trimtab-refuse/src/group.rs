//! The control group of the program.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use crate::Error;

/// Names of the groups begin like this; the rest is the process that made it.
const PREFIX: &str = "trimtab-run-";

/// A control group (cgroup v2) below that of this process, for one program and its children.
/// Dropping it moves what still runs in it to the group above, and removes it.
///
/// The directory is locked while the group is in use. A group whose maker was killed has no
/// lock: the next one to be made beside it removes it.
#[derive(Debug)]
pub struct ProgramGroup {
    path: PathBuf,
    directory: File,
    /// `cgroup.procs`: a process that writes 0 moves itself.
    entry: File,
}

impl ProgramGroup {
    /// Makes a group.
    ///
    /// # Errors
    /// No cgroup v2 file system is mounted, or the process may not make one.
    pub fn make() -> Result<Self, Error> {
        /// Another process may take a group without a lock for one that is left.
        const TRIES: u32 = 10;
        let above = own_group()?;
        remove_left(&above);
        let path = above.join(format!("{PREFIX}{}", std::process::id()));
        let mut tries = 1;
        loop {
            match Self::at(&path) {
                Err(_) if tries < TRIES => tries += 1,
                made => return made,
            }
        }
    }

    fn at(path: &Path) -> Result<Self, Error> {
        fs::create_dir(path).map_err(Error::file("make a control group", path))?;
        let opened = || -> io::Result<(File, File)> {
            let directory = File::open(path)?;
            directory.try_lock()?;
            let entry = OpenOptions::new().write(true).open(path.join("cgroup.procs"))?;
            Ok((directory, entry))
        };
        match opened() {
            Ok((directory, entry)) => Ok(Self { path: path.to_owned(), directory, entry }),
            Err(e) => {
                _ = fs::remove_dir(path);
                Err(Error::file("use the control group", path)(e))
            }
        }
    }

    /// Where a process enters the group: it writes `0` there.
    #[must_use]
    pub const fn entry(&self) -> &File {
        &self.entry
    }

    /// Its directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl AsFd for ProgramGroup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }
}

impl Drop for ProgramGroup {
    fn drop(&mut self) {
        _ = remove(&self.path);
    }
}

/// The directory of this process's group.
fn own_group() -> Result<PathBuf, Error> {
    let mounts = fs::read_to_string("/proc/self/mountinfo");
    let groups = fs::read_to_string("/proc/self/cgroup");
    let read = |what: io::Result<String>| what.unwrap_or_default();
    let found = group_in(&read(mounts), &read(groups)).filter(|path| path.is_dir());
    found.ok_or(Error::NoCgroups)
}

/// The directory of a process's group, from its `mountinfo` and its `cgroup`.
fn group_in(mounts: &str, groups: &str) -> Option<PathBuf> {
    let path = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    mounts.lines().find_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        kind.starts_with("cgroup2 ").then_some(())?;
        let mut fields = mount.split(' ').skip(3);
        let (root, at) = (fields.next()?, fields.next()?);
        // Only a part of the hierarchy may be mounted there.
        let below = Path::new(path).strip_prefix(root).ok()?;
        Some(Path::new(at).join(below))
    })
}

/// Removes the groups whose makers were killed.
fn remove_left(above: &Path) {
    let Ok(entries) = fs::read_dir(above) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if entry.file_name().to_string_lossy().starts_with(PREFIX)
            && File::open(&path).is_ok_and(|directory| directory.try_lock().is_ok())
        {
            _ = remove(&path);
        }
    }
}

/// Moves the processes of a group to the one above it, and removes it.
fn remove(path: &Path) -> io::Result<()> {
    /// A process may fork while it is moved: so often the list is read again.
    const TRIES: u32 = 100;
    let above = path.parent().unwrap_or(path).join("cgroup.procs");
    for _ in 0..TRIES {
        match fs::remove_dir(path) {
            Err(e) if e.raw_os_error() == Some(libc::EBUSY) => {}
            ended => return ended,
        }
        let processes = fs::read_to_string(path.join("cgroup.procs"))?;
        for process in processes.lines() {
            // It may have ended in the meantime: no error.
            _ = OpenOptions::new().write(true).open(&above)?.write_all(process.as_bytes());
        }
    }
    fs::remove_dir(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_is_found_below_any_mount() {
        let unified = "24 1 0:22 / /sys rw - sysfs sysfs rw\n\
                       30 24 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";
        let hybrid = "31 24 0:27 / /sys/fs/cgroup/unified rw shared:9 - cgroup2 cgroup2 rw\n";
        let part = "31 24 0:27 /system.slice /mnt rw - cgroup2 none rw\n";
        for (mounts, groups, expected) in [
            (unified, "0::/\n", Some("/sys/fs/cgroup")),
            (unified, "0::/user.slice/a.scope\n", Some("/sys/fs/cgroup/user.slice/a.scope")),
            (hybrid, "2:cpu:/x\n0::/a\n", Some("/sys/fs/cgroup/unified/a")),
            (part, "0::/system.slice/b\n", Some("/mnt/b")),
            (part, "0::/user.slice\n", None),
            ("", "0::/\n", None),
            (unified, "2:cpu:/x\n", None),
        ] {
            assert_eq!(group_in(mounts, groups), expected.map(PathBuf::from), "{groups}");
        }
    }
}
