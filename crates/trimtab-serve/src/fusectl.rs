//! Aborts FUSE connections from outside: requests that wait for their server fail.
//!
//! A process does not end if it is killed while one of its threads waits in the kernel for a
//! request that the process itself should answer: that wait cannot be interrupted, and while the
//! thread exists `/dev/fuse` stays open, so the kernel does not drop the request. FUSE's control
//! file system has a file per connection by which root aborts it
//! (Documentation/filesystems/fuse.rst in Linux's source). It need not be mounted: a detached
//! instance suffices, and goes with its descriptor.

use std::fs;
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

use super::fuse;

/// Aborts the connection of this number, the minor device number of its file system.
pub(crate) fn abort(number: u32) -> rustix::io::Result<()> {
    let context = fsopen("fusectl", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    let root = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?;
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    let file = rustix::fs::openat(&root, format!("{number}/abort"), flags, Mode::empty())?;
    rustix::io::write(&file, b"1").map(drop)
}

/// A mounted file system, as this process sees it.
#[derive(Debug, PartialEq, Eq)]
struct Mount<'a> {
    /// The minor number; for FUSE, the connection's.
    number: u32,
    /// Spaces and the like are escaped.
    at: &'a str,
    kind: &'a str,
}

/// The mounts, from mountinfo. Querying a mount itself may block on its server.
fn mounts(mountinfo: &str) -> impl Iterator<Item = Mount<'_>> {
    mountinfo.lines().filter_map(|line| {
        // proc_pid_mountinfo(5): the fields before the dash vary in number.
        let (before, after) = line.split_once(" - ")?;
        let mut fields = before.split(' ').skip(2);
        let (_, minor) = fields.next()?.split_once(':')?;
        let at = fields.nth(1)?;
        Some(Mount { number: minor.parse().ok()?, at, kind: after.split(' ').next()? })
    })
}

/// The numbers of the file systems mounted on a directory, dead ones included.
pub(crate) fn mounted_on(directory: &Path) -> Vec<u32> {
    let text = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let at = escaped(directory);
    mounts(&text).filter(|mount| mount.at == at).map(|mount| mount.number).collect()
}

/// Whether a number now belongs to another file system: numbers are reused.
pub(crate) fn is_of_another(number: u32) -> bool {
    let text = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    mounts(&text).any(|mount| mount.number == number && mount.kind != fuse::FILE_SYSTEM)
}

/// A path as mountinfo escapes it.
fn escaped(path: &Path) -> String {
    let mut text = path.to_string_lossy().replace('\\', "\\134");
    for (character, escape) in [(' ', "\\040"), ('\t', "\\011"), ('\n', "\\012")] {
        text = text.replace(character, escape);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_testdisk::{Feature, requires};

    #[test]
    fn mountinfo_parses_with_and_without_optional_fields() {
        let text = "29 1 0:40 / /run/a\\040b/mount rw,nosuid shared:7 master:2 - fuse.trimtab x rw\n\
                    30 1 254:1 / / rw - ext4 /dev/root rw\n\
                    nonsense\n";
        let all: Vec<_> = mounts(text).collect();
        assert_eq!(
            all,
            [
                Mount { number: 40, at: "/run/a\\040b/mount", kind: fuse::FILE_SYSTEM },
                Mount { number: 1, at: "/", kind: "ext4" },
            ]
        );
        assert_eq!(escaped(Path::new("/run/a b/mount")), all[0].at);
    }

    #[test]
    fn aborting_an_unknown_connection_fails() {
        if !requires(&[Feature::Root]) {
            return;
        }
        match abort(u32::MAX) {
            Err(rustix::io::Errno::NOENT) => {}
            // A container may not mount, and a kernel may have no FUSE.
            Err(e) => trimtab_testdisk::skip(Feature::Fuse, &e.to_string()),
            Ok(()) => panic!("it was aborted"),
        }
    }
}
