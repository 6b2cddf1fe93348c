//! The whole of it, briefly; and that nothing is left, however it ends.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use trimtab_testdisk::{Feature, REAL_DISKS, requires};

/// The program, with a place of its own for what its drives leave.
struct Place(TempDir);

impl Place {
    fn new() -> Option<Self> {
        let more = [Feature::Fuse, Feature::Program("mkfs.ext4")];
        if !requires(&[REAL_DISKS, &more].concat()) {
            return None;
        }
        Some(Self(tempfile::tempdir().unwrap()))
    }

    fn json(&self) -> PathBuf {
        self.0.path().join("out.json")
    }

    fn start(&self) -> Child {
        Command::new(env!("CARGO_BIN_EXE_replicated-kv"))
            .args(["--seconds", "3", "--learn-seconds", "8", "--records", "8000", "--json"])
            .arg(self.json())
            .env("TRIMTAB_RUN", self.0.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// Starts it, and waits until it says that it does this.
    fn start_until(&self, what: &str) -> Child {
        let mut child = self.start();
        let mut said = BufReader::new(child.stderr.as_mut().unwrap()).lines();
        assert!(said.any(|line| line.unwrap().contains(what)), "it never said {what:?}");
        child
    }

    /// Nothing is there any more of drives; they may take a moment to go.
    fn is_left_clean(&self) {
        let drives = self.0.path().join("drives");
        let left = || fs::read_dir(&drives).map_or(0, Iterator::count);
        let until = Instant::now() + Duration::from_secs(60);
        while left() > 0 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(50));
        }
        assert_eq!(left(), 0, "a drive is left");
        let loops = Command::new("losetup").arg("--all").output().unwrap();
        let loops = String::from_utf8(loops.stdout).unwrap();
        assert!(!loops.contains(self.0.path().to_str().unwrap()), "{loops}");
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        assert!(!mounts.contains(self.0.path().to_str().unwrap()), "{mounts}");
    }
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

#[test]
fn values_are_right_in_every_way_and_nothing_is_left() {
    let Some(place) = Place::new() else { return };
    let output = place.start().wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let told: serde_json::Value = serde_json::from_slice(&fs::read(place.json()).unwrap()).unwrap();
    let strategies = told["strategies"].as_array().unwrap();
    let names: Vec<_> = strategies.iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["base", "replica set, no models", "replica set"]);
    for (row, name) in strategies.iter().zip(names) {
        let number = |pointer: &str| row.pointer(pointer).unwrap().as_u64().unwrap();
        assert_eq!((number("/wrong_values"), number("/failed")), (0, 0), "{row}");
        assert!(number("/reads/count") > 100 && number("/writes/count") > 0, "{row}");
        assert!(number("/noise_bytes") > 0, "{row}");
        let pages = number("/pages/reads");
        assert_eq!(pages > 0, name != "base", "{row}");
        let served: u64 = (0..3).map(|n| number(&format!("/pages/served_by/{n}"))).sum();
        assert_eq!((served, number("/pages/errors")), (pages, 0), "{row}");
        if name == "replica set, no models" {
            // Where a control group makes no forecast, none is missing.
            assert!(number("/pages/without_model") > 0, "{row}");
        }
    }
    place.is_left_clean();
}

#[test]
fn ctrl_c_ends_it_and_nothing_is_left() {
    let Some(place) = Place::new() else { return };
    let mut child = place.start_until("recording");
    signal(&child, Signal::INT);
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert!(!place.json().exists());
    place.is_left_clean();
}

#[test]
fn killed_it_leaves_nothing() {
    let Some(place) = Place::new() else { return };
    let mut child = place.start_until("filling");
    signal(&child, Signal::KILL);
    child.wait().unwrap();
    place.is_left_clean();
}

#[test]
fn what_cannot_be_is_told_before_anything_is_made() {
    let run = |args: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_replicated-kv")).args(args).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, said) = run(&["--records", "2000000"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("--drive-mib") && said.lines().count() == 1, "{said}");
    assert_eq!(run(&["--profile", "no-such-drive"]).0, Some(2));
    assert_eq!(run(&["--seconds", "0"]).0, Some(2));
    assert_eq!(run(&["--json", "/no/such/directory/out.json"]).0, Some(1));
}
