//! Emulated drives for tests, and what they are tested with. Each test file uses a
//! part of it.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use trimtab_testdisk as testdisk;

/// A drive that can be 64 MiB small, and is fast: tests are of content and commands.
/// Blocks of 128 KiB, so that there is much to clean.
pub(crate) const SMALL: &str = r#"
name = "small"
[geometry]
channels = 2
chips_per_channel = 2
blocks_per_plane = 256
pages_per_block = 32
page_bytes = 4096
over_provisioning = 0.15
[timing]
read_us = 20
program_us = 60
erase_us = 200
channel_mb_s = 800
[buffer]
size_mb = 1
flush_watermark = 0.5
"#;

/// Where drives of one test are, and what else it needs; all gone with it.
pub(crate) struct Bench {
    directory: tempfile::TempDir,
}

impl Bench {
    /// None, and a word on why, where the machine lacks something.
    pub(crate) fn new(programs: &[&str]) -> Option<Self> {
        if let Some(why) = missing(programs) {
            testdisk::note(&format!("skipped a test of emulated drives: {why}"));
            return None;
        }
        let directory = tempfile::tempdir().expect("a temporary directory");
        fs::write(directory.path().join("small.toml"), SMALL).unwrap();
        Some(Self { directory })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The command, with drives that are this test's own.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_trimtab"));
        command.env("TRIMTAB_RUN", self.directory.path()).current_dir(&self.directory);
        command.arg("drive").args(args).stdin(Stdio::null());
        command
    }

    pub(crate) fn drive(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("trimtab runs")
    }

    /// The same, which must succeed; gives what it printed.
    pub(crate) fn done(&self, args: &[&str]) -> String {
        let output = self.drive(args);
        assert!(output.status.success(), "{args:?}: {}", stderr(&output));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// One that must fail so, with one line.
    pub(crate) fn fails(&self, args: &[&str], code: i32, expected: &str) {
        let output = self.drive(args);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        assert!(said.contains(expected), "{args:?}: {said}");
        assert_eq!(said.trim_end().lines().count(), 1, "{args:?}: {said}");
    }

    /// Makes a drive like [`SMALL`], and gives its device.
    pub(crate) fn create(&self, name: &str, args: &[&str]) -> String {
        self.done(&[&["create", name, "--profile", "small.toml"], args].concat())
    }

    pub(crate) fn stat(&self, name: &str) -> Value {
        serde_json::from_str(&self.done(&["stat", name, "--json"])).expect("JSON")
    }

    /// What is to be found of a drive in the machine.
    pub(crate) fn traces(&self) -> Vec<String> {
        let here = self.directory.path().to_str().unwrap();
        // Of this thread: a test may have mounts of its own.
        let mounts = fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
        let mut found: Vec<_> =
            mounts.lines().filter(|line| line.contains(here)).map(str::to_owned).collect();
        for device in fs::read_dir("/sys/block").unwrap().flatten() {
            let backing = fs::read_to_string(device.path().join("loop/backing_file"));
            found.extend(backing.into_iter().filter(|file| file.contains(here)));
        }
        if let Ok(drives) = fs::read_dir(self.path("drives")) {
            found.extend(drives.flatten().map(|entry| entry.path().display().to_string()));
        }
        found
    }

    pub(crate) fn remove_all(&self) {
        self.done(&["remove", "--all"]);
        assert!(self.traces().is_empty(), "{:?}", self.traces());
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        // Also where a test has failed.
        _ = self.drive(&["remove", "--all", "--force"]);
    }
}

/// A mounted file system, unmounted when dropped.
pub(crate) struct Mounted(pub(crate) PathBuf);

impl Mounted {
    pub(crate) fn new(device: &str, at: PathBuf) -> Self {
        fs::create_dir_all(&at).unwrap();
        testdisk::run("mount", &[device, at.to_str().unwrap()]);
        Self(at)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn unmount(self) {
        testdisk::run("umount", &[self.0.to_str().unwrap()]);
        std::mem::forget(self);
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        _ = Command::new("umount").arg("-l").arg(&self.0).stderr(Stdio::null()).status();
    }
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Waits for something that comes soon, and for long before giving up.
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}: not within a minute");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) fn missing(programs: &[&str]) -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("needs root".to_owned());
    }
    for device in ["/dev/fuse", "/dev/loop-control"] {
        if !Path::new(device).exists() {
            return Some(format!("needs {device}"));
        }
    }
    let is_there = |program: &str| {
        let paths = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&paths).any(|path| path.join(program).exists())
    };
    let program = programs.iter().find(|program| !is_there(program))?;
    Some(format!("needs the program {program}"))
}
