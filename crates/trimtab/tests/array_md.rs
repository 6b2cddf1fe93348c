//! Arrays between trimtab and the kernel's md: what one writes the other reads, and parity fits. Runs
//! where the kernel has md (`scripts/guest array_md`).

mod array_bench;
mod emulated;

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::process::Command;

use array_bench::{Arrays, open_direct};
use emulated::wait_until;
use trimtab_testdisk::{self as testdisk, Feature, LoopDisk, skip};

const MIB: u64 = 24;
const DEVICE: &str = "/dev/md51";
const SYSFS: &str = "/sys/block/md51/md";

/// Stops md's array when it is dropped.
struct Md;

impl Md {
    fn assemble(members: &[String]) -> Self {
        let members: Vec<&str> = members.iter().map(String::as_str).collect();
        let arguments = ["--assemble", "--run", "--quiet", DEVICE];
        testdisk::run("mdadm", &[&arguments[..], &members].concat());
        Self
    }

    /// The mismatches that md's own check finds.
    fn mismatches(&self) -> u64 {
        let is_idle = || {
            let action = fs::read_to_string(format!("{SYSFS}/sync_action")).unwrap();
            action.trim() == "idle"
        };
        wait_until("md's resync", is_idle);
        fs::write(format!("{SYSFS}/sync_action"), "check").unwrap();
        wait_until("md's check", is_idle);
        let count = fs::read_to_string(format!("{SYSFS}/mismatch_cnt")).unwrap();
        count.trim().parse().unwrap()
    }
}

impl Drop for Md {
    fn drop(&mut self) {
        for _ in 0..20 {
            let stopped = Command::new("mdadm").args(["--quiet", "--stop", DEVICE]).status();
            if stopped.is_ok_and(|status| status.success()) {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(250));
        }
    }
}

fn has_md() -> bool {
    for module in ["raid1", "raid456"] {
        _ = Command::new("modprobe").args(["-q", module]).status();
    }
    let known = fs::read_to_string("/proc/mdstat").unwrap_or_default();
    let is_there = ["[raid1]", "[raid6]"].iter().all(|level| known.contains(level));
    if !is_there {
        skip(Feature::Kernel, "needs md with raid1 and raid456");
    }
    is_there
}

/// Writes numbers from this one on, over the whole device but for its ends.
fn write(device: &File, capacity: u64, from: u64) {
    const BYTES: usize = 48 << 10;
    let mut buffer = testdisk::aligned(BYTES);
    for (index, at) in (8192..capacity - (1 << 17)).step_by(100 << 10).enumerate() {
        let window = testdisk::window(&mut buffer, BYTES);
        let value = from + index as u64;
        window.chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&value.to_le_bytes()));
        device.write_all_at(window, at / 512 * 512).unwrap();
    }
    device.sync_all().unwrap();
}

#[test]
fn md_and_trimtab_take_each_others_arrays() {
    let Some(arrays) = Arrays::new(&["mdadm"]) else { return };
    if !has_md() {
        return;
    }
    for (level, count, lost) in [("1", 2, 1), ("5", 4, 1), ("6", 5, 2), ("5", 3, 0)] {
        let disks: Vec<_> = (0..count).map(|_| LoopDisk::new(MIB)).collect();
        let members: Vec<String> = disks.iter().map(|disk| disk.path.clone()).collect();
        let device = arrays.done(&["create", "ours", "--level", level], &members);
        let disk = open_direct(&device);
        let capacity = arrays.stat("ours")["capacity"].as_u64().unwrap();
        write(&disk, capacity, 1_000);
        arrays.wait_for_resync("ours");
        for member in &members[..lost] {
            arrays.done(&["fail", "ours", member], &[]);
        }
        write(&disk, capacity, 2_000);
        drop(disk);
        let written = arrays.checksum(&device);
        arrays.done(&["stop", "ours"], &[]);

        let md = Md::assemble(&members[lost..]);
        assert_eq!(arrays.checksum(DEVICE), written, "level {level}: md reads other data");
        if lost == 0 {
            assert_eq!(md.mismatches(), 0, "level {level}");
        }
        write(&open_direct(DEVICE), capacity, 3_000);
        let written = arrays.checksum(DEVICE);
        drop(md);

        let device = arrays.done(&["assemble", "ours"], &members[lost..]);
        assert_eq!(arrays.checksum(&device), written, "level {level}: trimtab reads other data");
        for member in &members[..lost] {
            arrays.done(&["add", "ours", member, "--force"], &[]);
            let states = |states: Vec<String>| states.iter().all(|state| state != "rebuilding");
            wait_until("rebuild", || states(arrays.states("ours")));
        }
        arrays.check("ours");
        arrays.done(&["stop", "ours"], &[]);

        // The members that were rebuilt here are complete for md too.
        let md = Md::assemble(&members);
        assert_eq!(arrays.checksum(DEVICE), written, "level {level}: after the rebuild");
        let degraded = fs::read_to_string(format!("{SYSFS}/degraded")).unwrap();
        assert_eq!(degraded.trim(), "0", "level {level}");
        assert_eq!(md.mismatches(), 0, "level {level}: after the rebuild");
        drop(md);
    }
}
