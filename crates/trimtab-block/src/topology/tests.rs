//! Topologies from trees of files in the layout of `/sys`.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use proptest::prelude::*;
use tempfile::TempDir;

use super::striped::Parity;
use super::sysfs::System;
use super::table::{Place, Row, Rule};
use super::*;

const MIB: u64 = 1 << 20;

/// A copy of `/sys/block`, `/sys/dev/block` and `/proc/diskstats`.
struct Tree(TempDir);

impl Tree {
    fn new() -> Self {
        let this = Self(tempfile::tempdir().unwrap());
        fs::create_dir_all(this.0.path().join("dev/block")).unwrap();
        this.write("diskstats", "");
        this
    }

    fn write(&self, file: &str, text: &str) {
        let path = self.0.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn link(&self, from: &str, to: &str) {
        let from = self.0.path().join(from);
        fs::create_dir_all(from.parent().unwrap()).unwrap();
        symlink(self.0.path().join(to), from).unwrap();
    }

    /// A device; `path` is its directory in `block`.
    fn device(&self, path: &str, number: &str, size: u64) {
        self.write(&format!("block/{path}/size"), &format!("{}\n", size / 512));
        self.write(&format!("block/{path}/dev"), &format!("{number}\n"));
        self.link(&format!("dev/block/{number}"), &format!("block/{path}"));
    }

    fn disk(&self, name: &str, number: &str, size: u64) {
        self.device(name, number, size);
        self.write(&format!("block/{name}/mq/0/cpu_list"), "0\n");
    }

    fn partition(&self, disk: &str, name: &str, number: &str, start: u64, size: u64) {
        self.device(&format!("{disk}/{name}"), number, size);
        self.write(&format!("block/{disk}/{name}/partition"), "1\n");
        self.write(&format!("block/{disk}/{name}/start"), &format!("{}\n", start / 512));
    }

    /// A device-mapper device on these devices, given by directory.
    fn mapped(&self, name: &str, number: &str, size: u64, uuid: &str, slaves: &[&str]) {
        self.device(name, number, size);
        self.write(&format!("block/{name}/dm/name"), &format!("of-{name}\n"));
        self.write(&format!("block/{name}/dm/uuid"), &format!("{uuid}\n"));
        self.slaves(name, slaves);
    }

    fn slaves(&self, name: &str, slaves: &[&str]) {
        for slave in slaves {
            let last = slave.rsplit('/').next().unwrap();
            self.link(&format!("block/{name}/slaves/{last}"), &format!("block/{slave}"));
        }
    }

    /// An array of members of this size each, behind 1 MiB.
    fn md(&self, level: &str, layout: u32, size: u64, members: &[(&str, &str, u64)]) {
        self.device("md0", "9:0", size);
        let md = |file: &str, text: &str| self.write(&format!("block/md0/md/{file}"), text);
        md("level", &format!("{level}\n"));
        md("layout", &format!("{layout}\n"));
        md("chunk_size", "65536\n");
        md("raid_disks", &format!("{}\n", members.len()));
        md("reshape_position", "none\n");
        for (slot, (name, state, size)) in members.iter().enumerate() {
            md(&format!("dev-{name}/slot"), &format!("{slot}\n"));
            md(&format!("dev-{name}/state"), &format!("{state}\n"));
            md(&format!("dev-{name}/offset"), "2048\n");
            md(&format!("dev-{name}/size"), &format!("{}\n", size / 1024));
            self.link(&format!("block/md0/md/dev-{name}/block"), &format!("block/{name}"));
        }
        self.slaves("md0", &members.iter().map(|(name, ..)| *name).collect::<Vec<_>>());
    }

    fn topology(&self, number: (u32, u32), table: Table) -> Topology {
        let sys: &Path = self.0.path();
        let system = System { sys: sys.into(), diskstats: sys.join("diskstats"), table };
        build::topology(&system, number).expect("the device is there")
    }

    fn two_disks() -> Self {
        let tree = Self::new();
        tree.disk("sda", "8:0", 1024 * MIB);
        tree.disk("sdb", "8:16", 1024 * MIB);
        tree
    }
}

type Table = fn((u32, u32)) -> Option<Vec<Row>>;
const UNSEEN: Table = |_| None;

fn row(start: u64, length: u64, rule: Rule) -> Row {
    Row { start, length, rule }
}

fn linear(start: u64, length: u64, device: (u32, u32), at: u64) -> Row {
    row(start, length, Rule::Linear(Place { device, at }))
}

/// The name of the disk, and the offset on it.
fn at(topology: &Topology, offset: u64, length: u64) -> Option<(&str, u64)> {
    match topology.resolve(offset, length) {
        Resolved::At { disk, offset } => Some((&topology.disks()[disk].device.name, offset)),
        _ => None,
    }
}

#[test]
fn partition_is_followed_to_its_disk() {
    let tree = Tree::two_disks();
    tree.partition("sda", "sda2", "8:2", 100 * MIB, 200 * MIB);
    let topology = tree.topology((8, 2), UNSEEN);
    assert_eq!(at(&topology, 4096, 4096), Some(("sda", 100 * MIB + 4096)));
    assert!(topology.is_fixed());
    assert_eq!(topology.describe(), "partition of sda");
    assert_eq!(topology.limits(), None);
    let disk = tree.topology((8, 0), UNSEEN);
    assert_eq!(at(&disk, 7, 1), Some(("sda", 7)));
}

/// A volume of two extents on two disks, and dm-crypt on it.
fn lvm_below_crypt() -> (Tree, Table) {
    let tree = Tree::two_disks();
    tree.partition("sda", "sda1", "8:1", MIB, 900 * MIB);
    tree.mapped("dm-0", "253:0", 300 * MIB, "LVM-abc", &["sda/sda1", "sdb"]);
    tree.mapped("dm-1", "253:1", 284 * MIB, "CRYPT-LUKS2-def-x", &["dm-0"]);
    let table: Table = |number| match number {
        (253, 0) => Some(vec![
            linear(0, 100 * MIB, (8, 1), 4 * MIB),
            linear(100 * MIB, 200 * MIB, (8, 16), MIB),
        ]),
        (253, 1) => Some(vec![linear(0, 284 * MIB, (253, 0), 16 * MIB)]),
        _ => None,
    };
    (tree, table)
}

#[test]
fn volume_is_followed_by_segment() {
    let (tree, table) = lvm_below_crypt();
    let volume = tree.topology((253, 0), table);
    assert_eq!(at(&volume, 0, 4096), Some(("sda", 5 * MIB)));
    assert_eq!(at(&volume, 100 * MIB - 1, 1), Some(("sda", 105 * MIB - 1)));
    assert_eq!(at(&volume, 100 * MIB, 4096), Some(("sdb", MIB)));
    assert_eq!(volume.resolve(100 * MIB - 1, 2), Resolved::SeveralDrives);
    let crypt = tree.topology((253, 1), table);
    assert_eq!(at(&crypt, 0, 4096), Some(("sda", 21 * MIB)));
    assert_eq!(at(&crypt, 84 * MIB, 4096), Some(("sdb", MIB)));
    assert_eq!(
        crypt.describe(),
        "dm-crypt of-dm-1 of dm-0, LVM volume of-dm-0 of sda1 sdb on sda sdb"
    );
    assert!(!crypt.is_fixed() && crypt.has_single_drive_ranges());
}

#[test]
fn range_is_cut_at_the_end_of_the_device() {
    let (tree, table) = lvm_below_crypt();
    let volume = tree.topology((253, 0), table);
    let last = Some(("sdb", 201 * MIB - 512));
    assert_eq!(at(&volume, 300 * MIB - 512, u64::MAX), last);
    assert_eq!(at(&volume, u64::MAX, 9), Some(("sdb", 201 * MIB - 1)));
}

#[test]
fn single_drive_is_known_without_the_table() {
    let (tree, _) = lvm_below_crypt();
    let volume = tree.topology((253, 0), UNSEEN);
    assert_eq!(volume.resolve(0, 1), Resolved::Unknown, "there are two");
    let tree = Tree::two_disks();
    tree.mapped("dm-0", "253:0", 300 * MIB, "LVM-abc", &["sdb"]);
    tree.mapped("dm-1", "253:1", 284 * MIB, "CRYPT-LUKS2-def-x", &["dm-0"]);
    let crypt = tree.topology((253, 1), UNSEEN);
    assert_eq!(crypt.resolve(5, 5), Resolved::Within { disk: 0 });
    assert_eq!(crypt.disks()[0].device.name, "sdb");
    assert!(crypt.limits().unwrap().contains("CAP_SYS_ADMIN"));
}

#[test]
fn table_with_gaps_or_unknown_targets_is_unknown_there() {
    let tree = Tree::two_disks();
    tree.mapped("dm-0", "253:0", 30 * MIB, "", &["sda", "sdb"]);
    let table: Table = |_| {
        Some(vec![
            linear(20 * MIB, 10 * MIB, (8, 16), 0),
            row(5 * MIB, 5 * MIB, Rule::Unknown),
            linear(0, 5 * MIB, (8, 0), u64::MAX - 4),
        ])
    };
    let topology = tree.topology((253, 0), table);
    for offset in [4, 5 * MIB, 10 * MIB, 20 * MIB - 1] {
        assert_eq!(topology.resolve(offset, 2), Resolved::Unknown, "{offset}");
    }
    assert_eq!(at(&topology, 20 * MIB, 2), Some(("sdb", 0)));
}

#[test]
fn md_is_followed_by_chunk() {
    let tree = Tree::two_disks();
    tree.disk("sdc", "8:32", 1024 * MIB);
    let member = |name| (name, "in_sync", 512 * MIB);
    tree.md("raid5", 2, 1024 * MIB, &[member("sda"), member("sdb"), member("sdc")]);
    let topology = tree.topology((9, 0), UNSEEN);
    let chunk = 65536;
    // Parity on sdc, then on sdb.
    assert_eq!(at(&topology, chunk, 4096), Some(("sdb", MIB)));
    assert_eq!(at(&topology, 2 * chunk + 512, 512), Some(("sdc", MIB + chunk + 512)));
    assert_eq!(at(&topology, 3 * chunk, 512), Some(("sda", MIB + chunk)));
    assert_eq!(topology.resolve(chunk - 512, 1024), Resolved::SeveralDrives);
    assert_eq!(topology.describe(), "md raid5 of sda sdb sdc");
}

#[test]
fn chunk_of_a_lost_member_is_on_several_drives() {
    let tree = Tree::two_disks();
    tree.disk("sdc", "8:32", 1024 * MIB);
    let members =
        [("sda", "in_sync", 512 * MIB), ("sdb", "spare", 512 * MIB), ("sdc", "in_sync", 512 * MIB)];
    tree.md("raid5", 2, 1024 * MIB, &members);
    let topology = tree.topology((9, 0), UNSEEN);
    assert_eq!(at(&topology, 0, 512), Some(("sda", MIB)));
    assert_eq!(topology.resolve(65536, 512), Resolved::SeveralDrives);
}

#[test]
fn mirror_is_on_several_drives_unless_they_are_one() {
    let tree = Tree::two_disks();
    tree.md("raid1", 0, 512 * MIB, &[("sda", "in_sync", 512 * MIB), ("sdb", "in_sync", 512 * MIB)]);
    let topology = tree.topology((9, 0), UNSEEN);
    assert_eq!(topology.resolve(0, 512), Resolved::SeveralDrives);
    assert_eq!(topology.limits(), Some("any of several drives may answer a read"));
    tree.write("block/md0/md/dev-sdb/state", "faulty\n");
    assert_eq!(at(&tree.topology((9, 0), UNSEEN), 0, 512), Some(("sda", MIB)));
    tree.write("block/md0/md/reshape_position", "4096\n");
    assert_eq!(tree.topology((9, 0), UNSEEN).resolve(0, 512), Resolved::Unknown);
}

/// Paths are hidden: their number is only in the kernel's statistics.
fn multipath(states: &[&str]) -> Tree {
    let tree = Tree::new();
    tree.device("nvme0n1", "259:1", 64 * MIB);
    let mut statistics = " 259 1 nvme0n1 0 0 0 0 0 0 0 0 0 0 0\n".to_owned();
    for (i, state) in states.iter().enumerate() {
        let path = format!("block/nvme0c{i}n1");
        tree.write(&format!("{path}/size"), &format!("{}\n", 64 * MIB / 512));
        tree.write(&format!("{path}/mq/0/cpu_list"), "0\n");
        tree.write(&format!("{path}/ana_state"), &format!("{state}\n"));
        tree.write(&format!("{path}/device/state"), "live\n");
        statistics += &format!(" 259 {} nvme0c{i}n1 0 0 0 0 0 0 0 0 0 0 0\n", i + 2);
    }
    tree.write("diskstats", &statistics);
    tree
}

#[test]
fn multipath_is_followed_to_the_path_that_requests_go_by() {
    let topology = multipath(&["optimized"]).topology((259, 1), UNSEEN);
    assert_eq!(at(&topology, 4096, 512), Some(("nvme0c0n1", 4096)));
    assert_eq!(topology.disks()[0].device.number, (259, 2));
    assert_eq!(topology.describe(), "NVMe multipath of nvme0c0n1");
    let topology = multipath(&["non-optimized", "optimized"]).topology((259, 1), UNSEEN);
    assert_eq!(at(&topology, 4096, 512), Some(("nvme0c1n1", 4096)));
    let topology = multipath(&["optimized", "optimized"]).topology((259, 1), UNSEEN);
    assert_eq!(topology.resolve(0, 1), Resolved::SeveralDrives);
    let tree = multipath(&["optimized", "inaccessible"]);
    assert_eq!(at(&tree.topology((259, 1), UNSEEN), 0, 1), Some(("nvme0c0n1", 0)));
    tree.write("block/nvme0c0n1/device/state", "connecting\n");
    assert_eq!(tree.topology((259, 1), UNSEEN).resolve(0, 1), Resolved::Unknown);
}

#[test]
fn loop_device_is_a_disk() {
    let tree = Tree::new();
    tree.disk("loop0", "7:0", MIB);
    tree.write("block/loop0/loop/backing_file", "/images/a\n");
    let topology = tree.topology((7, 0), UNSEEN);
    assert_eq!(at(&topology, 5, 5), Some(("loop0", 5)));
    assert_eq!(topology.describe(), "loop device on /images/a");
}

#[test]
fn device_without_a_queue_is_unknown() {
    let tree = Tree::new();
    tree.device("zram0", "252:0", MIB);
    let topology = tree.topology((252, 0), UNSEEN);
    assert_eq!(topology.resolve(0, 512), Resolved::Unknown);
    assert!(!topology.has_single_drive_ranges() && topology.disks().is_empty());
    assert_eq!(topology.limits(), Some("the block layer does not see its requests"));
}

/// Files that are read one after the other may show a device below itself.
#[test]
fn loop_of_devices_ends() {
    let tree = Tree::two_disks();
    tree.mapped("dm-0", "253:0", 30 * MIB, "LVM-a", &["dm-1"]);
    tree.mapped("dm-1", "253:1", 30 * MIB, "LVM-b", &["dm-0"]);
    let table: Table = |(_, minor)| Some(vec![linear(0, 30 * MIB, (253, 1 - minor), 0)]);
    for table in [UNSEEN, table] {
        assert_eq!(tree.topology((253, 0), table).resolve(0, 512), Resolved::Unknown);
    }
}

/// A device of segments on two disks, of any lengths.
fn segments() -> impl Strategy<Value = Topology> {
    let target = prop_oneof![
        (1_usize..3, 0_u64..1 << 40).prop_map(|(node, at)| Target::Linear(Member { node, at })),
        (1_u64..1 << 20).prop_map(|chunk| {
            let member = |node| Some(Member { node, at: 512 });
            let members = vec![member(1), member(2)];
            Target::Striped(Striped { chunk, first: 0, parity: Parity::None, members })
        }),
        Just(Target::Unknown),
        Just(Target::Copies),
    ];
    prop::collection::vec((1_u64..1 << 40, target), 1..8).prop_map(|parts| {
        let mut size = 0;
        let mut segments = Vec::new();
        for (length, target) in parts {
            segments.push(Segment { start: size, end: size + length, target });
            size += length;
        }
        let disk = |name: &str, minor, index| Node {
            name: name.to_owned(),
            number: (8, minor),
            size: 1 << 50,
            kind: DeviceKind::Disk,
            below: Vec::new(),
            mapping: Mapping::Disk(index),
        };
        let root = Node {
            name: "dm-0".to_owned(),
            number: (253, 0),
            size,
            kind: DeviceKind::Opaque,
            below: vec![1, 2],
            mapping: Mapping::Segments(segments),
        };
        Topology { nodes: vec![root, disk("sda", 0, 0), disk("sdb", 16, 1)], disks: Vec::new() }
    })
}

proptest! {
    /// A range is on a disk exactly if each of its bytes is, and its offset is that of its
    /// first byte.
    #[test]
    fn range_resolves_like_its_bytes(
        topology in segments(), offset: prop::sample::Index, length in 1_u64..1 << 21,
        inside in prop::collection::vec(any::<prop::sample::Index>(), 8),
    ) {
        let offset = offset.index(topology.root().size as usize) as u64;
        let whole = topology.resolve(offset, length);
        let first = topology.resolve(offset, 1);
        if let Resolved::At { disk, .. } = whole {
            prop_assert_eq!(whole, first);
            for index in inside {
                let at = offset + index.index(length as usize) as u64;
                let is_same = matches!(topology.resolve(at, 1), Resolved::At { disk: d, .. } if d == disk);
                prop_assert!(is_same || at >= topology.root().size);
            }
        } else {
            prop_assert!(length > 1 || whole == first);
        }
    }

    #[test]
    fn any_range_has_an_answer(topology in segments(), offset: u64, length: u64) {
        _ = topology.resolve(offset, length);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// For any content of an array's files.
    #[test]
    fn any_md_files_are_taken(
        level in "raid[0-9]{1,2}|linear|.{0,6}", layout in "[0-9]{0,12}", chunk in "[0-9]{0,20}",
        count in "[0-9]{0,6}", size in "[0-9]{0,20}", offset: u64,
    ) {
        let tree = Tree::two_disks();
        tree.md("raid0", 1, MIB, &[("sda", "in_sync", MIB), ("sdb", "in_sync", MIB)]);
        for (file, text) in [
            ("level", level), ("layout", layout), ("chunk_size", chunk), ("raid_disks", count),
            ("dev-sda/size", size.clone()), ("dev-sdb/offset", size),
        ] {
            tree.write(&format!("block/md0/md/{file}"), &text);
        }
        _ = tree.topology((9, 0), UNSEEN).resolve(offset, 4096);
    }
}
