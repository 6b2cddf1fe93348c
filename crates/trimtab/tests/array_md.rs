//! Arrays between trimtab and the kernel's md: what one writes the other reads, and parity fits. Runs
//! where the kernel has md (`scripts/guest array_md`).

mod array_bench;
mod emulated;

use std::fs;
use std::process::Command;

use array_bench::{Arrays, crash, open_direct, write, write_pages};
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

impl Md {
    fn detail(&self) -> String {
        let output = Command::new("mdadm").args(["--detail", DEVICE]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
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

/// Arrays that mdadm has made, complete and degraded.
#[test]
fn arrays_that_mdadm_made_are_taken() {
    let Some(arrays) = Arrays::new(&["mdadm"]) else { return };
    if !has_md() {
        return;
    }
    for (level, count, lost) in [("1", 2, 0), ("1", 2, 1), ("5", 4, 0), ("5", 4, 1), ("6", 5, 2)] {
        let disks: Vec<_> = (0..count).map(|_| LoopDisk::new(MIB)).collect();
        let members: Vec<String> = disks.iter().map(|disk| disk.path.clone()).collect();
        let names: Vec<&str> = members.iter().map(String::as_str).collect();
        let [level_option, devices] =
            [format!("--level={level}"), format!("--raid-devices={count}")];
        let options = ["--metadata=1.2", "--bitmap=internal", &level_option, &devices];
        let create = [&["--create", "--quiet", "--run", DEVICE], &options[..]].concat();
        testdisk::run("mdadm", &[&create[..], &names].concat());
        let md = Md;
        let sectors = fs::read_to_string("/sys/block/md51/size").unwrap();
        let capacity = sectors.trim().parse::<u64>().unwrap() * 512;
        write(&open_direct(DEVICE), capacity, 1_000);
        assert_eq!(md.mismatches(), 0, "level {level}");
        for member in &names[..lost] {
            testdisk::run("mdadm", &["--quiet", "--manage", DEVICE, "--fail", member]);
        }
        write(&open_direct(DEVICE), capacity, 2_000);
        let written = arrays.checksum(DEVICE);
        drop(md);

        let device = arrays.done(&["assemble", "taken"], &members[lost..]);
        let which = format!("level {level}, {lost} of {count} lost");
        let stat = arrays.stat("taken");
        assert_eq!(stat["capacity"].as_u64(), Some(capacity), "{which}");
        assert!(lost > 0 || stat["to_resync"] == 0 && stat["state"] == "clean", "{which}: {stat}");
        assert_eq!(arrays.checksum(&device), written, "{which}: trimtab reads other data");
        for member in &members[..lost] {
            arrays.done(&["add", "taken", member, "--force"], &[]);
            let states = |states: Vec<String>| states.iter().all(|state| state != "rebuilding");
            wait_until("rebuild", || states(arrays.states("taken")));
        }
        arrays.check("taken");
        assert_eq!(arrays.checksum(&device), written, "{which}: after the rebuild");
        arrays.done(&["stop", "taken"], &[]);
        let md = Md::assemble(&members);
        assert_eq!(arrays.checksum(DEVICE), written, "{which}: md reads other data");
        assert_eq!(md.mismatches(), 0, "{which}: after the rebuild");
    }
}

/// A replacement that the one began is ended by the other.
#[test]
fn replacements_are_ended_by_the_other() {
    let Some(arrays) = Arrays::new(&["mdadm"]) else { return };
    if !has_md() {
        return;
    }
    for level in ["1", "5"] {
        let disks: Vec<_> = (0..4).map(|_| LoopDisk::new(MIB)).collect();
        let all: Vec<String> = disks.iter().map(|disk| disk.path.clone()).collect();
        let (members, new) = (&all[..3], &all[3]);
        let create = ["create", "ours", "--level", level, "--assume-clean", "--rate", "4M"];
        let device = arrays.done(&create, members);
        let disk = open_direct(&device);
        let capacity = arrays.stat("ours")["capacity"].as_u64().unwrap();
        write(&disk, capacity, 1_000);
        drop(disk);
        let written = arrays.checksum(&device);
        arrays.done(&["replace", "ours", "1", new], &[]);
        let done = || arrays.stat("ours")["members"][1]["replacement"]["done"].as_u64();
        wait_until("a part of it", || done() > Some(1 << 20));
        arrays.done(&["stop", "ours"], &[]);

        let md = Md::assemble(&all);
        // Until md has ended the replacement, too.
        assert_eq!(md.mismatches(), 0, "level {level}");
        assert_eq!(arrays.checksum(DEVICE), written, "level {level}: md reads other data");
        let detail = md.detail();
        assert!(detail.contains("faulty") && !detail.contains("replacement"), "{detail}");
        write(&open_direct(DEVICE), capacity, 2_000);
        let written = arrays.checksum(DEVICE);
        drop(md);

        // Now md begins.
        let now = [&all[..1], &all[2..]].concat();
        let device = arrays.done(&["assemble", "ours"], &now);
        assert_eq!(arrays.stat("ours")["state"], "clean", "level {level}");
        assert_eq!(arrays.checksum(&device), written, "level {level}: trimtab reads other data");
        arrays.done(&["stop", "ours"], &[]);
        let md = Md::assemble(&now);
        fs::write(format!("{SYSFS}/sync_speed_max"), "1000").unwrap();
        testdisk::run("mdadm", &["--quiet", "--manage", DEVICE, "--add", &all[1]]);
        let with = ["--replace", &all[0], "--with", &all[1]];
        testdisk::run("mdadm", &[&["--quiet", "--manage", DEVICE][..], &with].concat());
        let completed = || fs::read_to_string(format!("{SYSFS}/sync_completed")).unwrap();
        wait_until("a part of md's", || {
            let completed = completed();
            let done = completed.split(' ').next().and_then(|done| done.parse::<u64>().ok());
            done > Some(4096)
        });
        drop(md);
        let device = arrays.done(&["assemble", "ours"], &all);
        wait_until("the replacement", || {
            arrays.stat("ours")["members"][0]["path"] == all[1].as_str()
        });
        assert_eq!(arrays.checksum(&device), written, "level {level}: after the replacement");
        arrays.check("ours");
        arrays.done(&["fail", "ours", "1"], &[]);
        assert_eq!(arrays.checksum(&device), written, "level {level}: from the new one");
        arrays.done(&["stop", "ours"], &[]);
    }
}

/// Both write partial parity logs from which the other one recovers.
#[test]
fn partial_parity_logs_are_recovered_by_the_other() {
    let Some(arrays) = Arrays::new(&["mdadm"]) else { return };
    if !has_md() {
        return;
    }
    let disks: Vec<_> = (0..3).map(|_| LoopDisk::new(MIB)).collect();
    let members: Vec<String> = disks.iter().map(|disk| disk.path.clone()).collect();
    let create = ["create", "ours", "--level", "5", "--consistency", "ppl", "--assume-clean"];
    let device = arrays.done(&create, &members);
    let capacity = arrays.stat("ours")["capacity"].as_u64().unwrap();
    let disk = open_direct(&device);
    write_pages(&disk, capacity, 1_000);
    drop(disk);
    let written = arrays.checksum(&device);
    arrays.done(&["stop", "ours"], &[]);
    assert!(crash(&members) > 0, "nothing is logged");
    let md = Md::assemble(&members);
    let policy = fs::read_to_string(format!("{SYSFS}/consistency_policy")).unwrap();
    assert_eq!(policy.trim(), "ppl");
    assert_eq!(md.mismatches(), 0, "md has not recovered from the log");
    assert_eq!(arrays.checksum(DEVICE), written, "md reads other data");
    write_pages(&open_direct(DEVICE), capacity, 2_000);
    let written = arrays.checksum(DEVICE);
    drop(md);
    let device = arrays.done(&["assemble", "ours"], &members);
    assert_eq!(arrays.checksum(&device), written, "trimtab reads other data");
    arrays.check("ours");
    arrays.done(&["stop", "ours"], &[]);

    // Of an array that mdadm has made.
    let options = ["--level=5", "--raid-devices=3", "--chunk=64", "--consistency-policy=ppl"];
    let create =
        [&["--create", "--quiet", "--run", "--assume-clean", DEVICE], &options[..]].concat();
    let names: Vec<&str> = members.iter().map(String::as_str).collect();
    testdisk::run("mdadm", &[&create[..], &names].concat());
    let md = Md;
    // What the members had before does not fit.
    fs::write(format!("{SYSFS}/sync_action"), "repair").unwrap();
    md.mismatches();
    write_pages(&open_direct(DEVICE), capacity, 3_000);
    let written = arrays.checksum(DEVICE);
    drop(md);
    assert!(crash(&members) > 0, "md has logged nothing");
    let device = arrays.done(&["assemble", "ours"], &members);
    let stat = arrays.stat("ours");
    assert_eq!((&stat["to_resync"], &stat["state"]), (&0.into(), &"clean".into()), "{stat}");
    arrays.check("ours");
    assert_eq!(arrays.checksum(&device), written, "trimtab reads other data");
    arrays.done(&["stop", "ours"], &[]);
}
