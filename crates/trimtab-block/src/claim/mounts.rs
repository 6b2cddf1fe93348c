//! Mounts, in every visible mount namespace.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::number::Number;

/// A mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mount {
    /// The device's number; a file system without a device has a number of its own.
    pub(super) number: u64,
    pub(super) at: PathBuf,
    /// Its type: `ext4`.
    pub(super) kind: String,
    /// The mounted source, as the mounting program gave it.
    source: PathBuf,
    /// A process that sees it, if this one does not.
    pub(super) process: Option<u32>,
}

impl Mount {
    /// The devices that it is mounted from. A file system with several devices has a number of
    /// its own; its source leads to one of the devices.
    pub(super) fn devices(&self) -> impl Iterator<Item = Number> {
        use std::os::unix::fs::FileTypeExt as _;
        // Other sources may be arbitrary names, and examining them may block.
        let source = self.source.starts_with("/dev").then(|| fs::metadata(&self.source).ok());
        let source = source.flatten();
        let source = source.filter(|source| source.file_type().is_block_device());
        std::iter::once(Number(self.number)).chain(source.map(|source| Number(source.rdev())))
    }
}

/// A mounted file system, as this thread sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSystem {
    /// The device's number; a file system without a device has a number of its own.
    pub number: (u32, u32),
    /// The mount point.
    pub at: PathBuf,
    /// Its type: `ext4`.
    pub kind: String,
    /// Whether it was mounted from a device.
    pub is_from_device: bool,
}

/// The file systems that this thread sees mounted, in mount order.
#[must_use]
pub fn mounted_here() -> Vec<FileSystem> {
    let mounts = mounts_of(Path::new("/proc/thread-self"), None).into_iter();
    let file_systems = mounts.map(|mount| FileSystem {
        number: (rustix::fs::major(mount.number), rustix::fs::minor(mount.number)),
        is_from_device: mount.source.starts_with("/dev"),
        at: mount.at,
        kind: mount.kind,
    });
    file_systems.collect()
}

/// All mounts of this thread's namespace, and of all other accessible namespaces.
pub(super) fn all() -> Vec<Mount> {
    let own = Path::new("/proc/thread-self");
    let mut seen: HashSet<_> = namespace(own).into_iter().collect();
    let mut mounts = mounts_of(own, None);
    for process in numbers(Path::new("/proc")) {
        let tasks = PathBuf::from(format!("/proc/{process}/task"));
        // Each thread may have its own namespace.
        for thread in numbers(&tasks) {
            let place = tasks.join(thread.to_string());
            if namespace(&place).is_some_and(|number| seen.insert(number)) {
                mounts.extend(mounts_of(&place, Some(process)));
            }
        }
    }
    mounts
}

/// The entries of a directory that are numbers.
fn numbers(directory: &Path) -> impl Iterator<Item = u32> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The mount namespace of a process or thread.
fn namespace(place: &Path) -> Option<(u64, u64)> {
    let metadata = fs::metadata(place.join("ns/mnt")).ok()?;
    Some((metadata.dev(), metadata.ino()))
}

fn mounts_of(place: &Path, process: Option<u32>) -> Vec<Mount> {
    let text = fs::read(place.join("mountinfo")).unwrap_or_default();
    let lines = text.split(|&byte| byte == b'\n');
    lines.filter_map(parse).map(|mount| Mount { process, ..mount }).collect()
}

/// A line of mountinfo (`proc_pid_mountinfo(5)`).
fn parse(line: &[u8]) -> Option<Mount> {
    let fields: Vec<&[u8]> = line.split(|&byte| byte == b' ').collect();
    let rest = fields.iter().position(|field| *field == b"-")?;
    let text = |field: &[u8]| std::str::from_utf8(field).ok().map(str::to_owned);
    Some(Mount {
        number: Number::parse(&text(fields.get(2)?)?)?.0,
        at: unescaped(fields.get(4)?),
        kind: text(fields.get(rest + 1)?)?,
        source: unescaped(fields.get(rest + 2)?),
        process: None,
    })
}

/// Decodes a path of the kernel's tables, in which blanks and the like are `\040`.
pub(super) fn unescaped(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|_| first == b'\\');
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[3..];
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    OsString::from_vec(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mountinfo_line_is_parsed() {
        let line = b"36 35 7:17 / /mnt/a\\040b rw,noatime shared:1 master:2 - ext4 /dev/x\\134y rw";
        let mount = parse(line).unwrap();
        assert_eq!(mount.number, rustix::fs::makedev(7, 17));
        assert_eq!((mount.at, mount.source), ("/mnt/a b".into(), "/dev/x\\y".into()));
        assert_eq!(mount.kind, "ext4");
        assert!(parse(b"36 35 7:17 / /mnt rw").is_none() && parse(b"").is_none());
    }

    #[test]
    fn mounts_of_this_process_come_first_and_once() {
        let mounts = all();
        let here = mounts.iter().take_while(|mount| mount.process.is_none()).count();
        let own = fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
        assert_eq!(here, own.lines().count());
        assert!(mounts[here..].iter().all(|mount| mount.process.is_some()));
    }
}
