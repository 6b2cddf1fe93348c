//! Block devices and file systems: their layers, and whether predicted reads work.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;
use trimtab_block::topology::{DeviceKind, Topology};
use trimtab_block::{FileSystem, mounted_here};

/// Drives whose state is tracked, or can be.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    /// Kernel numbers of drives that a tracker tracks.
    pub(crate) tracked: Vec<u32>,
    /// Whether this process may load the programs.
    pub(crate) can_track: bool,
}

/// A block device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeviceReport {
    /// The kernel's name.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// Its layers, from the device down.
    pub made_of: String,
    /// The disks that ranges of it can be resolved to.
    pub disks: Vec<String>,
    /// The I/O scheduler, where it has a queue.
    pub scheduler: Option<String>,
    /// Whether the block layer sees its own requests. A device built on others has none; those
    /// of its disks are seen.
    pub requests_seen: bool,
    /// Whether a state tracker tracks all of its disks.
    pub tracked: bool,
    /// Whether predicted reads can work on it.
    pub predicted_reads: bool,
    /// Why not, or not everywhere on it.
    pub why: Option<String>,
}

/// A mounted file system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileSystemReport {
    /// Its mount point; the first one, if there are several.
    pub mounted_at: PathBuf,
    /// `ext4`.
    pub kind: String,
    /// The layers of its device.
    pub made_of: String,
    /// Whether predicted reads can work on its files.
    pub predicted_reads: bool,
    /// Why not, or not everywhere.
    pub why: Option<String>,
}

/// All non-empty devices of the running machine.
pub(crate) fn all(state: &State) -> Vec<DeviceReport> {
    let mut names: Vec<_> = fs::read_dir("/sys/block")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort_unstable();
    names.iter().filter_map(|name| device(name, state)).collect()
}

fn device(name: &str, state: &State) -> Option<DeviceReport> {
    let directory = Path::new("/sys/block").join(name);
    // A path of a multipath namespace has no device file, and is reported with its head.
    let topology = directory.join("dev").exists().then(|| Topology::find(name).ok())??;
    if topology.root().size == 0 {
        return None;
    }
    let scheduler = fs::read_to_string(directory.join("queue/scheduler")).ok();
    Some(report(&topology, scheduler.as_deref().and_then(current), state))
}

/// The entry in brackets of `none [mq-deadline] kyber`.
fn current(schedulers: &str) -> Option<String> {
    let (_, rest) = schedulers.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}

fn report(topology: &Topology, scheduler: Option<String>, state: &State) -> DeviceReport {
    let root = topology.root();
    let requests_seen = matches!(root.kind, DeviceKind::Disk | DeviceKind::Loop(_));
    let (predicted_reads, why) = predicted(topology, state);
    DeviceReport {
        name: root.name.clone(),
        size: root.size,
        made_of: topology.describe(),
        disks: topology.disks().iter().map(|disk| disk.device.name.clone()).collect(),
        scheduler: scheduler.filter(|_| requests_seen),
        requests_seen,
        tracked: is_tracked(topology, state),
        predicted_reads,
        why,
    }
}

fn is_tracked(topology: &Topology, state: &State) -> bool {
    let is = |number| state.tracked.contains(&number);
    !topology.disks().is_empty()
        && topology.disks().iter().all(|disk| is(disk.device.kernel_number()))
}

/// Whether predicted reads can work, and why not or not everywhere.
fn predicted(topology: &Topology, state: &State) -> (bool, Option<String>) {
    let limits = topology.limits().map(ToOwned::to_owned);
    if !topology.has_single_drive_ranges() {
        return (false, limits.or_else(|| Some("no disk is below".to_owned())));
    }
    if state.can_track || is_tracked(topology, state) {
        return (true, limits);
    }
    let names: Vec<_> = topology.disks().iter().map(|disk| &*disk.device.name).collect();
    let why = format!("{} not tracked, and BPF programs cannot be loaded", names.join(" "));
    (false, Some(why))
}

/// File systems that this process sees mounted from devices.
pub(crate) fn mounted(state: &State) -> Vec<FileSystemReport> {
    let mut seen = BTreeSet::new();
    let mounts = mounted_here().into_iter();
    mounts.filter(|mount| seen.insert(mount.number)).filter_map(|m| file_system(m, state)).collect()
}

fn file_system(mount: FileSystem, state: &State) -> Option<FileSystemReport> {
    let FileSystem { number, at, kind, is_from_device } = mount;
    let (made_of, (predicted_reads, why)) = match Topology::of(number) {
        Some(topology) => {
            let is_disk = topology.nodes().len() == 1;
            let name = &topology.root().name;
            let below = if is_disk { String::new() } else { format!(": {}", topology.describe()) };
            (format!("{name}{below}"), predicted(&topology, state))
        }
        // Btrfs and others have several devices, and do not report which one holds a file.
        None if is_from_device => {
            let why = "its files are not on one device that the kernel names";
            ("several devices".to_owned(), (false, Some(why.to_owned())))
        }
        None => return None,
    };
    Some(FileSystemReport { mounted_at: at, kind, made_of, predicted_reads, why })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A copy of `/sys` for a disk, an empty ramdisk and a mirror of two disks.
    fn tree() -> tempfile::TempDir {
        let tree = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| {
            let path = tree.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let numbers = [("sda", "8:0"), ("sdb", "8:16"), ("zram0", "252:0"), ("md0", "9:0")];
        for (name, number) in numbers {
            write(&format!("block/{name}/size"), "8192\n");
            write(&format!("block/{name}/dev"), number);
            fs::create_dir_all(tree.path().join("dev/block")).unwrap();
            let to = tree.path().join("block").join(name);
            symlink(to, tree.path().join("dev/block").join(number)).unwrap();
        }
        for name in ["sda", "sdb"] {
            write(&format!("block/{name}/mq/0/cpu_list"), "0\n");
        }
        for (file, text) in [("level", "raid1"), ("raid_disks", "2"), ("reshape_position", "none")]
        {
            write(&format!("block/md0/md/{file}"), text);
        }
        for (slot, name) in ["sda", "sdb"].into_iter().enumerate() {
            let member = format!("block/md0/md/dev-{name}");
            write(&format!("{member}/slot"), &slot.to_string());
            for (file, text) in [("state", "in_sync"), ("offset", "0"), ("size", "4096")] {
                write(&format!("{member}/{file}"), text);
            }
            let to = tree.path().join("block").join(name);
            symlink(to, tree.path().join(member).join("block")).unwrap();
        }
        tree
    }

    fn of(tree: &tempfile::TempDir, number: (u32, u32), state: &State) -> DeviceReport {
        let topology = Topology::in_tree(tree.path(), number).unwrap();
        report(&topology, Some("none".to_owned()), state)
    }

    #[test]
    fn disk_needs_a_tracked_state_or_the_privilege_to_track() {
        let tree = tree();
        let found = of(&tree, (8, 0), &State { tracked: Vec::new(), can_track: true });
        assert!(found.predicted_reads && found.requests_seen && !found.tracked);
        assert_eq!((found.why, found.scheduler), (None, Some("none".to_owned())));
        let found = of(&tree, (8, 0), &State { tracked: vec![8 << 20], can_track: false });
        assert!(found.predicted_reads && found.tracked);
        let found = of(&tree, (8, 0), &State { tracked: vec![9 << 20], can_track: false });
        assert!(!found.predicted_reads && found.why.unwrap().starts_with("sda not tracked"));
    }

    #[test]
    fn mirror_and_memory_have_no_single_drive() {
        let tree = tree();
        let state = State { tracked: vec![8 << 20, 8 << 20 | 16], can_track: true };
        let mirror = of(&tree, (9, 0), &state);
        assert!(!mirror.predicted_reads && !mirror.requests_seen && mirror.tracked);
        assert!(mirror.why.unwrap().contains("several drives"));
        assert_eq!((mirror.scheduler, mirror.disks), (None, vec!["sda".into(), "sdb".into()]));
        let memory = of(&tree, (252, 0), &state);
        assert!(!memory.predicted_reads && !memory.tracked && memory.disks.is_empty());
    }

    #[test]
    fn scheduler_is_the_one_in_brackets() {
        assert_eq!(current("[none] mq-deadline\n").as_deref(), Some("none"));
        assert_eq!(current("none [bfq] kyber\n").as_deref(), Some("bfq"));
        assert_eq!(current("none\n"), None);
    }
}
