//! `trimtab record`, as a user runs it.

mod privileges;

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use trimtab_testdisk::{self as testdisk, LoopDisk};

fn trimtab(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_trimtab")).args(args).output().expect("trimtab runs")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A process that is killed when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// A disk to record, or a note on why there is none.
fn disk() -> Option<LoopDisk> {
    if !testdisk::requires(testdisk::REAL_DISKS) {
        return None;
    }
    Some(LoopDisk::new(64))
}

/// 0, or 3 if the kernel hid completions (docs/measurements/recording.md, "Blind spots").
fn assert_recorded(output: &Output) {
    let code = output.status.code();
    assert!(
        code == Some(0)
            || code == Some(3) && stderr(output).contains(" completions that no BPF program"),
        "{code:?}: {}",
        stderr(output)
    );
}

/// Only the privileges that recording needs are kept; the recorded command has all of them,
/// and the trace is renamed where only root may write.
#[test]
fn unneeded_privileges_are_given_up() {
    let Some(disk) = disk() else { return };
    let place = tempfile::tempdir().unwrap();
    let (nobody, trace) = (Some(65534), place.path().join("trace.parquet"));
    chown(place.path(), nobody, nobody).unwrap();
    fs::set_permissions(place.path(), Permissions::from_mode(0o700)).unwrap();
    let mine = fs::read_to_string("/proc/self/status").unwrap();
    let effective = mine.lines().find(|line| line.starts_with("CapEff")).unwrap();
    // It ends when the file is removed.
    let held = place.path().join("held");
    fs::write(&held, "").unwrap();
    let held = held.display();
    let command = format!(
        "grep -q '{effective}' /proc/self/status || exit 9; while [ -e {held} ]; do sleep 0.05; done"
    );
    let program = env!("CARGO_BIN_EXE_trimtab");
    let args = ["record", &disk.path, "-o", trace.to_str().unwrap(), "--", "sh", "-c", &command];
    let mut command = Command::new(program);
    let mut recording = Running(command.args(args).stdout(Stdio::null()).spawn().unwrap());
    let kept = "CAP_BPF CAP_PERFMON CAP_DAC_OVERRIDE CAP_FOWNER CAP_KILL";
    privileges::assert_comes_to(recording.0.id(), privileges::set(kept));
    fs::remove_file(place.path().join("held")).unwrap();
    assert!(recording.0.wait().unwrap().success());
    assert!(trace.exists());
}

#[test]
fn records_during_a_command_and_prints_a_summary() {
    let Some(disk) = disk() else { return };
    let trace = disk.beside("trace.parquet");
    let load = format!("dd if={} of=/dev/null bs=4k count=500 iflag=direct status=none", disk.path);
    let recorded = trimtab(&[
        "record",
        &disk.path,
        "--out",
        &trace,
        "--json",
        "--overhead",
        "--",
        "sh",
        "-c",
        &load,
    ]);
    assert_recorded(&recorded);
    let json: Value = serde_json::from_slice(&recorded.stdout).expect("JSON");
    assert_eq!(json["records"], 500);
    assert!(json["overhead"]["ns_per_request"].as_f64().is_some_and(|ns| ns > 0.0));

    let info = trimtab(&["trace", "info", "--json", &trace]);
    assert!(info.status.success(), "{}", stderr(&info));
    let info: Value = serde_json::from_slice(&info.stdout).expect("JSON");
    assert_eq!(info[0]["format"], "parquet");
    assert_eq!(info[0]["requests"], 500);
}

#[test]
fn duration_and_signal_end_it() {
    let Some(disk) = disk() else { return };
    let trace = disk.beside("trace.parquet");
    let begun = Instant::now();
    let recorded = trimtab(&["record", &disk.path, "-o", &trace, "--duration", "300ms"]);
    assert_recorded(&recorded);
    assert!(begun.elapsed() >= Duration::from_millis(300));
    assert!(fs::exists(&trace).unwrap());

    for (name, signal) in [("INT", Signal::INT), ("TERM", Signal::TERM)] {
        let trace = disk.beside(name);
        let child = Command::new(env!("CARGO_BIN_EXE_trimtab"))
            .args(["record", &disk.path, "--out", &trace])
            .stdout(std::process::Stdio::null())
            .spawn()
            .expect("trimtab runs");
        let mut child = Running(child);
        std::thread::sleep(Duration::from_millis(1500));
        kill_process(Pid::from_child(&child.0), signal).unwrap();
        assert!(child.0.wait().unwrap().success());
        assert!(fs::exists(&trace).unwrap());
    }
}

#[test]
fn failed_command_keeps_the_recording() {
    let Some(disk) = disk() else { return };
    let trace = disk.beside("trace.parquet");
    let recorded = trimtab(&["record", &disk.path, "--out", &trace, "--", "sh", "-c", "exit 7"]);
    assert_eq!(recorded.status.code(), Some(1));
    assert!(stderr(&recorded).contains("sh exited with 7"), "{}", stderr(&recorded));
    assert!(fs::exists(&trace).unwrap());
}

#[test]
fn invalid_input_is_reported_in_one_line() {
    let Some(disk) = disk() else { return };
    let trace = disk.beside("trace.parquet");
    let cases: [(&[&str], i32, &str); 6] = [
        (&["record", "nosuchdisk"], 2, "nosuchdisk: no such device"),
        (&["record", "/dev/null"], 2, "is no block device"),
        (&["record", &disk.path, &disk.path, "-o", &trace], 2, "is named twice"),
        (&["record", &disk.path, "-o", &trace, "--", "nosuchcommand"], 2, "no such command"),
        (
            &["record", &disk.path, "-o", "/nonexistent/x.parquet"],
            1,
            "/nonexistent/x.parquet: cannot write",
        ),
        (
            &["record", &disk.path, "-o", "/dev/full", "--duration", "10ms"],
            1,
            "/dev/full: cannot write",
        ),
    ];
    for (args, code, what) in cases {
        let output = trimtab(args);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        assert!(said.contains(what) && said.lines().count() == 1, "{args:?}: {said}");
    }
    assert!(!fs::exists(&trace).unwrap());
}

#[test]
fn missing_privileges_are_reported() {
    let Some(disk) = disk() else { return };
    if !testdisk::requires(&[testdisk::Feature::Program("setpriv")]) {
        return;
    }
    // The test runs as root: the command runs without that.
    let output = Command::new("setpriv")
        .args(["--reuid=65534", "--clear-groups", "--inh-caps=-all", env!("CARGO_BIN_EXE_trimtab")])
        .args(["record", &disk.path, "--duration", "10ms", "-o", "/dev/null"])
        .output();
    let output = output.expect("setpriv runs");
    // In a build directory that only root may enter, the program is not found.
    if output.status.code() == Some(127) || output.status.code() == Some(126) {
        let why = concat!("others may not run ", env!("CARGO_BIN_EXE_trimtab"));
        return testdisk::skip(testdisk::Feature::Others, why);
    }
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("CAP_BPF"), "{}", stderr(&output));
}
