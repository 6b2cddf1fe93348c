//! `trimtab watch`, as a user runs it.

mod drive;
mod place;
mod privileges;

use std::process::{Command, Output, Stdio};

use drive::recording;
use place::Place;
use trimtab_testdisk::{self as disk, LoopDisk};

fn watch(args: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_trimtab");
    Command::new(program).arg("watch").args(args).output().expect("trimtab runs")
}

#[test]
fn shows_the_tracked_state() {
    if !disk::requires(disk::REAL_DISKS) {
        return;
    }
    let disk = LoopDisk::new(16);
    let shown = watch(&[&disk.path, "--count", "2", "--interval", "20ms", "--json"]);
    assert!(shown.status.success(), "{}", String::from_utf8_lossy(&shown.stderr));
    let text = String::from_utf8(shown.stdout).unwrap();
    let objects: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(objects.len(), 2);
    assert_eq!(objects[0]["device"], disk.name());
    assert_eq!(objects[1]["requests"], 0);

    let shown = watch(&[&disk.path, "--count", "1", "--interval", "20ms"]);
    let text = String::from_utf8(shown.stdout).unwrap();
    assert!(text.lines().nth(1).is_some_and(|line| line.starts_with(disk.name())), "{text}");
}

#[test]
fn as_root_it_keeps_only_bpf_capabilities() {
    if !disk::requires(disk::REAL_DISKS) {
        return;
    }
    let disk = LoopDisk::new(16);
    let args = ["watch", &disk.path, "--json", "--interval", "50ms"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_trimtab"));
    let mut child = command.args(args).stdout(Stdio::null()).spawn().unwrap();
    let pid = child.id();
    let kept = privileges::set("CAP_BPF CAP_PERFMON");
    let checked = std::panic::catch_unwind(|| privileges::assert_comes_to(pid, kept));
    child.kill().and_then(|()| child.wait()).unwrap();
    checked.unwrap();
}

/// A model of this predictor.
fn train(place: &Place, predictor: &str) -> String {
    let out = format!("{predictor}.safetensors");
    let args = ["train", "--trace", "a.csv", "--predictor", predictor, "-o", &out];
    let output = place.command(&args).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    place.path(&out).to_str().unwrap().to_owned()
}

#[test]
fn kernel_decides_on_request() {
    if !disk::requires(disk::REAL_DISKS) {
        return;
    }
    let place = Place::new(&[("a.csv", &recording(3000, 1, false))]);
    let disk = LoopDisk::new(16);
    let once = ["--count", "1", "--interval", "20ms", "--in-kernel", "--json", "--model"];
    let with = |model: &str| watch(&[&[disk.path.as_str()], &once[..], &[model]].concat());

    let shown = with(&train(&place, "linnos"));
    assert!(shown.status.success(), "{}", String::from_utf8_lossy(&shown.stderr));
    let shown: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
    // For an idle drive, user space makes the same decision.
    let small = if shown["refused"][0] == 0 { "fast" } else { "late" };
    assert_eq!(shown["in_kernel"][0], small, "{shown}");

    let refused = with(&train(&place, "heur-sim"));
    assert_eq!(refused.status.code(), Some(2));
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(said.contains("this is of `heur-sim`"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn pins_outside_a_bpf_file_system_leave_no_directory() {
    if !disk::requires(disk::REAL_DISKS) {
        return;
    }
    let (place, disk) = (Place::new(&[]), LoopDisk::new(16));
    let pins = place.path("made/pins");
    let shown = watch(&[&disk.path, "--count", "1", "--pin", pins.to_str().unwrap()]);
    let said = String::from_utf8(shown.stderr).unwrap();
    assert_eq!(shown.status.code(), Some(1), "{said}");
    assert!(said.contains("must be on a BPF file system"), "{said}");
    assert!(!place.path("made").exists());
}

#[test]
fn errors_are_one_line() {
    let shown = watch(&["nosuchdisk"]);
    assert_eq!(shown.status.code(), Some(2));
    let said = String::from_utf8(shown.stderr).unwrap();
    assert!(said.starts_with("trimtab: error: nosuchdisk: no such device"), "{said}");
    assert_eq!(said.lines().count(), 1);
}
