//! Block devices in `/sys`.

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::ioctl;
use super::table::Row;

/// A system's files: of the running system, or a copy in a test.
pub(super) struct System {
    /// `/sys`
    pub(super) sys: PathBuf,
    /// `/proc/diskstats`
    pub(super) diskstats: PathBuf,
    /// The table of the device-mapper device with this number; `None` if the process may not
    /// read it.
    pub(super) table: fn((u32, u32)) -> Option<Vec<Row>>,
}

impl System {
    pub(super) fn running() -> Self {
        Self { sys: "/sys".into(), diskstats: "/proc/diskstats".into(), table: ioctl::table }
    }

    /// The directory of the device with this number.
    pub(super) fn directory(&self, number: (u32, u32)) -> Option<PathBuf> {
        let link = self.sys.join(format!("dev/block/{}:{}", number.0, number.1));
        fs::canonicalize(link).ok().or_else(|| self.hidden(number))
    }

    /// The number of the device with this directory. The number of a hidden disk, such as a
    /// path of a multipath namespace, is only in the kernel's statistics.
    pub(super) fn number(&self, directory: &Path) -> Option<(u32, u32)> {
        if let Some(text) = text(&directory.join("dev")) {
            let (major, minor) = text.split_once(':')?;
            return Some((major.parse().ok()?, minor.parse().ok()?));
        }
        let name = directory.file_name()?.to_str()?;
        self.numbers().find(|(_, listed)| listed == name).map(|(number, _)| number)
    }

    fn hidden(&self, number: (u32, u32)) -> Option<PathBuf> {
        let (_, name) = self.numbers().find(|(listed, _)| *listed == number)?;
        let directory = fs::canonicalize(self.sys.join("block").join(name)).ok()?;
        (!directory.join("dev").exists()).then_some(directory)
    }

    /// All disks with numbers, as in `/proc/diskstats`.
    fn numbers(&self) -> impl Iterator<Item = ((u32, u32), String)> {
        let text = fs::read_to_string(&self.diskstats).unwrap_or_default();
        let parsed: Vec<_> = text.lines().filter_map(disk_number).collect();
        parsed.into_iter()
    }

    /// The paths of an NVMe multipath head that requests may take, sorted by name. The head
    /// `nvmeXnY` has the paths `nvmeXcZnY`, one for each controller.
    pub(super) fn paths(&self, head: &str) -> Vec<PathBuf> {
        let blocks = self.sys.join("block");
        let mut paths: Vec<_> = names(&blocks)
            .into_iter()
            .filter(|name| is_path_of(name, head))
            .filter_map(|name| fs::canonicalize(blocks.join(name)).ok())
            .filter(|path| path_state(path) != PathState::Unusable)
            .collect();
        // Paths that are not optimised get requests only if there is no other.
        let is_best = |path: &PathBuf| path_state(path) == PathState::Optimized;
        if paths.iter().any(is_best) {
            paths.retain(is_best);
        }
        paths
    }
}

/// Whether requests take a path of a multipath namespace.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PathState {
    Optimized,
    NonOptimized,
    Unusable,
}

fn path_state(path: &Path) -> PathState {
    let is_live = text(&path.join("device/state")).is_none_or(|state| state == "live");
    match text(&path.join("ana_state")).as_deref() {
        _ if !is_live => PathState::Unusable,
        // A controller without asymmetric access reports none.
        Some("optimized") | None => PathState::Optimized,
        Some("non-optimized") => PathState::NonOptimized,
        Some(_) => PathState::Unusable,
    }
}

/// Whether a name is `nvmeXcZnY` where the head is `nvmeXnY`.
pub(super) fn is_path_of(name: &str, head: &str) -> bool {
    let split = || {
        let (subsystem, rest) = head.strip_prefix("nvme")?.split_once('n')?;
        let (controller, namespace) = name
            .strip_prefix("nvme")?
            .strip_prefix(subsystem)?
            .strip_prefix('c')?
            .split_once('n')?;
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let all = [subsystem, rest, controller, namespace];
        Some(all.into_iter().all(is_number) && rest == namespace)
    };
    split().unwrap_or(false)
}

/// Number and name in a line of `/proc/diskstats`.
fn disk_number(line: &str) -> Option<((u32, u32), String)> {
    let mut fields = line.split_ascii_whitespace();
    let number = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some((number, fields.next()?.to_owned()))
}

/// A file's content, without surrounding spaces; `None` if it cannot be read or is empty.
pub(super) fn text(file: &Path) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// The number at the beginning of a file. (Some of md's files continue after it.)
pub(super) fn number<T: FromStr>(file: &Path) -> Option<T> {
    text(file)?.split_ascii_whitespace().next()?.parse().ok()
}

/// The names in a directory, sorted.
pub(super) fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names: Vec<_> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_unstable();
    names
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn paths_have_the_number_of_their_controller_in_the_name() {
        assert!(is_path_of("nvme0c1n1", "nvme0n1") && is_path_of("nvme12c3n4", "nvme12n4"));
        for other in ["nvme0c1n2", "nvme1c1n1", "nvme0n1", "nvme0cn1", "nvme0c1n1p1", "sda"] {
            assert!(!is_path_of(other, "nvme0n1"), "{other}");
        }
        assert!(!is_path_of("nvme12c3n4", "nvme1n4"));
    }

    #[test]
    fn hidden_disks_are_in_the_statistics() {
        let line = " 259       2 nvme0c0n1 12 0 96 3 0 0 0 0 0 4 3 0 0 0 0 0 0";
        assert_eq!(disk_number(line), Some(((259, 2), "nvme0c0n1".to_owned())));
        assert_eq!(disk_number("259 x nvme0c0n1"), None);
    }

    proptest! {
        #[test]
        fn any_text_is_taken(line: String, name in "nvme[0-9cn]{0,8}", head in "nvme[0-9n]{0,6}") {
            disk_number(&line);
            is_path_of(&name, &head);
        }
    }
}
