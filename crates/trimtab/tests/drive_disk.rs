//! Emulated disks: timing, commands, and the measurement of one by `trimtab profile fit --device`.

mod emulated;

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::process::{Command, Output, Stdio};
use std::time::Instant;

use emulated::{Bench, Mounted, stderr, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use trimtab_device::DiskProfile;
use trimtab_io::Nanos;
use trimtab_sim::mean_forecast_error;
use trimtab_testdisk as testdisk;

const O_DIRECT: i32 = 0o40000;

fn create(bench: &Bench, name: &str, args: &[&str]) -> String {
    bench.done(&[&["create", name, "--profile", "disk-7200", "--size", "16G"], args].concat())
}

fn read_at(file: &File, offset: u64) -> Nanos {
    let mut buffer = testdisk::aligned(4096);
    let begun = Instant::now();
    file.read_exact_at(testdisk::window(&mut buffer, 4096), offset).unwrap();
    Nanos(begun.elapsed().as_nanos() as u64)
}

#[test]
fn disk_turns_seeks_and_keeps_content() {
    let Some(bench) = Bench::new(&[]) else { return };
    let device = create(&bench, "one", &[]);
    let name = device.strip_prefix("/dev/").unwrap();
    let rotational = fs::read_to_string(format!("/sys/block/{name}/queue/rotational")).unwrap();
    assert_eq!(rotational.trim(), "1");
    let mut options = OpenOptions::new();
    let disk = options.read(true).write(true).custom_flags(O_DIRECT).open(&device).unwrap();
    // Reads from end to end take a seek each, whatever the angle: far more than flash.
    let far = (0..20).map(|i| read_at(&disk, (i % 2) * (15 << 30) + (i << 20))).skip(1);
    let least = far.min().unwrap();
    assert!(least > Nanos::from_millis(5), "{least}");
    // A read that follows one is in the buffer: no arm moves.
    let before = bench.stat("one");
    read_at(&disk, 9 << 30);
    read_at(&disk, (9 << 30) + 4096);
    let stat = bench.stat("one");
    let more =
        |key: &str| stat["disk"][key].as_u64().unwrap() - before["disk"][key].as_u64().unwrap();
    assert!(more("misses") >= 1 && more("hits") >= 1, "{stat}");
    assert!(stat.get("write_amplification").is_none(), "{stat}");
    assert!(stat["disk"]["rotating_share"].as_f64() > Some(0.0), "{stat}");
    let shown = bench.done(&["stat", "one"]);
    assert!(shown.contains("waits for a sector") && !shown.contains("write amplification"));

    let mut buffer = testdisk::aligned(4096);
    let window = testdisk::window(&mut buffer, 4096);
    window.fill(7);
    disk.write_all_at(window, 3 << 30).unwrap();
    disk.sync_all().unwrap();
    window.fill(0);
    disk.read_exact_at(window, 3 << 30).unwrap();
    assert!(window.iter().all(|&byte| byte == 7));
    drop(disk);

    bench.done(&["snapshot", "one"]);
    bench.done(&["restore", "one"]);
    bench.done(&["set", "one", "queue.order=sstf", "queue.depth=4", "lead_us=5"]);
    bench.fails(&["set", "one", "gc.preemptive=true"], 2, "what can: queue.order, queue.depth");
    bench.remove_all();
}

#[test]
fn options_that_only_flash_has_are_refused() {
    let Some(bench) = Bench::new(&[]) else { return };
    for option in [["--fill", "0.5"], ["--overwrites", "1"]] {
        let args = [&["create", "no", "--profile", "disk-7200"], &option[..]].concat();
        bench.fails(&args, 2, "a disk, which has no flash to fill or age");
    }
    assert!(bench.traces().is_empty());
}

fn fit(bench: &Bench, args: &[&str]) -> Command {
    bench.trimtab(&[&["profile", "fit"], args].concat())
}

fn refused(output: &Output, code: i32, expected: &str) {
    let said = stderr(output);
    assert_eq!(output.status.code(), Some(code), "{said}");
    assert!(said.contains(expected) && said.trim_end().lines().count() == 1, "{said}");
}

/// Measures an emulated disk, interrupted once, and compares the profile with the truth.
#[test]
fn measured_profile_is_near_the_truth_also_after_an_interruption() {
    let Some(bench) = Bench::new(&[]) else { return };
    let device = create(&bench, "measured", &["--data", "none"]);
    let out = bench.path("found.toml");
    let state = bench.path("found.toml.unfinished");
    let args = ["--device", &device, "-o", "found.toml"];
    // A goal that takes some ten seconds. The speed is given: a busy machine may hide it.
    let begin = [&args[..], &["--within", "2ms", "--rpm", "7200"]].concat();
    let running = fit(&bench, &begin).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("saved state", || state.exists());
    kill_process(Pid::from_child(&running), Signal::INT).unwrap();
    refused(&running.wait_with_output().unwrap(), 3, "continue with --resume");
    assert!(state.exists() && !out.exists());
    refused(&fit(&bench, &begin).output().unwrap(), 2, "continue it with --resume");

    let done = fit(&bench, &[&args[..], &["--resume", "--json"]].concat()).output().unwrap();
    assert!(done.status.success(), "{}", stderr(&done));
    assert!(!state.exists());
    let report: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(report["rpm"], 7200.0, "{report}");
    let truth = DiskProfile::builtin("disk-7200").unwrap().with_capacity(16 << 30).unwrap();
    let found = DiskProfile::parse(&fs::read_to_string(&out).unwrap()).unwrap();
    let error = mean_forecast_error(&truth, &found, 1);
    testdisk::note(&format!("off by {error} in the mean: {report}"));
    // The goal bounds the error; the rest is what a busy machine adds.
    assert!(error < Nanos::from_millis(2), "{error}: {report}");
    bench.remove_all();
}

#[test]
fn disk_that_vanishes_ends_the_measurement_and_loses_nothing_of_it() {
    let Some(bench) = Bench::new(&[]) else { return };
    let device = create(&bench, "mortal", &["--data", "none"]);
    let state = bench.path("found.toml.unfinished");
    let args = ["--device", &device, "-o", "found.toml", "--rpm", "7200"];
    let running = fit(&bench, &args).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("saved state", || state.exists());
    let drives: Value = serde_json::from_str(&bench.done(&["list", "--json"])).unwrap();
    let server = Pid::from_raw(drives[0]["pid"].as_i64().unwrap() as i32).unwrap();
    kill_process(server, Signal::KILL).unwrap();
    refused(&running.wait_with_output().unwrap(), 1, "cannot read 4096 bytes at ");
    assert!(state.exists() && !bench.path("found.toml").exists());
    bench.remove_all();
}

#[test]
fn devices_that_cannot_be_measured_are_refused() {
    let Some(bench) = Bench::new(&["mkfs.ext4"]) else { return };
    let flash = bench.create("flash", &["--size", "2G", "--fill", "0"]);
    let output = fit(&bench, &["--device", &flash, "-o", "x.toml"]).output().unwrap();
    refused(&output, 2, "reports no platters");
    let small = bench.create("small", &["--size", "64M", "--fill", "0"]);
    let output = fit(&bench, &["--device", &small, "-o", "x.toml"]).output().unwrap();
    refused(&output, 2, "disks of 1 GiB or more");
    testdisk::run("mkfs.ext4", &["-q", &small]);
    let mounted = Mounted::new(&small, bench.path("mounted"));
    let output = fit(&bench, &["--device", &small, "-o", "x.toml"]).output().unwrap();
    refused(&output, 2, "is in use");
    mounted.unmount();
    let output = fit(&bench, &["--device", "/dev/null", "-o", "x.toml"]).output().unwrap();
    refused(&output, 2, "no block device");
    let args = ["--device", &flash, "-o", "x.toml", "--resume", "--force"];
    let output = fit(&bench, &args).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("nothing to resume"), "{}", stderr(&output));
    bench.remove_all();
}
