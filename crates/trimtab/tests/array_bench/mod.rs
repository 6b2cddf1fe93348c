//! Arrays for tests. Each test file uses a part of this.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hasher as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::process::Output;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use trimtab_testdisk as testdisk;

use crate::emulated::{Bench, backend, over, stderr, wait_until};

const O_DIRECT: i32 = 0o40000;

/// A bench whose arrays are stopped when it is dropped.
pub(crate) struct Arrays {
    pub(crate) bench: Bench,
    /// In memory where possible: members of disks that are slower take minutes.
    members: tempfile::TempDir,
}

impl Arrays {
    /// `None`, with a note, if the machine lacks something.
    pub(crate) fn new(programs: &[&'static str]) -> Option<Self> {
        let bench = Bench::new(programs)?;
        let in_memory = tempfile::tempdir_in("/dev/shm").ok();
        let members = in_memory.filter(|directory| takes_direct(directory.path()));
        let members = members.map_or_else(tempfile::tempdir, Ok);
        Some(Self { bench, members: members.expect("a temporary directory") })
    }

    /// Files for members, of this many MiB each, all zeroes: in memory where possible.
    pub(crate) fn files(&self, names: &[&str], mib: u64) -> Vec<String> {
        files(self.members.path(), names, mib)
    }

    /// The same where temporary files are: mostly on a disk.
    pub(crate) fn files_on_disk(&self, names: &[&str], mib: u64) -> Vec<String> {
        files(&self.bench.path(""), names, mib)
    }

    pub(crate) fn run(&self, args: &[&str], members: &[String]) -> Output {
        let members: Vec<&str> = members.iter().map(String::as_str).collect();
        let backend = backend();
        let is_served = matches!(args.first(), Some(&("create" | "assemble")));
        let over = if is_served { over(args, &backend) } else { Vec::new() };
        let args = [&["array"], args, &members, &over].concat();
        self.bench.trimtab(&args).output().expect("trimtab runs")
    }

    /// The same; it must succeed. Returns its output.
    pub(crate) fn done(&self, args: &[&str], members: &[String]) -> String {
        let output = self.run(args, members);
        assert!(output.status.success(), "{args:?}: {}{}", stderr(&output), self.logs());
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// What the servers have said.
    fn logs(&self) -> String {
        let arrays = fs::read_dir(self.bench.path("arrays")).into_iter().flatten().flatten();
        let logs = arrays.map(|array| fs::read_to_string(array.path().join("log")));
        logs.flatten().collect()
    }

    /// Expects failure with this code and one line with this text.
    pub(crate) fn fails(&self, args: &[&str], members: &[String], code: i32, expected: &str) {
        let output = self.run(args, members);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        assert!(said.contains(expected), "{args:?}: {said}");
        assert_eq!(said.trim_end().lines().count(), 1, "{args:?}: {said}");
    }

    pub(crate) fn stat(&self, name: &str) -> Value {
        serde_json::from_str(&self.done(&["stat", name, "--json"], &[])).expect("JSON")
    }

    /// The states of the members.
    pub(crate) fn states(&self, name: &str) -> Vec<String> {
        let stat = self.stat(name);
        let members = stat["members"].as_array().unwrap().iter();
        members.map(|member| member["state"].as_str().unwrap().to_owned()).collect()
    }

    /// Waits until the members agree.
    pub(crate) fn wait_for_resync(&self, name: &str) {
        wait_until("resync", || self.stat(name)["to_resync"] == 0);
    }

    /// Waits until no member is missing.
    pub(crate) fn wait_for_rebuild(&self, name: &str) {
        let is_there = |states: Vec<String>| states.iter().all(|state| state == "active");
        wait_until("rebuild", || is_there(self.states(name)));
    }

    /// Compares all stripes: they must fit.
    pub(crate) fn check(&self, name: &str) {
        let check: Value =
            serde_json::from_str(&self.done(&["check", name, "--json"], &[])).expect("JSON");
        assert_eq!(check["mismatches"], 0, "{check}");
    }

    /// The process of an array's server, if it lives.
    pub(crate) fn server(&self, name: &str) -> Option<Pid> {
        let all: Value = serde_json::from_str(&self.done(&["list", "--json"], &[])).unwrap();
        let array = all.as_array().unwrap().iter().find(|array| array["name"] == name)?;
        Pid::from_raw(array["pid"].as_i64()? as i32)
    }

    /// Kills the server of an array. What programs ask of its device fails then: over ublk it would wait,
    /// and the device goes too.
    pub(crate) fn kill(&self, name: &str) {
        kill_process(self.server(name).unwrap(), Signal::KILL).unwrap();
        if backend() == "ublk" {
            wait_until("end of the server", || self.server(name).is_none());
            self.done(&["stop", name, "--force"], &[]);
        }
    }

    /// Writes and verifies at random, from 512 bytes to 200 KiB at a time.
    pub(crate) fn verify(&self, device: &str, seed: u64) {
        self.verify_blocks(device, seed, 512);
    }

    /// The same on a device of whole pages.
    pub(crate) fn verify_pages(&self, device: &str, seed: u64) {
        self.verify_blocks(device, seed, 4096);
    }

    fn verify_blocks(&self, device: &str, seed: u64, block: u32) {
        let state = self.members.path().to_str().unwrap().to_owned();
        let arguments = [
            "--name=verify",
            &format!("--filename={device}"),
            "--direct=1",
            "--rw=randrw",
            &format!("--bsrange={block}-200k"),
            &format!("--blockalign={block}"),
            "--iodepth=16",
            "--ioengine=libaio",
            "--size=48M",
            "--verify=crc32c",
            "--verify_fatal=1",
            "--verify_state_save=0",
            &format!("--aux-path={state}"),
            &format!("--randseed={seed}"),
        ];
        testdisk::run("fio", &arguments);
    }

    /// A checksum of all that a device has.
    pub(crate) fn checksum(&self, device: &str) -> u64 {
        let disk = open_direct(device);
        let mut buffer = testdisk::aligned(1 << 20);
        let mut hasher = DefaultHasher::new();
        let mut at = 0;
        loop {
            let window = testdisk::window(&mut buffer, 1 << 20);
            let bytes = disk.read_at(window, at).expect("the device can be read");
            if bytes == 0 {
                return hasher.finish();
            }
            hasher.write(&window[..bytes]);
            at += bytes as u64;
        }
    }

    /// Traces of arrays in the machine.
    pub(crate) fn traces(&self) -> Vec<String> {
        let mut found = self.bench.traces();
        if let Ok(arrays) = fs::read_dir(self.bench.path("arrays")) {
            found.extend(arrays.flatten().map(|entry| entry.path().display().to_string()));
        }
        found
    }
}

/// Whether files there are opened for direct I/O: those of tmpfs are not before Linux 6.6.
fn takes_direct(directory: &Path) -> bool {
    let file = directory.join("direct");
    let opened = File::options().create(true).write(true).custom_flags(O_DIRECT).open(&file);
    _ = fs::remove_file(file);
    opened.is_ok()
}

fn files(directory: &Path, names: &[&str], mib: u64) -> Vec<String> {
    let file = |name: &&str| {
        let path = directory.join(name);
        File::create(&path).and_then(|file| file.set_len(mib << 20)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    names.iter().map(file).collect()
}

impl Drop for Arrays {
    fn drop(&mut self) {
        // Also after a failed test.
        _ = self.run(&["stop", "--all", "--force"], &[]);
    }
}

pub(crate) fn open_direct(device: &str) -> File {
    let mut options = File::options();
    options.read(true).write(true).custom_flags(O_DIRECT).open(device).expect("the device opens")
}

pub(crate) const BLOCK: usize = 4096;

pub(crate) fn write_block(device: &File, block: u64, value: u64) -> std::io::Result<()> {
    let mut buffer = testdisk::aligned(BLOCK);
    let window = testdisk::window(&mut buffer, BLOCK);
    window.chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&value.to_le_bytes()));
    device.write_all_at(window, block * BLOCK as u64)
}

pub(crate) fn read_block(device: &File, block: u64) -> std::io::Result<u64> {
    let mut buffer = testdisk::aligned(BLOCK);
    let window = testdisk::window(&mut buffer, BLOCK);
    device.read_exact_at(window, block * BLOCK as u64)?;
    let value = u64::from_le_bytes(window[..8].try_into().unwrap());
    let is_whole = window.chunks_exact(8).all(|word| word == value.to_le_bytes());
    assert!(is_whole, "block {block} is torn");
    Ok(value)
}

/// How often servers are killed: so many times, or as `TRIMTAB_KILLS` says.
pub(crate) fn rounds(default: u64) -> u64 {
    let set = std::env::var("TRIMTAB_KILLS").ok();
    set.map_or(default, |kills| kills.parse().expect("TRIMTAB_KILLS is a number"))
}

/// An array of three drives, one of them emulated: its faults can be chosen.
pub(crate) fn with_emulated_drive(arrays: &Arrays, policy: &str) -> (String, Vec<String>) {
    let drive = arrays.bench.create("ill", &["--size", "64M", "--lead", "0us"]);
    let files = arrays.files(&["a", "b"], 64);
    let members = vec![files[0].clone(), drive, files[1].clone()];
    let create = ["create", "some", "--level", "5", "--assume-clean", "--policy", policy];
    (arrays.done(&create, &members), members)
}

/// Blocks that are on the emulated drive, member 1 of 3 (chunks of 64 KiB, left-symmetric).
pub(crate) fn blocks_of_drive() -> impl Iterator<Item = u64> {
    // Stripe 0 is D0 D1 P: its chunk 1. Stripe 3 begins at chunk 6, and is the same again.
    (0..8).map(|round| (1 + 6 * round) * 16)
}

/// Writes numbers from this one on, over the whole device but for its ends.
pub(crate) fn write(device: &File, capacity: u64, from: u64) {
    write_blocks(device, capacity, from, 512);
}

/// The same to a device of whole pages.
pub(crate) fn write_pages(device: &File, capacity: u64, from: u64) {
    write_blocks(device, capacity, from, 4096);
}

fn write_blocks(device: &File, capacity: u64, from: u64, block: u64) {
    const BYTES: usize = 48 << 10;
    let mut buffer = testdisk::aligned(BYTES);
    for (index, at) in (8192..capacity - (1 << 17)).step_by(100 << 10).enumerate() {
        let window = testdisk::window(&mut buffer, BYTES);
        let value = from + index as u64;
        window.chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&value.to_le_bytes()));
        device.write_all_at(window, at / block * block).unwrap();
    }
    device.sync_all().unwrap();
}

/// Has the members as after a crash: not in sync, and with parity that does not fit where the newest logs
/// say that it was being written. Returns how many places these are.
pub(crate) fn crash(members: &[String]) -> usize {
    let mut places = 0;
    for member in members {
        let device = trimtab_md::Member::open(Path::new(member), true).unwrap();
        let mut superblock = device.superblock().unwrap();
        let (header, log) = device.ppl(&superblock).unwrap().unwrap();
        let layout = superblock.array_layout().unwrap();
        let file = File::options().write(true).open(member).unwrap();
        for update in header.recovery(&layout, &log, |_| true).updates {
            let garbage = vec![0x55; update.bytes as usize];
            file.write_all_at(&garbage, superblock.data_offset + update.offset).unwrap();
            places += 1;
        }
        file.sync_all().unwrap();
        superblock.in_sync_to = Some(0);
        device.write_superblock(&superblock).unwrap();
    }
    places
}
