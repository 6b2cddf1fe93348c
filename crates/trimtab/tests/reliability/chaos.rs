//! Drives, the tracker of their state, and injected events.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use trimtab_predict::Model;
use trimtab_read::{ReadOptions, Source};

use crate::emulated::{Bench, wait_until};
use crate::store::{DRIVES, Open, Store};

const NAMES: [&str; DRIVES] = ["a", "b", "c"];

/// An event to inject.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    Stall,
    Slow,
    Errors,
    KillDrive,
    KillTracker,
    EndTracker,
}

/// In this order, each for the next drive.
pub(crate) const EVENTS: [Event; 6] = [
    Event::Stall,
    Event::KillTracker,
    Event::Errors,
    Event::KillDrive,
    Event::Slow,
    Event::EndTracker,
];

/// The drives, and the process that tracks their state.
pub(crate) struct World<'a> {
    bench: &'a Bench,
    devices: Vec<String>,
    tracker: Option<Child>,
    options: ReadOptions,
    model: PathBuf,
    pins: PathBuf,
}

impl<'a> World<'a> {
    /// `files` is a BPF file system.
    pub(crate) fn new(bench: &'a Bench, files: &Path, model: Model, path: PathBuf) -> Self {
        let pins = files.join("trimtab");
        let options = ReadOptions {
            source: Source::Pinned(pins.clone()),
            direct: true,
            publish: None,
            ..ReadOptions::with_model(model)
        };
        let devices = NAMES.iter().map(|name| create(bench, name)).collect();
        let mut world = Self { bench, devices, tracker: None, options, model: path, pins };
        world.begin_tracker();
        world
    }

    pub(crate) fn open(&self, drive: usize) -> Open {
        Open::new(&self.devices[drive], &self.options)
    }

    fn begin_tracker(&mut self) {
        let pin = self.pins.join("devices");
        let inode = || fs::metadata(&pin).ok().map(|pin| pin.ino());
        let before = inode();
        let mut command = Command::new(env!("CARGO_BIN_EXE_trimtab"));
        command.arg("watch").args(&self.devices).arg("--json");
        command.arg("--model").arg(&self.model).arg("--pin").arg(&self.pins);
        let tracker = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        self.tracker = Some(tracker);
        // A killed tracker has left its pin.
        wait_until("the state is pinned", || inode().is_some_and(|now| Some(now) != before));
    }

    fn end_tracker(&mut self, signal: Signal) {
        let Some(mut tracker) = self.tracker.take() else { return };
        kill_process(pid(tracker.id()), signal).unwrap();
        let status = tracker.wait().unwrap();
        if signal == Signal::TERM {
            assert!(status.success() && !self.pins.exists(), "{status}");
        }
    }

    /// Injects an event into a drive, and undoes it. The other drives work meanwhile.
    pub(crate) fn happen(&mut self, event: Event, drive: usize, store: &Store) {
        let fault = |args: &[&str]| {
            self.bench.done(&[&["fault", NAMES[drive]], args].concat());
        };
        match event {
            Event::Stall => fault(&["stall", "--for", "300ms"]),
            Event::Slow => fault(&["slow", "--factor", "30", "--for", "500ms"]),
            Event::Errors => fault(&["error", "--share", "0.2", "--for", "500ms"]),
            Event::KillDrive => self.kill_drive(drive, store),
            Event::KillTracker => {
                self.end_tracker(Signal::KILL);
                thread::sleep(Duration::from_millis(200));
                // The next tracker replaces the abandoned pin.
                self.begin_tracker();
            }
            Event::EndTracker => {
                self.end_tracker(Signal::TERM);
                self.begin_tracker();
            }
        }
        thread::sleep(Duration::from_millis(600));
    }

    fn kill_drive(&mut self, drive: usize, store: &Store) {
        let name = NAMES[drive];
        kill_process(pid(self.server(drive)), Signal::KILL).unwrap();
        thread::sleep(Duration::from_millis(100));
        store.swap(drive, None);
        // Its tracker must switch to another device too.
        self.end_tracker(Signal::TERM);
        wait_until("it is dead", || self.bench.done(&["list"]).contains("killed: remove it"));
        self.bench.done(&["remove", name]);
        self.devices[drive] = create(self.bench, name);
        self.begin_tracker();
        store.swap(drive, Some(self.open(drive)));
    }

    fn server(&self, drive: usize) -> u32 {
        let all = self.bench.done(&["list", "--json"]);
        let all: serde_json::Value = serde_json::from_str(&all).unwrap();
        let found = all.as_array().unwrap().iter().find(|one| one["name"] == NAMES[drive]);
        found.unwrap()["pid"].as_u64().unwrap() as u32
    }

    /// Requests that live drives have failed because of a fault.
    pub(crate) fn errors(&self) -> u64 {
        let of = |name: &str| {
            let stat = self.bench.stat(name);
            ["reads", "writes"].iter().filter_map(|op| stat[op]["errors"].as_u64()).sum::<u64>()
        };
        NAMES.iter().map(|name| of(name)).sum()
    }

    /// Resident memory of all processes, bytes.
    pub(crate) fn memory(&self) -> Vec<(u32, u64)> {
        let drives = (0..DRIVES).map(|drive| self.server(drive));
        let all = drives.chain(self.tracker.as_ref().map(Child::id)).chain([std::process::id()]);
        all.map(|pid| (pid, resident(pid))).collect()
    }

    /// Ends everything in order.
    pub(crate) fn end(mut self) {
        self.end_tracker(Signal::TERM);
        self.bench.remove_all();
    }
}

impl Drop for World<'_> {
    fn drop(&mut self) {
        // Also after a failed test.
        if let Some(mut tracker) = self.tracker.take() {
            _ = tracker.kill();
            _ = tracker.wait();
        }
    }
}

/// Its content is in a file that outlives it.
fn create(bench: &Bench, name: &str) -> String {
    let file = bench.path(&format!("{name}.img"));
    bench.create(name, &["--size", "64M", "--data", "file", "--file", file.to_str().unwrap()])
}

fn pid(number: u32) -> Pid {
    Pid::from_raw(number.cast_signed()).unwrap()
}

fn resident(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.unwrap_or_default() * 1024
}
