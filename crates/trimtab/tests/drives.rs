//! `trimtab drive`, as a user runs it: commands, faults, and clean-up.

mod emulated;

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use emulated::{Bench, Mounted, stderr, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use trimtab_testdisk as testdisk;

const O_DIRECT: i32 = 0o40000;
/// What is left of these is in the file system of FUSE and a loop device.
const OF_LOOP: [&str; 4] = ["--size", "64M", "--backend", "fuse"];

fn open_direct(device: &str) -> File {
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(O_DIRECT).open(device).expect("the device opens")
}

fn read_at(file: &File, offset: u64, bytes: usize) -> std::io::Result<Vec<u8>> {
    let mut buffer = testdisk::aligned(bytes);
    let window = testdisk::window(&mut buffer, bytes);
    file.read_exact_at(window, offset)?;
    Ok(window.to_vec())
}

fn write_at(file: &File, offset: u64, content: &[u8]) -> std::io::Result<()> {
    let mut buffer = testdisk::aligned(content.len());
    let window = testdisk::window(&mut buffer, content.len());
    window.copy_from_slice(content);
    file.write_all_at(window, offset)
}

fn pid_of(bench: &Bench, name: &str) -> Pid {
    let all: Value = serde_json::from_str(&bench.done(&["list", "--json"])).unwrap();
    let drive = all.as_array().unwrap().iter().find(|drive| drive["name"] == name).unwrap();
    Pid::from_raw(drive["pid"].as_i64().unwrap() as i32).unwrap()
}

#[test]
fn drive_is_made_listed_and_removed() {
    let Some(bench) = Bench::new(&[]) else { return };
    let device = bench.create("one", &["--size", "64M", "--backend", "fuse"]);
    assert!(device.starts_with("/dev/loop"), "{device}");
    let listed = bench.done(&["list"]);
    assert!(listed.contains("one") && listed.contains(&device) && listed.contains("running"));
    // A duplicate key would be lost, or refused, by a parser.
    let listed = bench.done(&["list", "--json"]);
    assert_eq!(listed.matches("\"name\":").count(), 1, "{listed}");
    bench.fails(&["create", "one", "--size", "4G"], 2, "the drive already exists");

    let disk = open_direct(&device);
    assert_eq!(read_at(&disk, 1 << 20, 4096).unwrap(), [0; 4096], "never written");
    // Sizes and offsets from the smallest to the largest that block devices accept.
    let content: Vec<u8> = (0..3 << 20).map(|i| (i % 253) as u8).collect();
    for (offset, bytes) in [(512, 512), (4096 * 3 + 512, 8192), (5 << 20, 3 << 20)] {
        write_at(&disk, offset, &content[..bytes]).unwrap();
        assert_eq!(read_at(&disk, offset, bytes).unwrap(), content[..bytes]);
    }
    disk.sync_all().unwrap();
    let stat = bench.stat("one");
    assert!(stat["reads"]["requests"].as_u64() >= Some(4), "{stat}");
    assert!(stat["writes"]["bytes"].as_u64() >= Some(3 << 20), "{stat}");
    assert!(stat["flushes"]["requests"].as_u64() >= Some(1), "{stat}");
    assert!((0.4..0.6).contains(&stat["mapped_share"].as_f64().unwrap()), "{stat}");
    assert!(bench.done(&["stat", "one"]).contains("write amplification"));
    drop(disk);

    bench.done(&["remove", "one"]);
    assert!(bench.traces().is_empty(), "{:?}", bench.traces());
    bench.fails(&["stat", "one"], 2, "no such drive");
    bench.fails(&["remove", "one"], 2, "no such drive");
}

#[test]
fn invalid_input_gives_one_line_and_leaves_nothing() {
    let Some(bench) = Bench::new(&[]) else { return };
    let create = |args: &[&'static str], expected| {
        let all = [&["create", "bad", "--profile", "small.toml", "--size", "64M"], args].concat();
        bench.fails(&all, 2, expected);
        assert!(bench.traces().is_empty(), "{:?}", bench.traces());
    };
    create(&["--scheduler", "elevator"], "no such I/O scheduler here; there are:");
    create(&["--fill", "1.5"], "a share from 0 to 1");
    create(&["--block-size", "520"], "must be 512");
    create(&["--data", "file"], "needs --file");
    create(&["--data", "none", "--memory-cap", "1M"], "--memory-cap is for --data memory");
    create(&["--faults", "nowhere.toml"], "cannot read");
    fs::write(bench.path("odd.toml"), "[[fault]]\nkind = 'slow'\nfor_s = 1\n").unwrap();
    create(&["--faults", "odd.toml"], "`slow` takes `factor`");
    fs::write(bench.path("other.img"), [0; 512]).unwrap();
    create(&["--data", "file", "--file", "other.img"], "holds a drive of 512 bytes");
    bench.fails(&["create", "a/b", "--size", "4G"], 2, "a drive's name is");
    bench.fails(&["create", "a", "--profile", "small.toml", "--size", "1M"], 2, "at least");
}

#[test]
fn foreground_drive_ends_on_a_signal() {
    let Some(bench) = Bench::new(&[]) else { return };
    let args = ["create", "fore", "--profile", "small.toml", "--size", "64M", "--foreground"];
    for signal in [Signal::INT, Signal::TERM] {
        let log = bench.path("fore.log");
        let said = fs::File::create(&log).unwrap();
        let mut child = bench.command(&args).stderr(said).stdout(Stdio::null()).spawn();
        let child = child.as_mut().expect("trimtab runs");
        wait_until("the drive runs", || {
            let ended = child.try_wait().unwrap();
            assert_eq!(ended, None, "{}", fs::read_to_string(&log).unwrap());
            bench.drive(&["stat", "fore"]).status.success()
        });
        kill_process(Pid::from_child(child), signal).unwrap();
        assert!(child.wait().unwrap().success());
        assert!(bench.traces().is_empty(), "{:?}", bench.traces());
    }
}

#[test]
fn remains_of_a_killed_server_are_removed() {
    let Some(bench) = Bench::new(&[]) else { return };
    let kill = |name: &str| {
        let pid = pid_of(&bench, name);
        kill_process(pid, Signal::KILL).unwrap();
        wait_until("it is dead", || bench.done(&["list"]).contains("killed: remove it"));
        assert!(!bench.traces().is_empty());
    };
    // By `remove`.
    let device = bench.create("mortal", &OF_LOOP);
    kill("mortal");
    assert!(read_at(&open_direct(&device), 0, 4096).is_err());
    bench.fails(&["stat", "mortal"], 1, "its server was killed");
    bench.done(&["remove", "mortal"]);
    assert!(bench.traces().is_empty(), "{:?}", bench.traces());
    // By the next drive of that name.
    bench.create("mortal", &OF_LOOP);
    kill("mortal");
    let device = bench.create("mortal", &OF_LOOP);
    assert_eq!(read_at(&open_direct(&device), 0, 4096).unwrap(), [0; 4096]);
    let backed = bench.traces().iter().filter(|trace| trace.contains("mount/disk")).count();
    assert_eq!(backed, 1, "{:?}", bench.traces());
    bench.remove_all();
}

/// A loop device keeps its scheduler for its next user.
#[test]
fn scheduler_is_restored_after_a_kill() {
    let Some(bench) = Bench::new(&[]) else { return };
    let all = fs::read_to_string("/sys/block/loop0/queue/scheduler").unwrap_or_default();
    if !all.contains(" kyber") {
        return testdisk::skip(testdisk::Feature::Kernel, "needs the scheduler kyber");
    }
    let device = bench.create("mortal", &[&OF_LOOP[..], &["--scheduler", "kyber"]].concat());
    let file = device.replace("/dev/", "/sys/block/") + "/queue/scheduler";
    assert!(fs::read_to_string(&file).unwrap().contains("[kyber]"));
    kill_process(pid_of(&bench, "mortal"), Signal::KILL).unwrap();
    wait_until("it is dead", || bench.done(&["list"]).contains("killed: remove it"));
    bench.done(&["remove", "mortal"]);
    assert!(!fs::read_to_string(&file).unwrap().contains("[kyber]"));
    assert!(bench.traces().is_empty(), "{:?}", bench.traces());
}

#[test]
fn mounted_killed_drive_disappears_when_unmounted() {
    let Some(bench) = Bench::new(&["mkfs.ext4", "mount", "umount"]) else { return };
    let device = bench.create("mortal", &OF_LOOP);
    testdisk::run("mkfs.ext4", &["-q", &device]);
    let mounted = Mounted::new(&device, bench.path("used"));
    kill_process(pid_of(&bench, "mortal"), Signal::KILL).unwrap();
    wait_until("it is dead", || bench.done(&["list"]).contains("killed: remove it"));
    let removed = bench.drive(&["remove", "mortal"]);
    assert!(removed.status.success() && stderr(&removed).contains("is still mounted at"));
    mounted.unmount();
    let name = device.trim_start_matches("/dev/");
    let backing = format!("/sys/block/{name}/loop/backing_file");
    let is_gone = || fs::read_to_string(&backing).map_or(true, |file| !file.contains("disk"));
    wait_until("the device has gone", is_gone);
    assert!(bench.traces().is_empty(), "{:?}", bench.traces());
}

#[test]
fn drives_of_a_killed_check_are_removed() {
    let Some(bench) = Bench::new(&[]) else { return };
    let mut command = bench.command(&["check", "--duration", "60s"]);
    let mut check = command.stdout(Stdio::null()).spawn().unwrap();
    wait_until("they are there", || bench.done(&["list"]).matches("running").count() == 3);
    check.kill().unwrap();
    check.wait().unwrap();
    wait_until("they have gone", || bench.traces().is_empty());
}

#[test]
fn mounted_drive_is_removed_only_with_force() {
    let Some(bench) = Bench::new(&["mkfs.ext4", "mount", "umount"]) else { return };
    let device = bench.create("used", &["--size", "64M"]);
    testdisk::run("mkfs.ext4", &["-q", &device]);
    let mounted = Mounted::new(&device, bench.path("used"));
    bench.fails(&["remove", "used"], 1, "unmount it first");
    fs::write(mounted.path().join("file"), "still there").unwrap();
    mounted.unmount();
    bench.remove_all();
}

#[test]
fn faults_are_injected_and_cleared() {
    let Some(bench) = Bench::new(&[]) else { return };
    let device = bench.create("faulty", &["--size", "64M"]);
    let disk = open_direct(&device);
    bench.done(&["fault", "faulty", "error", "--reads", "--for", "1h"]);
    let error = read_at(&disk, 8192, 4096).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(5), "{error}");
    write_at(&disk, 8192, &[7; 4096]).unwrap();
    let stat = bench.stat("faulty");
    assert!(stat["faults"][0].as_str().unwrap().starts_with("1 of reads fail"), "{stat}");
    assert!(stat["reads"]["errors"].as_u64() >= Some(1), "{stat}");
    bench.done(&["fault", "faulty", "clear"]);
    assert_eq!(read_at(&disk, 8192, 4096).unwrap(), [7; 4096]);
    // The model's latency is at least 25 µs: this read must come from the flash, not from the
    // buffer.
    bench.done(&["fault", "faulty", "slow", "--factor", "4000", "--for", "1h"]);
    let begun = Instant::now();
    read_at(&disk, 1 << 20, 4096).unwrap();
    assert!(begun.elapsed() > Duration::from_millis(80));
    bench.fails(&["fault", "faulty", "slow", "--factor", "0", "--for", "1s"], 2, "factor must be");
    // A stalled drive can be removed.
    bench.done(&["fault", "faulty", "stall", "--for", "1h"]);
    drop(disk);
    bench.remove_all();
}

#[test]
fn drive_can_have_the_name_of_a_fault() {
    let Some(bench) = Bench::new(&[]) else { return };
    for name in ["slow", "stall", "error", "clear", "help"] {
        bench.create(name, &["--size", "64M", "--data", "none", "--lead", "0us"]);
        let faults = || bench.stat(name)["faults"].clone();
        for (fault, expected) in [
            (&["stall", "--for", "1h"][..], "stall, "),
            (&["slow", "--factor", "10", "--for", "1h"], "slow by 10, "),
            (&["error", "--reads", "--share", "0.1", "--for", "1h"], "0.1 of reads fail, "),
        ] {
            bench.done(&[&["fault", name][..], fault].concat());
            assert!(faults()[0].as_str().unwrap().starts_with(expected), "{name}: {}", faults());
            bench.done(&["fault", name, "clear"]);
            assert_eq!(faults().as_array().map(Vec::len), Some(0), "{name}");
        }
        bench.done(&["remove", name]);
    }
}

#[test]
fn option_of_another_fault_is_refused() {
    let Some(bench) = Bench::new(&[]) else { return };
    for (args, expected) in [
        (&["stall"][..], "`stall` needs --for TIME"),
        (&["slow", "--for", "1s"], "`slow` needs --factor N"),
        (&["stall", "--for", "1s", "--share", "0.5"], "`stall` takes no --share"),
        (&["slow", "--factor", "2", "--for", "1s", "--reads"], "`slow` takes no --reads"),
        (&["clear", "--for", "1s"], "`clear` takes no --for"),
        (&["explode", "--for", "1s"], "'explode'"),
        (&[], "<FAULT>"),
    ] {
        bench.fails(&[&["fault", "slow"][..], args].concat(), 2, expected);
    }
}

#[test]
fn clearing_faults_releases_a_stalled_read() {
    let Some(bench) = Bench::new(&[]) else { return };
    fs::write(bench.path("stall.toml"), "[[fault]]\nkind = 'stall'\nfor_s = 100000\n").unwrap();
    let device = bench.create("held", &["--size", "64M", "--faults", "stall.toml"]);
    let held_and_let_go = || {
        let disk = open_direct(&device);
        let reader = std::thread::spawn(move || read_at(&disk, 0, 4096));
        let in_flight = || bench.stat("held")["in_flight"].as_u64();
        wait_until("the read is held", || in_flight() > Some(0));
        bench.fails(&["snapshot", "held"], 1, "requests are in flight");
        bench.done(&["fault", "held", "clear"]);
        assert_eq!(reader.join().unwrap().unwrap(), [0; 4096]);
    };
    held_and_let_go();
    bench.done(&["fault", "held", "stall", "--for", "1h"]);
    held_and_let_go();
    bench.remove_all();
}

#[test]
fn firmware_is_tuned_and_state_restored() {
    let Some(bench) = Bench::new(&[]) else { return };
    let device = bench.create("tuned", &["--size", "64M"]);
    bench.done(&["set", "tuned", "gc.victim=fifo", "gc.preemptive=true"]);
    bench.fails(&["set", "tuned", "gc.blocks=plane"], 2, "what can: gc.victim, gc.choices");
    bench.fails(&["set", "tuned", "gc.high_watermark=7"], 2, "must be from 0 to 1");
    bench.fails(&["restore", "tuned"], 2, "no snapshot");
    bench.done(&["snapshot", "tuned"]);
    let before = bench.stat("tuned")["mapped_share"].clone();
    let disk = open_direct(&device);
    testdisk::run("blkdiscard", &[&device]);
    wait_until("all is discarded", || bench.stat("tuned")["mapped_share"] == 0.0);
    for _ in 0..2 {
        bench.done(&["restore", "tuned"]);
        let stat = bench.stat("tuned");
        assert_eq!((&stat["mapped_share"], &stat["has_snapshot"]), (&before, &Value::Bool(true)));
        write_at(&disk, 0, &[1; 65536]).unwrap();
        read_at(&disk, 0, 65536).unwrap();
    }
    drop(disk);
    bench.remove_all();
}

#[test]
fn memory_is_capped_and_file_outlives_its_drive() {
    let Some(bench) = Bench::new(&[]) else { return };
    let device = bench.create("capped", &["--size", "64M", "--memory-cap", "1M"]);
    let disk = open_direct(&device);
    write_at(&disk, 0, &[1; 1 << 20]).unwrap();
    let error = write_at(&disk, 32 << 20, &[1; 4096]).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(28), "{error}");
    write_at(&disk, 4096, &[2; 4096]).unwrap();
    assert_eq!(bench.stat("capped")["no_room"], 1);
    let told = bench.done(&["stat", "capped"]);
    assert!(told.contains("1.00 MiB of at most 1.00 MiB"), "{told}");
    assert!(told.contains("1 writes failed with ENOSPC"), "{told}");
    drop(disk);

    for round in 0..2 {
        let args = ["--size", "64M", "--data", "file", "--file", "kept.img"];
        let device = bench.create("kept", &args);
        let disk = open_direct(&device);
        if round == 1 {
            assert_eq!(read_at(&disk, 1 << 20, 8192).unwrap(), [9; 8192]);
        }
        write_at(&disk, 1 << 20, &[9; 8192]).unwrap();
        drop(disk);
        bench.fails(
            &[&["create", "second", "--profile", "small.toml"][..], &args].concat(),
            2,
            "another drive uses it",
        );
        bench.done(&["remove", "kept"]);
    }
    bench.remove_all();
}

#[test]
fn check_measures_and_removes_its_drives() {
    let Some(bench) = Bench::new(&[]) else { return };
    let told = bench.done(&["check", "--duration", "200ms", "--json", "-"]);
    let told: Value = serde_json::from_str(&told).expect("JSON");
    let measurements = told["measurements"].as_array().unwrap();
    // Six depths at a limited rate, and one and three drives at full speed.
    assert_eq!(measurements.len(), 9);
    for one in measurements {
        assert!(one["reads"].as_u64() > Some(10), "{one}");
        assert_eq!(one["added"]["count"], one["reads"], "every read is known to the server");
    }
    assert!(bench.traces().is_empty(), "{:?}", bench.traces());
}

/// A server that does not respond, for any reason, does not block commands.
#[test]
fn stopped_server_is_reported_and_can_be_removed() {
    let Some(bench) = Bench::new(&[]) else { return };
    bench.create("still", &["--size", "64M"]);
    let pid = pid_of(&bench, "still");
    kill_process(pid, Signal::STOP).unwrap();
    wait_until("it is stopped", || bench.done(&["list"]).contains("stopped"));
    let begun = Instant::now();
    let expected = format!("does not answer (its process {} is stopped)", pid.as_raw_nonzero());
    let commands: [&[&str]; 6] = [
        &["stat", "still"],
        &["stat", "still", "--watch"],
        &["set", "still", "lead_us=0"],
        &["fault", "still", "clear"],
        &["snapshot", "still"],
        &["remove", "still"],
    ];
    for command in commands {
        bench.fails(command, 1, &expected);
    }
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    bench.fails(&["create", "still", "--size", "4G"], 2, "the drive already exists");
    kill_process(pid, Signal::CONT).unwrap();
    wait_until("it goes on", || bench.done(&["list"]).contains("running"));
    bench.stat("still");
    kill_process(pid, Signal::STOP).unwrap();
    bench.done(&["remove", "--force", "still"]);
    assert!(bench.traces().is_empty(), "{:?}", bench.traces());
    bench.create("still", &["--size", "64M"]);
    bench.remove_all();
}

/// Files that a user may not access must not be reported as absent.
#[test]
fn every_verb_reports_that_it_needs_root() {
    const NOBODY: u32 = 65_534;
    let Some(bench) = Bench::new(&[]) else { return };
    let as_nobody = |args: &[&str]| {
        let mut command = bench.command(args);
        // The working directory must not cause the failure.
        command.current_dir("/").uid(NOBODY).gid(NOBODY).output()
    };
    if as_nobody(&["--help"]).is_err() {
        return testdisk::skip(testdisk::Feature::Others, "others cannot reach the program's file");
    }
    bench.create("mine", &["--size", "64M"]);
    let commands: [&[&str]; 9] = [
        &["create", "another", "--size", "4G"],
        &["list"],
        &["stat", "mine"],
        &["set", "mine", "lead_us=0"],
        &["fault", "mine", "clear"],
        &["snapshot", "mine"],
        &["restore", "mine"],
        &["remove", "--force", "mine"],
        &["check"],
    ];
    for command in commands {
        let output = as_nobody(command).unwrap();
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{command:?}: {said}");
        assert!(said.contains("need root") && said.trim_end().lines().count() == 1, "{said}");
    }
    bench.remove_all();
}

#[test]
fn missing_root_is_reported() {
    if !rustix::process::geteuid().is_root() {
        let args = ["drive", "create", "mine", "--size", "4G"];
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_trimtab")).args(args).output();
        let output = output.expect("trimtab runs");
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains("need root"), "{}", stderr(&output));
    }
}
