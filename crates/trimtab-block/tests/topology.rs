//! Real stacks of devices: the resolved disk and offset hold the data that was written through
//! the device on top.

use std::os::unix::fs::FileExt as _;
use std::sync::Mutex;

use trimtab_block::topology::{Resolved, Topology};
use trimtab_testdisk::stack::{
    Array, MULTIPATH_MODULES, Mapped, Multipath, VolumeGroup, can_make, has_module, open_direct,
};
use trimtab_testdisk::{self as disk, LoopDisk};

/// One test at a time uses devices.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Skips a test, with a note, if the machine lacks something.
macro_rules! needs {
    ($programs:expr, $modules:expr) => {
        if !can_make(&$programs, &$modules) {
            return;
        }
        let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    };
}

const BLOCK: u64 = 4096;
const MIB: u64 = 1 << 20;

/// Fills a device: each block contains its number, in every eight bytes.
fn fill(path: &str, size: u64) {
    const AT_ONCE: u64 = MIB;
    let device = open_direct(path);
    let mut memory = disk::aligned(AT_ONCE as usize);
    for start in (0..size).step_by(AT_ONCE as usize) {
        let length = AT_ONCE.min(size - start) as usize;
        let buffer = disk::window(&mut memory, length);
        for (i, block) in buffer.chunks_mut(BLOCK as usize).enumerate() {
            let number = start / BLOCK + i as u64;
            block.chunks_mut(8).for_each(|word| word.copy_from_slice(&number.to_ne_bytes()));
        }
        device.write_all_at(buffer, start).unwrap();
    }
    device.sync_all().unwrap();
}

/// The number in a block of a disk; `None` if its words differ.
fn number_at(path: &str, offset: u64) -> Option<u64> {
    let mut memory = disk::aligned(BLOCK as usize);
    let buffer = disk::window(&mut memory, BLOCK as usize);
    open_direct(path).read_exact_at(buffer, offset).unwrap();
    let first = u64::from_ne_bytes(buffer[..8].try_into().unwrap());
    buffer.chunks(8).all(|word| word == first.to_ne_bytes()).then_some(first)
}

/// The results for a device.
#[derive(Debug, Default, PartialEq, Eq)]
struct Found {
    on_disks: Vec<(String, u64)>,
    several: u64,
    unknown: u64,
}

/// Fills a device, and checks each block that is resolved.
fn check(path: &str) -> Found {
    let topology = Topology::find(path).unwrap();
    let size = topology.root().size / BLOCK * BLOCK;
    fill(path, size);
    check_filled(path)
}

/// The same for a device that is already filled.
fn check_filled(path: &str) -> Found {
    let topology = Topology::find(path).unwrap();
    disk::note(&format!("{path}: {}", topology.describe()));
    let mut found = Found::default();
    for number in 0..topology.root().size / BLOCK {
        match topology.resolve(number * BLOCK, BLOCK) {
            Resolved::At { disk, offset } => {
                let name = &topology.disks()[disk].device.name;
                let held = number_at(&format!("/dev/{name}"), offset);
                assert_eq!(held, Some(number), "{path}: on {name} at {offset}");
                match found.on_disks.iter_mut().find(|(known, _)| known == name) {
                    Some((_, count)) => *count += 1,
                    None => found.on_disks.push((name.clone(), 1)),
                }
            }
            Resolved::Within { .. } => panic!("the table can be seen"),
            Resolved::SeveralDrives => found.several += 1,
            Resolved::Unknown => found.unknown += 1,
        }
    }
    found
}

fn disks<const N: usize>(mib: [u64; N]) -> [LoopDisk; N] {
    mib.map(LoopDisk::new)
}

/// All of it is on these disks, at least one block on each.
fn assert_on_each(found: &Found, disks: &[LoopDisk]) {
    assert_eq!((found.several, found.unknown), (0, 0), "{found:?}");
    for disk in disks {
        assert!(found.on_disks.iter().any(|(name, _)| name == disk.name()), "{found:?}");
    }
}

#[test]
fn lvm_volumes() {
    needs!(["dmsetup", "lvcreate"], ["dm-raid"]);
    let disks = disks([12, 12, 12]);
    let paths: Vec<_> = disks.iter().map(|disk| &*disk.path).collect();
    let group = VolumeGroup::new(&paths);
    let linear = group.volume("linear", &["--size=14m"]);
    assert_on_each(&check(&linear), &disks[..2]);
    drop(group);
    let group = VolumeGroup::new(&paths);
    let striped = group.volume("striped", &["--size=9m", "--stripes=3", "--stripesize=64k"]);
    assert_on_each(&check(&striped), &disks);
    let mirrored =
        group.volume("mirrored", &["--size=2m", "--type=raid1", "--mirrors=1", "--nosync"]);
    assert_eq!(check(&mirrored).several, 2 * MIB / BLOCK);
}

#[test]
fn lvm_parity() {
    needs!(["dmsetup", "lvcreate"], ["dm-raid"]);
    let disks = disks([12, 12, 12]);
    let paths: Vec<_> = disks.iter().map(|disk| &*disk.path).collect();
    let group = VolumeGroup::new(&paths);
    let parity = group.volume("parity", &["--size=8m", "--type=raid5", "--stripes=2", "--nosync"]);
    assert_on_each(&check(&parity), &disks);
}

#[test]
fn segments_of_a_table() {
    needs!(["dmsetup"], ["dm-mod"]);
    let disks = disks([8, 8]);
    let [a, b] = &disks;
    let rows = [
        (2048, format!("linear {} 4096", a.path)),
        (1024, format!("linear {} 0", b.path)),
        (4096, format!("striped 2 16 {} 8192 {} 8192", a.path, b.path)),
    ];
    let mapped = Mapped::of_rows(&rows);
    assert_on_each(&check(&mapped.path), &disks);
    let topology = Topology::find(&mapped.path).unwrap();
    let across = topology.resolve(MIB - BLOCK, 2 * BLOCK);
    assert_eq!(across, Resolved::SeveralDrives);
    // A new table with other disks.
    mapped.reload(&format!("0 7168 linear {} 8", b.path));
    let found = check(&mapped.path);
    assert_eq!(found.on_disks, [(b.name().to_owned(), 7168 / 8)]);
}

#[test]
fn table_is_not_needed_to_know_the_disk() {
    needs!(["dmsetup"], ["dm-mod"]);
    let lower = LoopDisk::new(8);
    let inner = Mapped::new(&format!("0 8192 linear {} 2048", lower.path));
    let outer = Mapped::new(&format!("0 4096 linear {} 16", inner.path));
    assert!(matches!(Topology::find(&outer.path).unwrap().resolve(0, 1), Resolved::At { .. }));
    let path = &outer.path;
    std::thread::scope(|scope| {
        // A separate thread, whose user can be changed alone.
        scope.spawn(|| {
            let nobody = rustix::thread::Uid::from_raw(65534);
            rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
            let topology = Topology::find(path).unwrap();
            assert_eq!(topology.resolve(BLOCK, BLOCK), Resolved::Within { disk: 0 });
            assert_eq!(topology.disks()[0].device.name, lower.name());
            assert!(topology.limits().unwrap().contains("CAP_SYS_ADMIN"));
        });
    });
}

/// Places are visible in the ciphertext: writing a block changes the ciphertext at its place
/// only.
#[test]
fn encrypted_volume_on_two_disks() {
    needs!(["dmsetup", "cryptsetup"], ["dm-crypt"]);
    let disks = disks([4, 4]);
    let [a, b] = &disks;
    let rows = [(4096, format!("linear {} 2048", a.path)), (4096, format!("linear {} 0", b.path))];
    let volume = Mapped::of_rows(&rows);
    let encrypted = Mapped::encrypted(&volume.path, 256);
    let topology = Topology::find(&encrypted.path).unwrap();
    disk::note(&topology.describe());
    let blocks = topology.root().size / BLOCK;
    fill(&encrypted.path, blocks * BLOCK);
    let content = || disks.each_ref().map(|disk| std::fs::read(&disk.file).unwrap());
    let upper = open_direct(&encrypted.path);
    let mut memory = disk::aligned(BLOCK as usize);
    for number in [0, 1, 77, blocks / 2, blocks / 2 + 1, blocks - 1] {
        let Resolved::At { disk, offset } = topology.resolve(number * BLOCK, BLOCK) else {
            panic!("block {number}")
        };
        let before = content();
        let buffer = disk::window(&mut memory, BLOCK as usize);
        buffer.fill(0x77);
        upper.write_all_at(buffer, number * BLOCK).unwrap();
        upper.sync_all().unwrap();
        let after = content();
        let name = &topology.disks()[disk].device.name;
        let changed = |i: usize| {
            let pairs = before[i].iter().zip(&after[i]).enumerate();
            let places = pairs.filter(|(_, (old, new))| old != new).map(|(at, _)| at as u64);
            places.map(|at| at / BLOCK).collect::<std::collections::BTreeSet<_>>()
        };
        for (i, disk) in disks.iter().enumerate() {
            let expected: Vec<_> =
                (disk.name() == name).then_some(offset / BLOCK).into_iter().collect();
            assert_eq!(changed(i).into_iter().collect::<Vec<_>>(), expected, "block {number}");
        }
    }
}

#[test]
fn striped_and_concatenated_arrays() {
    needs!(["mdadm"], ["raid0"]);
    let even = disks([8, 8]);
    let paths: Vec<_> = even.iter().map(|disk| &*disk.path).collect();
    let array = Array::new(&["--level=0", "--chunk=64"], &paths);
    assert_on_each(&check(&array.path), &even);
    drop(array);
    let uneven = disks([6, 10, 14]);
    let paths: Vec<_> = uneven.iter().map(|disk| &*disk.path).collect();
    for layout in ["--layout=original", "--layout=alternate"] {
        let array = Array::new(&["--level=0", "--chunk=64", layout], &paths);
        assert_on_each(&check(&array.path), &uneven);
    }
    if has_module("linear") {
        let array = Array::new(&["--level=linear"], &paths);
        assert_on_each(&check(&array.path), &uneven);
    }
}

#[test]
fn mirrors() {
    needs!(["mdadm"], ["raid1"]);
    let disks = disks([6, 6]);
    let paths: Vec<_> = disks.iter().map(|disk| &*disk.path).collect();
    let array = Array::new(&["--level=1", "--assume-clean", "--bitmap=none"], &paths);
    let found = check(&array.path);
    assert!(found.several > 0 && found.on_disks.is_empty() && found.unknown == 0, "{found:?}");
    array.fail(&disks[0].path);
    let found = check_filled(&array.path);
    assert_on_each(&found, &disks[1..]);
}

#[test]
fn parity_arrays_of_every_layout() {
    needs!(["mdadm"], ["raid456"]);
    const LAYOUTS: [&str; 6] = [
        "left-asymmetric",
        "right-asymmetric",
        "left-symmetric",
        "right-symmetric",
        "parity-first",
        "parity-last",
    ];
    let disks = disks([4, 4, 4, 4]);
    let paths: Vec<_> = disks.iter().map(|disk| &*disk.path).collect();
    let array = Array::new(&["--level=4", "--chunk=16", "--assume-clean"], &paths);
    assert_on_each(&check(&array.path), &disks[..3]);
    drop(array);
    for level in ["--level=5", "--level=6"] {
        for layout in LAYOUTS {
            let layout = format!("--layout={layout}");
            let array = Array::new(&[level, &layout, "--chunk=16", "--assume-clean"], &paths);
            let found = check(&array.path);
            assert_eq!((found.several, found.unknown), (0, 0), "{level} {layout}: {found:?}");
            if layout != "--layout=left-symmetric" {
                continue;
            }
            // Its data are computed from the others.
            array.fail(&disks[1].path);
            let left = check_filled(&array.path);
            assert!(left.several > 0 && left.unknown == 0, "{left:?}");
            assert!(left.on_disks.iter().all(|(name, _)| name != disks[1].name()), "{left:?}");
        }
    }
}

#[test]
fn partition_of_an_array_below_a_volume() {
    needs!(["mdadm", "dmsetup"], ["raid0"]);
    let disks = disks([8, 8]);
    let paths: Vec<_> = disks.iter().map(|disk| &*disk.path).collect();
    let array = Array::new(&["--level=0", "--chunk=64"], &paths);
    let volume = Mapped::new(&format!("0 8192 linear {} 2056", array.path));
    assert_on_each(&check(&volume.path), &disks);
}

/// Requests to the head are seen on the path, which has a number but no device file.
#[test]
fn nvme_paths() {
    needs!([], MULTIPATH_MODULES);
    let lower = LoopDisk::new(16);
    let mut namespace = Multipath::new(&lower.path);
    let topology = Topology::find(&namespace.path).unwrap();
    disk::note(&format!("{}: {}", namespace.path, topology.describe()));
    let Resolved::At { disk, offset } = topology.resolve(9 * BLOCK, BLOCK) else {
        panic!("{topology:?}")
    };
    let path = &topology.disks()[disk].device;
    assert_eq!(offset, 9 * BLOCK);
    assert!(path.name.contains('c') && path.number.0 > 0, "{path:?}");
    let same = trimtab_block::BlockDevice::find(&path.name).unwrap();
    assert_eq!(&same, path);
    fill(&namespace.path, MIB);
    let before = path.stat().unwrap();
    for number in 0..64 {
        assert_eq!(number_at(&namespace.path, number * BLOCK), Some(number));
    }
    // udev may read too.
    assert!(path.stat().unwrap().since(&before).reads.requests >= 64, "all go by the path");

    namespace.add_path();
    std::thread::sleep(std::time::Duration::from_secs(1));
    let both = Topology::find(&namespace.path).unwrap();
    disk::note(&both.describe());
    assert_eq!(both.resolve(0, BLOCK), Resolved::SeveralDrives);
    namespace.set_state(1, "non-optimized");
    std::thread::sleep(std::time::Duration::from_secs(1));
    let one = Topology::find(&namespace.path).unwrap();
    let Resolved::At { disk, .. } = one.resolve(0, BLOCK) else { panic!("{one:?}") };
    assert_eq!(one.disks()[disk].device.name, path.name);
}
