//! Drives and arrays over ublk, as a user runs them: content, discards, queues, servers that are
//! killed under load and followed by others, and clean-up.
//!
//! ```text
//! RELEASE=trixie scripts/guest ublk
//! ```

mod array_bench;
mod emulated;

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use array_bench::{Arrays, open_direct, read_block, rounds, write_block};
use emulated::{Bench, Mounted, stderr, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use trimtab_testdisk::{self as testdisk, Feature};

const OVER_UBLK: [&str; 2] = ["--backend", "ublk"];

/// `None`, with a note, if the machine has no ublk or lacks something else.
fn arrays(programs: &[&'static str]) -> Option<Arrays> {
    testdisk::requires(&[Feature::Root, Feature::Ublk]).then(|| Arrays::new(programs))?
}

fn create_drive(bench: &Bench, name: &str, args: &[&str]) -> String {
    let device = bench.create(name, &[&["--size", "64M"], &OVER_UBLK[..], args].concat());
    assert!(device.starts_with("/dev/ublkb"), "{device}");
    device
}

fn create_array(arrays: &Arrays, name: &str, members: &[String]) -> String {
    let create = ["create", name, "--level", "5", "--assume-clean", "--backend", "ublk"];
    let device = arrays.done(&create, members);
    assert!(device.starts_with("/dev/ublkb"), "{device}");
    device
}

/// What the kernel has of a ublk device.
fn traces_of(device: &str) -> Vec<String> {
    let number = device.strip_prefix("/dev/ublkb").unwrap();
    let all = [
        device.to_owned(),
        format!("/dev/ublkc{number}"),
        format!("/sys/block/ublkb{number}"),
        format!("/sys/class/ublk-char/ublkc{number}"),
    ];
    all.into_iter().filter(|path| Path::new(path).exists()).collect()
}

fn assert_gone(arrays: &Arrays, device: &str) {
    // udev removes the node a moment later.
    wait_until("removal", || traces_of(device).is_empty());
    assert!(arrays.traces().is_empty(), "{:?}", arrays.traces());
}

fn queue(device: &str, what: &str) -> String {
    let name = device.strip_prefix("/dev/").unwrap();
    fs::read_to_string(format!("/sys/block/{name}/queue/{what}")).unwrap().trim().to_owned()
}

/// The entry of a drive or an array in its list.
fn listed(bench: &Bench, noun: &str, name: &str) -> Value {
    let output = bench.trimtab(&[noun, "list", "--json"]).output().unwrap();
    let all: Value = serde_json::from_slice(&output.stdout).unwrap();
    all.as_array().unwrap().iter().find(|one| one["name"] == name).unwrap().clone()
}

fn kill(bench: &Bench, noun: &str, name: &str) {
    let pid = listed(bench, noun, name)["pid"].as_i64().unwrap() as i32;
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    let waits = || listed(bench, noun, name)["state"].as_str().unwrap().contains("waits");
    wait_until("a device that waits", waits);
}

/// Writes at random over 32 MiB for some ten seconds, and then verifies all of it.
fn begin_load(device: &str, state: &Path) -> Child {
    let mut fio = Command::new("fio");
    fio.args([
        "--name=load",
        &format!("--filename={device}"),
        "--direct=1",
        "--rw=randwrite",
        "--bs=4k",
        "--size=32M",
        "--rate=3m",
        "--iodepth=8",
        "--ioengine=libaio",
        "--verify=crc32c",
        "--verify_fatal=1",
        "--verify_state_save=0",
        &format!("--aux-path={}", state.display()),
    ]);
    fio.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("fio runs")
}

fn end_load(load: Child) {
    let output = load.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", stderr(&output));
}

#[test]
fn drive_keeps_content_and_is_removed() {
    let Some(arrays) = arrays(&["fio", "blkdiscard"]) else { return };
    let bench = &arrays.bench;
    let device =
        create_drive(bench, "one", &["--block-size", "4096", "--scheduler", "mq-deadline"]);
    assert_eq!(queue(&device, "logical_block_size"), "4096");
    assert!(queue(&device, "scheduler").contains("[mq-deadline]"));
    assert_eq!(queue(&device, "rotational"), "0");
    assert_eq!(queue(&device, "write_cache"), "write back");
    assert_eq!(listed(bench, "drive", "one")["backend"], "ublk");
    assert!(bench.done(&["list"]).contains("ublk"));
    assert_eq!(bench.stat("one")["backend"], "ublk");
    assert!(bench.done(&["stat", "one"]).contains("over ublk"));
    arrays.verify_pages(&device, 1);

    let disk = open_direct(&device);
    write_block(&disk, 300, 7).unwrap();
    disk.sync_all().unwrap();
    assert!(bench.stat("one")["flushes"]["requests"].as_u64() >= Some(1));
    let range = ["--offset", "1228800", "--length", "4096"];
    testdisk::run("blkdiscard", &[&range, &[device.as_str()][..]].concat());
    assert_eq!(read_block(&disk, 300).unwrap(), 0);
    testdisk::run("blkdiscard", &["--zeroout", &device]);
    assert_eq!(read_block(&disk, 0).unwrap(), 0);
    assert!(bench.stat("one")["discards"]["requests"].as_u64() >= Some(2));
    drop(disk);
    bench.done(&["remove", "one"]);
    assert_gone(&arrays, &device);

    // A disk with platters; without a choice it is over ublk, where that is.
    let disk = ["create", "two", "--profile", "disk-7200", "--size", "1G", "--data", "none"];
    let device = bench.done(&disk);
    assert!(device.starts_with("/dev/ublkb"), "{device}");
    assert_eq!(queue(&device, "rotational"), "1");
    bench.done(&["remove", "two"]);
    assert_gone(&arrays, &device);
    bench.fails(
        &["create", "bad", "--size", "64M", "--profile", "small.toml", "--scheduler", "nonsense"],
        2,
        "no such I/O scheduler",
    );
    assert!(arrays.traces().is_empty(), "{:?}", arrays.traces());
}

#[test]
fn stalled_drive_is_removed_at_once() {
    let Some(arrays) = arrays(&[]) else { return };
    let bench = &arrays.bench;
    let device = create_drive(bench, "stalled", &[]);
    let disk = open_direct(&device);
    write_block(&disk, 1, 1).unwrap();
    bench.done(&["fault", "stalled", "stall", "--for", "1h"]);
    // udev then has the kernel read the partition table.
    drop(disk);
    thread::sleep(Duration::from_millis(300));
    let begun = Instant::now();
    bench.done(&["remove", "stalled"]);
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    assert_gone(&arrays, &device);
}

#[test]
fn queues_are_served_at_once() {
    let Some(arrays) = arrays(&["fio"]) else { return };
    let device = create_drive(&arrays.bench, "wide", &[]);
    let name = device.strip_prefix("/dev/").unwrap();
    let queues = fs::read_dir(format!("/sys/block/{name}/mq")).unwrap().count();
    let processors = thread::available_parallelism().unwrap().get();
    assert_eq!(queues, processors.min(4));
    // One program on each processor, on parts of its own.
    let loads: Vec<_> = (0..queues)
        .map(|cpu| {
            let mut fio = Command::new("fio");
            fio.args(["--name=queue", "--direct=1", "--rw=randwrite", "--bs=4k", "--size=8M"]);
            fio.args(["--ioengine=libaio", "--iodepth=16", "--verify=crc32c", "--verify_fatal=1"]);
            fio.args(["--verify_state_save=0", &format!("--filename={device}")]);
            fio.args([&format!("--offset={}M", 8 * cpu), &format!("--cpus_allowed={cpu}")]);
            fio.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    loads.into_iter().for_each(end_load);
    arrays.bench.done(&["remove", "wide"]);
    assert_gone(&arrays, &device);
}

#[test]
fn array_keeps_content_and_is_stopped() {
    let Some(arrays) = arrays(&["fio"]) else { return };
    let members = arrays.files(&["a", "b", "c"], 48);
    let device = create_array(&arrays, "some", &members);
    assert_eq!(listed(&arrays.bench, "array", "some")["backend"], "ublk");
    assert_eq!(arrays.stat("some")["backend"], "ublk");
    // As many bytes as the kernel likes.
    assert_ne!(queue(&device, "discard_max_bytes"), "0");
    arrays.verify(&device, 1);
    arrays.check("some");
    let sum = arrays.checksum(&device);
    arrays.done(&["stop", "some"], &[]);
    assert_gone(&arrays, &device);
    // The back end is chosen anew each time.
    let device = arrays.done(&["assemble", "some", "--backend", "fuse"], &members);
    assert!(device.starts_with("/dev/loop"), "{device}");
    assert_eq!(listed(&arrays.bench, "array", "some")["backend"], "fuse");
    assert_eq!(arrays.checksum(&device), sum);
    arrays.done(&["stop", "some"], &[]);
}

#[test]
fn array_killed_under_load_is_taken_over() {
    let Some(arrays) = arrays(&["fio"]) else { return };
    let members = arrays.files(&["a", "b", "c"], 48);
    let device = create_array(&arrays, "mortal", &members);
    for _ in 0..rounds(1) {
        let mut load = begin_load(&device, &arrays.bench.path(""));
        for _ in 0..3 {
            thread::sleep(Duration::from_millis(700));
            kill(&arrays.bench, "array", "mortal");
            let taken = arrays.done(&["assemble", "mortal", "--backend", "ublk"], &members);
            assert_eq!(taken, device);
        }
        assert!(load.try_wait().unwrap().is_none(), "it waited, and goes on");
        end_load(load);
        arrays.wait_for_resync("mortal");
        arrays.check("mortal");
    }
    arrays.done(&["stop", "mortal"], &[]);
    assert_gone(&arrays, &device);
}

/// Writes in order, one block at a time, until that fails.
fn write_until_it_fails(device: &str) -> Child {
    let dd =
        format!("dd if=/dev/zero of={device} bs=4k oflag=direct conv=notrunc,nocreat count=8k");
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("while {dd}; do :; done")]);
    shell.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("sh runs")
}

/// The kernel may lose a request when a server is killed at the moment at which it arrives
/// (trimtab-serve, ublk/queues.rs). Then the device is given up within a minute, and its name is free.
#[test]
fn servers_are_killed_while_requests_arrive() {
    let Some(arrays) = arrays(&["sh", "dd"]) else { return };
    let files = arrays.files(&["a", "b"], 64);
    let (kills, mut lost) = (rounds(5), Vec::new());
    for round in 0..kills {
        let create = ["create", "brief", "--level", "1", "--assume-clean", "--force"];
        let device = arrays.done(&[&create[..], &OVER_UBLK].concat(), &files);
        let mut writers = [write_until_it_fails(&device), write_until_it_fails(&device)];
        thread::sleep(Duration::from_millis(300 + round * 37 % 200));
        kill_process(arrays.server("brief").unwrap(), Signal::KILL).unwrap();
        wait_until("end of the server", || arrays.server("brief").is_none());
        let output = arrays.run(&["stop", "brief", "--force"], &[]);
        if output.status.success() {
            for writer in &mut writers {
                writer.wait().unwrap();
            }
            continue;
        }
        // The writers wait for as long as the machine runs.
        assert!(stderr(&output).contains("the kernel does not let go"), "{}", stderr(&output));
        arrays.done(&["stop", "brief", "--force"], &[]);
        lost.push(device);
    }
    testdisk::note(&format!("of {kills} servers killed the kernel lost requests of {lost:?}"));
    assert!(lost.len() as u64 * 5 <= kills, "lost: {lost:?}");
    assert!(arrays.traces().is_empty(), "{:?}", arrays.traces());
}

#[test]
fn drive_with_a_file_killed_under_load_is_taken_over() {
    let Some(arrays) = arrays(&["fio"]) else { return };
    let bench = &arrays.bench;
    let file = bench.path("content").display().to_string();
    let args = ["--data", "file", "--file", &file];
    let device = create_drive(bench, "mortal", &args);
    for _ in 0..rounds(1) {
        let mut load = begin_load(&device, &bench.path(""));
        for _ in 0..3 {
            thread::sleep(Duration::from_millis(700));
            kill(bench, "drive", "mortal");
            assert_eq!(create_drive(bench, "mortal", &args), device);
        }
        assert!(load.try_wait().unwrap().is_none(), "it waited, and goes on");
        end_load(load);
    }
    bench.done(&["remove", "mortal"]);
    assert_gone(&arrays, &device);
}

#[test]
fn drive_in_memory_is_not_taken_over() {
    let Some(arrays) = arrays(&[]) else { return };
    let bench = &arrays.bench;
    let device = create_drive(bench, "mortal", &[]);
    kill(bench, "drive", "mortal");
    let disk = open_direct(&device);
    let waiting = thread::spawn(move || read_block(&disk, 1));
    thread::sleep(Duration::from_millis(300));
    assert!(!waiting.is_finished(), "it waits for a server");
    bench.fails(&["stat", "mortal"], 1, "its server was killed");
    bench.done(&["remove", "mortal"]);
    assert!(waiting.join().unwrap().is_err(), "its data are lost");
    assert_gone(&arrays, &device);
    // Another of that name removes it as well.
    let first = create_drive(bench, "mortal", &[]);
    kill(bench, "drive", "mortal");
    let second = create_drive(bench, "mortal", &[]);
    assert!(traces_of(&second).len() >= 4, "{first} {second}");
    bench.done(&["remove", "mortal"]);
    assert_gone(&arrays, &second);
}

#[test]
fn file_system_waits_for_the_next_server() {
    let Some(arrays) = arrays(&["mkfs.ext4", "mount", "umount"]) else { return };
    if !testdisk::requires(&[Feature::Ext4]) {
        return;
    }
    let members = arrays.files(&["a", "b", "c"], 48);
    let device = create_array(&arrays, "kept", &members);
    testdisk::run("mkfs.ext4", &["-q", &device]);
    let mounted = Mounted::new(&device, arrays.bench.path("mnt"));
    let path = mounted.path().join("file");
    fs::write(&path, vec![3; 1 << 20]).unwrap();
    arrays.fails(&["stop", "kept"], &[], 1, "is mounted at");
    kill(&arrays.bench, "array", "kept");
    // What it waits for is not taken away by accident, nor given to something else.
    arrays.fails(&["stop", "kept"], &[], 1, "is mounted at");
    let create = ["create", "kept", "--level", "5", "--backend", "ublk", "--force"];
    arrays.fails(&create, &members, 1, "is mounted at");
    let others = arrays.files(&["d", "e", "f"], 48);
    create_array(&arrays, "other", &others);
    arrays.done(&["stop", "other"], &[]);
    arrays.fails(&["assemble", "kept", "--backend", "ublk"], &others, 2, "which these members");
    let written = path.clone();
    let writer = thread::spawn(move || {
        let file = File::options().write(true).open(&written).unwrap();
        file.write_all_at(&[4; 4096], 8192).unwrap();
        file.sync_all()
    });
    thread::sleep(Duration::from_millis(300));
    assert!(!writer.is_finished(), "it waits for a server");
    assert_eq!(arrays.done(&["assemble", "kept", "--backend", "ublk"], &members), device);
    writer.join().unwrap().expect("the new server writes it");
    mounted.unmount();
    let mounted = Mounted::new(&device, arrays.bench.path("mnt"));
    let content = fs::read(&path).unwrap();
    assert!(content[8192..12288].iter().all(|&byte| byte == 4));
    assert!(content[..8192].iter().all(|&byte| byte == 3));
    kill(&arrays.bench, "array", "kept");
    arrays.done(&["stop", "--force", "kept"], &[]);
    drop(mounted);
    assert_gone(&arrays, &device);
}

#[test]
fn kernel_without_ublk_is_said_and_fuse_serves() {
    let Some(bench) = Bench::new(&[]) else { return };
    if testdisk::missing(&[Feature::Ublk]).is_none() {
        return;
    }
    let create = ["create", "one", "--profile", "small.toml", "--size", "64M"];
    bench.fails(&[&create[..], &OVER_UBLK].concat(), 1, "this kernel has no ublk");
    bench.fails(&[&create[..], &["--backend", "nbd"]].concat(), 2, "no such back end");
    let device = bench.done(&create);
    assert!(device.starts_with("/dev/loop"), "{device}");
    assert_eq!(listed(&bench, "drive", "one")["backend"], "fuse");
    assert!(bench.done(&["stat", "one"]).contains("over FUSE and loop"));
    bench.remove_all();
}
