//! `trimtab top`, as a user runs it: in lines, and in a terminal.

mod drive;
mod place;
mod privileges;

use std::fs::{self, File};
use std::io::{Read, Write};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use place::Place;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use trimtab_testdisk::{self as testdisk, LoopDisk};

/// Longer than any step takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The sequences that switch to the alternate screen, and back.
const ENTER: &str = "\x1b[?1049h";
const LEAVE: &str = "\x1b[?1049l";

fn top(args: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_trimtab");
    Command::new(program).arg("top").args(args).output().expect("trimtab runs")
}

/// A disk to monitor, or a note on why there is none.
fn disk() -> Option<LoopDisk> {
    if !testdisk::requires(testdisk::REAL_DISKS) {
        return None;
    }
    Some(LoopDisk::new(64))
}

/// A process that is killed when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// Reads across a disk, until it is dropped.
fn load(disk: &LoopDisk) -> Running {
    let file = format!("--filename={}", disk.path);
    let job = ["--name=load", "--direct=1", "--bs=4k", "--rw=randread", "--rate_iops=2000"];
    let time = ["--time_based", "--runtime=120", "--thinktime_blocks=1"];
    let child = Command::new("fio").args(job).args(time).arg(file).stdout(Stdio::null()).spawn();
    Running(child.expect("fio runs"))
}

fn objects(output: &Output) -> Vec<Value> {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn shows_a_drives_rates_and_its_models_score() {
    let Some(disk) = disk() else { return };
    let place = Place::new(&[("a.csv", &drive::recording(3000, 1, false))]);
    let train = ["train", "--trace", "a.csv", "--predictor", "heur-sim", "-o", "m.safetensors"];
    assert!(place.command(&train).output().unwrap().status.success());
    let model = format!("{}={}", disk.name(), place.path("m.safetensors").display());
    let _load = load(&disk);
    let shown = top(&[&disk.path, "--model", &model, "--count", "4", "--json"]);
    let rows = objects(&shown);
    assert_eq!(rows.len(), 4);
    let last = &rows[3];
    assert_eq!((&last["device"], &last["window_s"]), (&disk.name().into(), &10.into()));
    assert!(last["reads_per_second"].as_f64().unwrap() > 0.0, "{last}");
    assert_eq!(last["writes_per_second"], 0.0);
    let reads = last["window_reads"].as_u64().unwrap();
    // No percentile without enough reads.
    for (name, needed) in [("p50_ns", 20), ("p99_ns", 1000), ("p99.9_ns", 10_000)] {
        assert_eq!(last.get(name).is_some(), reads >= needed, "{name} of {reads} reads");
    }
    let score = &last["score"];
    assert!(score["reads"].as_u64().unwrap() > 0, "{last}");
    assert!(last["predicted_late_share"].as_f64().is_some());
    assert!(last["facts"]["model"].as_str().unwrap().starts_with("m.safetensors, heur-sim"));
    assert!(last["lost"].as_u64().is_some(), "{last}");
}

#[test]
fn prints_lines_without_a_terminal() {
    let Some(disk) = disk() else { return };
    let shown = top(&[&disk.path, "--count", "2", "--interval", "50ms"]);
    assert!(shown.status.success());
    let text = String::from_utf8(shown.stdout).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert!(lines[0].starts_with("device") && lines[0].ends_with("drift"), "{text}");
    assert!(lines[1].starts_with(disk.name()) && !text.contains('\x1b'), "{text}");
    // Without a name, those with any requests so far.
    testdisk::run("dd", &[&format!("if={}", disk.path), "of=/dev/null", "bs=4k", "count=1"]);
    let shown = top(&["--count", "1", "--interval", "50ms", "--json"]);
    assert!(!objects(&shown).is_empty());
}

#[test]
fn errors_are_one_line() {
    let Some(disk) = disk() else { return };
    let cases: [(&[&str], i32, &str); 5] = [
        (&["nosuchdisk"], 2, "nosuchdisk: no such device"),
        (&[&disk.path, "--model", "x.safetensors"], 2, "DEVICE=MODEL"),
        (&[&disk.path, "--model", "nosuchdisk=x"], 2, "nosuchdisk: no such device"),
        (&[&disk.path, "--model", &format!("{}=/none", disk.path)], 2, "/none: cannot read"),
        (&[&disk.path, "--interval", "1ms"], 2, "is too often"),
    ];
    for (args, code, expected) in cases {
        let shown = top(args);
        let said = String::from_utf8_lossy(&shown.stderr).into_owned();
        assert_eq!(shown.status.code(), Some(code), "{args:?}: {said}");
        assert!(said.contains(expected) && said.lines().count() == 1, "{args:?}: {said}");
    }
}

/// Without capabilities it shows the kernel's own counters, and reports what is missing.
#[test]
fn rates_are_shown_without_privileges() {
    let Some(disk) = disk() else { return };
    let _load = load(&disk);
    if !testdisk::requires(&[testdisk::Feature::Program("setpriv")]) {
        return;
    }
    let output = Command::new("setpriv")
        .args(["--bounding-set=-all", env!("CARGO_BIN_EXE_trimtab"), "top", &disk.path])
        .args(["--count", "2", "--json"])
        .output();
    let output = output.expect("setpriv runs");
    let rows = objects(&output);
    assert!(rows[1]["reads_per_second"].as_f64().unwrap() > 0.0, "{rows:?}");
    assert!(rows[1].get("p50_ns").is_none());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("no CAP_BPF") && said.lines().count() == 1, "{said}");
}

#[test]
fn as_root_it_keeps_only_bpf_capabilities() {
    let Some(disk) = disk() else { return };
    let args = ["top", &disk.path, "--json", "--interval", "50ms"];
    let child =
        Command::new(env!("CARGO_BIN_EXE_trimtab")).args(args).stdout(Stdio::null()).spawn();
    let shown = Running(child.unwrap());
    privileges::assert_comes_to(shown.0.id(), privileges::set("CAP_BPF CAP_PERFMON"));
}

/// `trimtab top` in a terminal, with the terminal's settings before and after it.
struct Shown {
    script: Running,
    place: Place,
}

impl Shown {
    fn begin(disk: &LoopDisk) -> Self {
        let place = Place::new(&[]);
        let shell = format!(
            // The keyboard's signals reach this shell too, and must not end it.
            "trap : INT QUIT; stty cols 80 rows 24; stty -g >before; \
             sh -c 'echo $$ >pid; exec {} top {}'; echo $? >code; stty -g >after",
            env!("CARGO_BIN_EXE_trimtab"),
            disk.path
        );
        let screen = File::create(place.path("screen")).unwrap();
        let script = Command::new("script")
            .args(["--quiet", "--flush", "--command", &shell, "/dev/null"])
            .env("SHELL", "/bin/sh")
            .current_dir(place.path(""))
            .stdin(Stdio::piped())
            .stdout(screen)
            .spawn();
        let this = Self { script: Running(script.expect("script runs")), place };
        this.see("read/s");
        this
    }

    fn screen(&self) -> String {
        let mut bytes = Vec::new();
        File::open(self.place.path("screen")).unwrap().read_to_end(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Waits until the screen has shown the text.
    fn see(&self, what: &str) {
        self.wait_for(what, |shown| shown.screen().contains(what));
    }

    fn wait_for(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let until = Instant::now() + PATIENCE;
        while !is_so(self) {
            assert!(Instant::now() < until, "waited in vain for {what:?}: {:?}", self.screen());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn press(&mut self, keys: &[u8]) {
        let input = self.script.0.stdin.as_mut().unwrap();
        input.write_all(keys).and_then(|()| input.flush()).unwrap();
    }

    fn pid(&self) -> Pid {
        let pid = fs::read_to_string(self.place.path("pid")).unwrap();
        Pid::from_raw(pid.trim().parse().unwrap()).unwrap()
    }

    fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// The process's state in the kernel: `T` if it is stopped.
    fn state(&self) -> char {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap();
        stat.rsplit(") ").next().and_then(|rest| rest.chars().next()).unwrap()
    }

    /// Waits for the end. The terminal must be restored, and the exit code 0.
    fn assert_given_back(self) {
        let after = self.place.path("after");
        let until = Instant::now() + PATIENCE;
        let read = |name| fs::read_to_string(self.place.path(name)).unwrap_or_default();
        while !after.exists() || read("after").is_empty() {
            assert!(Instant::now() < until, "it does not end: {:?}", self.screen());
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(read("before"), read("after"));
        assert_eq!(read("code"), "0\n");
        let screen = self.screen();
        assert!(screen.contains(ENTER) && screen.contains(LEAVE), "{screen:?}");
        assert!(screen.rfind(LEAVE) > screen.rfind("read/s"), "{screen:?}");
    }
}

#[test]
fn terminal_is_restored() {
    let Some(disk) = disk() else { return };
    if !testdisk::requires(&[testdisk::Feature::Program("script")]) {
        return;
    }
    let mut shown = Shown::begin(&disk);
    assert!(shown.screen().contains(disk.name()));
    for (key, expected) in [
        (b"h", "false revokes"),
        (b"h", "by device"),
        (b"d", "d back"),
        (b"d", "by device"),
        (b"s", "by read/s"),
        (b"p", "PAUSED"),
    ] {
        shown.press(key);
        shown.see(expected);
    }
    shown.press(b"q");
    shown.assert_given_back();

    let mut shown = Shown::begin(&disk);
    // Ctrl-C, from the keyboard.
    shown.press(b"\x03");
    shown.assert_given_back();

    for signal in [Signal::TERM, Signal::HUP, Signal::QUIT] {
        let shown = Shown::begin(&disk);
        shown.signal(signal);
        shown.assert_given_back();
    }

    // Ctrl-\, from the keyboard.
    let mut shown = Shown::begin(&disk);
    shown.press(b"\x1c");
    shown.assert_given_back();
}

#[test]
fn terminal_is_restored_while_stopped() {
    let Some(disk) = disk() else { return };
    if !testdisk::requires(&[testdisk::Feature::Program("script")]) {
        return;
    }
    let mut shown = Shown::begin(&disk);
    shown.signal(Signal::TSTP);
    shown.wait_for("it is stopped", |shown| shown.state() == 'T');
    shown.wait_for("its screen is given back", |shown| shown.screen().ends_with(LEAVE));
    shown.signal(Signal::CONT);
    let entered = |shown: &Shown| shown.screen().matches(ENTER).count() >= 2;
    shown.wait_for("it has its screen again", entered);
    // Keys are unbuffered again: otherwise this one would wait for the end of the line.
    shown.press(b"s");
    shown.see("by read/s");
    shown.press(b"q");
    shown.assert_given_back();
}
