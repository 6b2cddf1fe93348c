//! Aborts FUSE connections from outside: whatever waits for their server gets an error.
//!
//! A process that is killed while one of its threads waits in the kernel for a request that
//! the process itself should answer does not end: that thread cannot be interrupted, and as
//! long as it exists `/dev/fuse` stays open, so that the kernel does not give the request
//! up. The control file system of FUSE has a file for each connection by which root ends it
//! (Documentation/filesystems/fuse.rst in Linux's source). It need not be mounted: an
//! instance outside of all directories is enough, and is gone with its descriptor.

use std::fs;
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

use super::fuse;

/// Aborts the connection of this number, which is the minor number of its file system.
pub(super) fn abort(number: u32) -> rustix::io::Result<()> {
    let context = fsopen("fusectl", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    let root = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?;
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    let file = rustix::fs::openat(&root, format!("{number}/abort"), flags, Mode::empty())?;
    rustix::io::write(&file, b"1").map(drop)
}

/// A file system that is mounted, as far as this process sees.
#[derive(Debug, PartialEq, Eq)]
struct Mount<'a> {
    /// The minor number; of FUSE, the connection's.
    number: u32,
    /// With spaces and the like escaped.
    at: &'a str,
    kind: &'a str,
}

/// What is mounted. Asking a mount itself may wait for its server.
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

/// The numbers of the file systems that are mounted on a directory, dead ones too.
pub(super) fn mounted_on(directory: &Path) -> Vec<u32> {
    let text = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let at = escaped(directory);
    mounts(&text).filter(|mount| mount.at == at).map(|mount| mount.number).collect()
}

/// Whether a number is that of another file system, as far as this process sees: numbers
/// are given anew when a file system is gone.
pub(super) fn is_of_another(number: u32) -> bool {
    let text = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    mounts(&text).any(|mount| mount.number == number && mount.kind != fuse::FILE_SYSTEM)
}

/// A path as the kernel lists it.
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
    fn mounts_are_read_with_and_without_optional_fields() {
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
    fn there_is_no_connection_of_this_number() {
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
