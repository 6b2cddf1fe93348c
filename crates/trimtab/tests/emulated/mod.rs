//! Emulated drives for tests, and tools to test them. Each test file uses a part of this.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use trimtab_testdisk::{self as testdisk, Feature};

/// The features of a machine that emulated drives need.
pub(crate) const NEEDED: &[Feature] = &[Feature::Root, Feature::Fuse, Feature::Loop];

/// A fast drive that can be as small as 64 MiB: tests are of content and commands. Blocks of
/// 128 KiB cause much garbage collection.
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

/// The directory of a test's drives and files; removed with them when dropped.
pub(crate) struct Bench {
    directory: tempfile::TempDir,
}

impl Bench {
    /// `None`, with a note, if the machine lacks something.
    pub(crate) fn new(programs: &[&'static str]) -> Option<Self> {
        let programs: Vec<_> = programs.iter().map(|&name| Feature::Program(name)).collect();
        if !testdisk::requires(&[NEEDED, &programs].concat()) {
            return None;
        }
        let directory = tempfile::tempdir().expect("a temporary directory");
        fs::write(directory.path().join("small.toml"), SMALL).unwrap();
        Some(Self { directory })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A command of trimtab, with this test's run directory.
    pub(crate) fn trimtab(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_trimtab"));
        command.env("TRIMTAB_RUN", self.directory.path()).current_dir(&self.directory);
        command.args(args).stdin(Stdio::null());
        command
    }

    /// The same of `trimtab drive`.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        self.trimtab(&[&["drive"], args].concat())
    }

    pub(crate) fn drive(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("trimtab runs")
    }

    /// The same; it must succeed. Returns its output.
    pub(crate) fn done(&self, args: &[&str]) -> String {
        let output = self.drive(args);
        assert!(output.status.success(), "{args:?}: {}", stderr(&output));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Expects failure with this code and one line with this text.
    pub(crate) fn fails(&self, args: &[&str], code: i32, expected: &str) {
        let output = self.drive(args);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        assert!(said.contains(expected), "{args:?}: {said}");
        assert_eq!(said.trim_end().lines().count(), 1, "{args:?}: {said}");
    }

    /// Makes a drive like [`SMALL`], and returns its device.
    pub(crate) fn create(&self, name: &str, args: &[&str]) -> String {
        let backend = backend();
        let over = over(args, &backend);
        self.done(&[&["create", name, "--profile", "small.toml"], args, &over].concat())
    }

    pub(crate) fn stat(&self, name: &str) -> Value {
        serde_json::from_str(&self.done(&["stat", name, "--json"])).expect("JSON")
    }

    /// The traces of drives in the machine.
    pub(crate) fn traces(&self) -> Vec<String> {
        let here = self.directory.path().to_str().unwrap();
        // Mounts of this thread: a test may have a mount namespace.
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
        // Also after a failed test.
        _ = self.drive(&["remove", "--all", "--force"]);
    }
}

/// The back end of devices of tests that are about none: what they expect of a killed server is that
/// requests fail, so that it is FUSE, unless `TRIMTAB_BACKEND` names another.
pub(crate) fn backend() -> String {
    std::env::var("TRIMTAB_BACKEND").unwrap_or_else(|_| "fuse".to_owned())
}

/// The option for it, unless the arguments have it.
pub(crate) fn over<'a>(args: &[&str], backend: &'a str) -> Vec<&'a str> {
    if args.contains(&"--backend") { Vec::new() } else { vec!["--backend", backend] }
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

    /// A child that another thread has just forked has its open files too, until it runs its program.
    pub(crate) fn unmount(self) {
        wait_until("end of use", || {
            let done = Command::new("umount").arg(&self.0).output().expect("umount runs");
            let said = stderr(&done);
            assert!(done.status.success() || said.contains("busy"), "{said}");
            done.status.success()
        });
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

/// Waits up to a minute for a condition that is expected soon.
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}: not within a minute");
        std::thread::sleep(Duration::from_millis(5));
    }
}
