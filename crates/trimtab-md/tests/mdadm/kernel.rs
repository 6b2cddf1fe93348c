//! The kernel's md on arrays that this crate wrote, and the other way round.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use trimtab_array::{Level, Rotation};
use trimtab_md::{
    ArrayName, Assembly, Candidate, Member, MemberState, NewArray, NewConsistency, NewMember,
    PplLog, Resync, Start, Timestamp, Uuid, ppl_signature,
};
use trimtab_testdisk::{Feature, LoopDisk, requires, run, skip};

use crate::array::{pattern, spread};

const MIB: u64 = 24;
const DEVICE: &str = "/dev/md50";
const SYSFS: &str = "/sys/block/md50/md";

/// Whether md runs here: not if its modules are missing.
fn has_md() -> bool {
    if !requires(&[Feature::Root, Feature::Loop, Feature::Program("mdadm")]) {
        return false;
    }
    for module in ["raid0", "raid1", "raid456"] {
        _ = Command::new("modprobe").args(["-q", module]).status();
    }
    let known = fs::read_to_string("/proc/mdstat").unwrap_or_default();
    let is_there = ["[raid0]", "[raid1]", "[raid6]"].iter().all(|level| known.contains(level));
    if !is_there {
        skip(Feature::Kernel, "needs md with raid0, raid1 and raid456");
    }
    is_there
}

/// Stops the array when it is dropped.
struct Running;

impl Running {
    /// That the kernel runs it, and with which state of the members, as `[UU_]`.
    fn is(&self, level: Level, state: &str) {
        let known = fs::read_to_string("/proc/mdstat").unwrap();
        let of_array = known.split_once("md50 : active");
        let (_, text) = of_array.unwrap_or_else(|| panic!("md50 does not run: {known}"));
        // It may be read-only until it is written to.
        let text = text.trim_start().trim_start_matches("(auto-read-only)").trim_start();
        assert!(text.starts_with(level.name()), "{text}");
        assert!(level == Level::Raid0 || text.contains(state), "expected {state}: {text}");
    }

    /// Waits until the members are in sync, and returns the mismatches of a check.
    fn check(&self) -> u64 {
        // Without a write a resync would wait for ever.
        let state = format!("{SYSFS}/array_state");
        if fs::read_to_string(&state).unwrap().trim() == "read-auto" {
            fs::write(&state, "active").unwrap();
        }
        self.wait();
        fs::write(format!("{SYSFS}/sync_action"), "check").unwrap();
        self.wait();
        let count = fs::read_to_string(format!("{SYSFS}/mismatch_cnt")).unwrap();
        count.trim().parse().unwrap()
    }

    /// Waits until all members are in sync, and nothing runs.
    fn wait(&self) {
        let start = Instant::now();
        let is = |file: &str, value: &str| {
            fs::read_to_string(format!("{SYSFS}/{file}")).unwrap().trim() == value
        };
        // A resync that is due may not have begun yet.
        while !(is("resync_start", "none") && is("degraded", "0") && is("sync_action", "idle")) {
            assert!(start.elapsed() < Duration::from_secs(300), "the resync does not end");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        for _ in 0..20 {
            let stopped = Command::new("mdadm").args(["--quiet", "--stop", DEVICE]).status();
            if stopped.is_ok_and(|status| status.success()) {
                return;
            }
            std::thread::sleep(Duration::from_millis(250));
        }
    }
}

fn mdadm(args: &[&str], disks: &[&LoopDisk]) -> Running {
    let disks = disks.iter().map(|disk| disk.path.as_str());
    run("mdadm", &args.iter().copied().chain(disks).collect::<Vec<_>>());
    Running
}

fn candidates(disks: &[&LoopDisk]) -> Vec<Candidate> {
    let candidate = |disk: &&LoopDisk| {
        let member = Member::open(Path::new(&disk.path), false).unwrap();
        member.candidate().unwrap()
    };
    disks.iter().map(candidate).collect()
}

/// Bytes of a device, past its cache.
fn read(path: &str, at: u64, bytes: u64) -> Vec<u8> {
    let file = File::open(path).unwrap();
    run("blockdev", &["--flushbufs", path]);
    let mut content = vec![0; bytes as usize];
    file.read_exact_at(&mut content, at).unwrap();
    content
}

fn write(path: &str, at: u64, content: &[u8]) {
    let file = OpenOptions::new().write(true).open(path).unwrap();
    file.write_all_at(content, at).unwrap();
    file.sync_all().unwrap();
}

fn new_array(level: Level, count: usize, consistency: NewConsistency) -> NewArray {
    let member = |id| NewMember { bytes: MIB << 20, uuid: Uuid([id; 16]), flags: 0 };
    NewArray {
        uuid: Uuid(*b"written by tests"),
        name: ArrayName::new("host:ours").unwrap(),
        level,
        rotation: Rotation::LeftSymmetric,
        chunk: 64 << 10,
        members: (1..=count).map(|id| Some(member(id as u8))).collect(),
        spares: vec![],
        consistency,
        is_in_sync: true,
        now: Timestamp { seconds: 1_790_000_000, microseconds: 0 },
    }
}

/// An array that we write, with data; the kernel runs it without the members in `lost`.
fn taken(array: &NewArray, lost: &[usize]) {
    let metadata = array.create().unwrap();
    let disks: Vec<_> = metadata.iter().map(|_| LoopDisk::new(MIB)).collect();
    let superblock = &metadata[0].superblock;
    let layout = superblock.array_layout().unwrap();
    let mut data = pattern(7, layout.capacity());
    let contents = spread(&layout, &data);
    for ((disk, content), one) in disks.iter().zip(&contents).zip(&metadata) {
        write(&disk.path, superblock.data_offset, content);
        Member::open(Path::new(&disk.path), true).unwrap().write_new(one).unwrap();
    }
    let there = (0..disks.len()).filter(|index| !lost.contains(index));
    let given: Vec<_> = there.map(|index| &disks[index]).collect();
    let running = mdadm(&["--assemble", "--run", "--quiet", DEVICE], &given);
    let state = (0..disks.len()).map(|index| if lost.contains(&index) { '_' } else { 'U' });
    running.is(array.level, &format!("[{}]", state.collect::<String>()));
    let capacity = layout.capacity();
    assert!(read(DEVICE, 0, capacity) == data, "{}: md reads other data", array.level);
    // md writes, and the members have it where trimtab's layout says.
    for (index, at) in [0, 70_000, 1 << 20, capacity - 100_000].into_iter().enumerate() {
        let at = at / 512 * 512;
        let new = pattern(index as u64 + 100, 40_960);
        data[at as usize..][..new.len()].copy_from_slice(&new);
        write(DEVICE, at, &new);
    }
    if lost.is_empty() && array.level != Level::Raid0 {
        assert_eq!(running.check(), 0, "{}", array.level);
    }
    drop(running);
    let contents = spread(&layout, &data);
    for (index, disk) in disks.iter().enumerate().filter(|(index, _)| !lost.contains(index)) {
        let found = read(&disk.path, superblock.data_offset, layout.member_bytes());
        assert!(found == contents[index], "{}: member {index} differs", array.level);
    }
    let assembly = Assembly::of(&candidates(&given), None).unwrap();
    let missing = lost.to_vec();
    let start = if lost.is_empty() { Start::Complete } else { Start::Degraded { missing } };
    assert_eq!((assembly.start, assembly.resync), (start, Resync::None), "{}", array.level);
}

#[test]
fn kernel_takes_arrays_that_were_written() {
    if !has_md() {
        return;
    }
    let bitmap = NewConsistency::Bitmap(Some(256 << 10));
    taken(&new_array(Level::Raid0, 2, NewConsistency::Resync), &[]);
    taken(&new_array(Level::Raid1, 2, bitmap), &[]);
    taken(&new_array(Level::Raid4, 3, NewConsistency::Resync), &[]);
    taken(&new_array(Level::Raid5, 4, bitmap), &[]);
    taken(&new_array(Level::Raid5, 3, NewConsistency::Ppl), &[]);
    taken(&new_array(Level::Raid6, 4, bitmap), &[]);
    let rotation = Rotation::ParityLast;
    taken(&NewArray { rotation, ..new_array(Level::Raid5, 3, NewConsistency::Resync) }, &[]);
    taken(&NewArray { rotation, ..new_array(Level::Raid6, 5, NewConsistency::Resync) }, &[]);
}

#[test]
fn kernel_takes_degraded_arrays_that_were_written() {
    if !has_md() {
        return;
    }
    let bitmap = NewConsistency::Bitmap(None);
    taken(&new_array(Level::Raid1, 2, bitmap), &[0]);
    taken(&new_array(Level::Raid5, 4, bitmap), &[2]);
    taken(&new_array(Level::Raid6, 5, bitmap), &[1, 4]);
}

#[test]
fn kernel_resynchronises_what_a_bitmap_says() {
    if !has_md() {
        return;
    }
    let array = new_array(Level::Raid5, 3, NewConsistency::Bitmap(Some(64 << 10)));
    let mut metadata = array.create().unwrap();
    let disks: Vec<_> = metadata.iter().map(|_| LoopDisk::new(MIB)).collect();
    let data_offset = metadata[0].superblock.data_offset;
    // After a crash: the stripe at 2 MiB of the members may differ, and does.
    for (disk, one) in disks.iter().zip(&mut metadata) {
        one.superblock.in_sync_to = Some(0);
        one.bitmap.as_mut().unwrap().mark(2 << 20..(2 << 20) + 1);
        Member::open(Path::new(&disk.path), true).unwrap().write_new(one).unwrap();
    }
    write(&disks[0].path, data_offset + (2 << 20), &[1; 4096]);
    // What differs elsewhere is no business of the bitmap: it stays.
    write(&disks[0].path, data_offset + (8 << 20), &[1; 4096]);
    let given: Vec<_> = disks.iter().collect();
    assert_eq!(Assembly::of(&candidates(&given), None).unwrap().resync, Resync::Bitmap);
    let running = mdadm(&["--assemble", "--run", "--quiet", DEVICE], &given);
    running.is(Level::Raid5, "[UUU]");
    // Of the two differences, of 8 sectors each, the bitmap had one.
    assert_eq!(running.check(), 8);
}

/// The write hole: a write of a page whose data arrived and whose parity did not, and another
/// member of the stripe is lost. Its data come from the parity that the log repairs.
#[test]
fn kernel_recovers_from_a_log_that_was_written() {
    const STRIPE: u64 = 5;
    if !has_md() {
        return;
    }
    for has_log in [true, false] {
        let array = new_array(Level::Raid5, 3, NewConsistency::Ppl);
        let mut metadata = array.create().unwrap();
        let disks: Vec<_> = metadata.iter().map(|_| LoopDisk::new(MIB)).collect();
        let superblock = metadata[0].superblock.clone();
        let layout = superblock.array_layout().unwrap();
        let data = pattern(3, layout.capacity());
        for (disk, content) in disks.iter().zip(&spread(&layout, &data)) {
            write(&disk.path, superblock.data_offset, content);
        }
        for (disk, one) in disks.iter().zip(&mut metadata) {
            one.superblock.in_sync_to = Some(0);
            Member::open(Path::new(&disk.path), true).unwrap().write_new(one).unwrap();
        }
        let [written, alone] = [0, 1].map(|index| layout.data_member(STRIPE, index));
        let offset = STRIPE * layout.stripe_bytes();
        let untouched = &data[(offset + layout.chunk()) as usize..][..4096];
        let mut log = PplLog::new(ppl_signature(superblock.array_uuid), 1, 128 << 10);
        assert!(log.push(&layout, offset, 1, 4096, untouched));
        let parity = &disks[layout.p_member(STRIPE).unwrap()];
        if has_log {
            write(&parity.path, superblock.ppl_at().unwrap().0, &log.to_bytes());
        }
        let at = superblock.data_offset + STRIPE * layout.chunk();
        write(&disks[written].path, at, &pattern(4, 4096));
        let given = [&disks[written], parity];
        let assembly = Assembly::of(&candidates(&given), None).unwrap();
        let missing = vec![alone];
        assert_eq!((assembly.start, assembly.resync), (Start::Degraded { missing }, Resync::Ppl));
        let _running = mdadm(&["--assemble", "--run", "--quiet", DEVICE], &given);
        let found = read(DEVICE, offset + layout.chunk(), 4096);
        assert_eq!(found == untouched, has_log, "with a log: {has_log}");
    }
}

#[test]
fn arrays_of_mdadm_are_read() {
    if !has_md() {
        return;
    }
    for (level, count, options) in [
        ("0", 3, &["--chunk=64"][..]),
        ("1", 2, &["--bitmap=internal"]),
        ("4", 3, &["--chunk=64"]),
        ("5", 4, &["--chunk=64", "--bitmap=internal"]),
        ("5", 3, &["--chunk=128", "--layout=parity-last"]),
        ("5", 3, &["--chunk=64", "--consistency-policy=ppl"]),
        ("6", 4, &["--chunk=64", "--bitmap=internal"]),
    ] {
        let disks: Vec<_> = (0..count).map(|_| LoopDisk::new(MIB)).collect();
        let given: Vec<_> = disks.iter().collect();
        let (level_option, devices) =
            (format!("--level={level}"), format!("--raid-devices={count}"));
        let args =
            ["--create", DEVICE, "--run", "--quiet", "--metadata=1.2", &level_option, &devices];
        let running = mdadm(&[&args[..], options].concat(), &given);
        let bytes = fs::read_to_string("/sys/block/md50/size").unwrap();
        let data = pattern(11, bytes.trim().parse::<u64>().unwrap() * 512);
        write(DEVICE, 0, &data);
        if level != "0" {
            running.wait();
        }
        drop(running);
        let candidates = candidates(&given);
        let assembly = Assembly::of(&candidates, None).unwrap();
        assert_eq!((assembly.start, assembly.resync), (Start::Complete, Resync::None));
        let superblock = candidates[0].superblock.as_ref().unwrap();
        let layout = superblock.array_layout().unwrap();
        assert_eq!(layout.capacity(), data.len() as u64);
        for (role, content) in spread(&layout, &data).iter().enumerate() {
            let disk = assembly.members[role].unwrap();
            assert_eq!(assembly.states[disk], MemberState::Fresh { role });
            let offset = candidates[disk].superblock.as_ref().unwrap().data_offset;
            let found = read(&disks[disk].path, offset, content.len() as u64);
            assert!(found == *content, "raid{level} {options:?}: member {role} differs");
        }
    }
}
