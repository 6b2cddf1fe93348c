//! Every command that may take long ends within seconds of SIGTERM or Ctrl-C, without partial
//! files.

mod drive;
mod place;

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use place::Place;
use rustix::process::{Pid, Signal, kill_process};

/// SIGTERM, and SIGINT unless it is ignored, as it is in a shell's background jobs.
fn signals() -> Vec<Signal> {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    let ignored = u64::from_str_radix(ignored.trim(), 16).unwrap();
    if ignored & (1 << (Signal::INT.as_raw() - 1)) == 0 {
        return vec![Signal::TERM, Signal::INT];
    }
    trimtab_testdisk::skip(trimtab_testdisk::Feature::Others, "SIGINT, which is ignored here");
    vec![Signal::TERM]
}

/// Commands end within a second, later on a machine that is busy with other tests.
const PATIENCE: Duration = Duration::from_secs(8);

impl Place {
    fn files(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path("")).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Starts a long-running command, signals it after a moment, and expects that it ends
    /// without leaving files.
    fn ends(&self, args: &[&str], signal: Signal) {
        let before = self.files();
        let mut command = self.command(args);
        command.env("TMPDIR", self.path("")).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.stdin(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(700));
        if let Some(status) = child.try_wait().unwrap() {
            let output = child.wait_with_output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            panic!("{args:?} has ended by itself: {status}: {said}");
        }
        kill_process(Pid::from_child(&child), signal).unwrap();
        let asked = Instant::now();
        while child.try_wait().unwrap().is_none() {
            if asked.elapsed() > PATIENCE {
                child.kill().unwrap();
                panic!("{args:?} does not end on {signal:?}");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        // As a shell expects of an interrupted command, or with one line that reports it.
        let interrupted = output.status.signal() == Some(signal.as_raw())
            || matches!(output.status.code(), Some(1 | 3)) && said.contains("interrupted");
        assert!(interrupted, "{args:?}: {}: {said}", output.status);
        assert_eq!(self.files(), before, "{args:?} left something behind");
    }
}

/// A simulation that cannot finish within the test.
const SCENARIO: &str = "seed = 1
requests = 100_000_000_000
[[device]]
profile = 'reference'
capacity = '12G'
[device.workload]
read_share = 0.5
sizes = [{ bytes = 4096, weight = 1 }]
offsets = { kind = 'uniform' }
arrivals = { kind = 'poisson', iops = 1000 }
";

const COMPARISON: &str = "seeds = [1]
phase_one = { reads = 4_000_000_000 }
phase_two = { reads = 4_000_000_000 }
[workload]
read_share = 0.5
sizes = [{ bytes = 8192, weight = 1 }]
offsets = { kind = 'uniform' }
arrivals = { kind = 'poisson', iops = 1000 }
[[device]]
profile = 'reference'
capacity = '12G'
[[device]]
profile = 'reference'
capacity = '12G'
";

const SYNTH: &str = "seed = 1
capacity_gb = 1
requests = 1_000_000_000_000
read_share = 0.5
sizes = [{ bytes = 4096, weight = 1 }]
offsets = { kind = 'uniform' }
arrivals = { kind = 'poisson', iops = 1000 }
";

#[test]
fn simulations_and_synthesis_end() {
    // Overwriting the drive a hundred times takes many seconds before the simulation starts.
    let aged = SCENARIO.replace(
        "capacity = '12G'",
        "capacity = '12G'\nfill = { share = 1, kind = 'aged', overwrites = 100 }",
    );
    let place = Place::new(&[
        ("long.toml", SCENARIO),
        ("aged.toml", &aged),
        ("compare.toml", COMPARISON),
        ("synth.toml", SYNTH),
    ]);
    for signal in signals() {
        place.ends(&["sim", "run", "aged.toml", "--json", "out.json"], signal);
        place
            .ends(&["compare", "compare.toml", "--json", "out.json", "--report", "o.html"], signal);
        place.ends(&["trace", "synth", "synth.toml", "-o", "out.parquet"], signal);
    }
    place.ends(&["sim", "run", "long.toml"], Signal::TERM);
}

/// A pipe that produces data as long as it is read: reading it never ends.
#[test]
fn commands_on_traces_end() {
    let place = Place::new(&[
        ("a.csv", &drive::recording(60_000, 1, false)),
        ("b.csv", &drive::recording(60_000, 2, false)),
    ]);
    let fifo = place.path("fifo");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status().unwrap();
    assert!(made.success());
    // In order, so that nothing is sorted, and endless.
    let endless = |args: &[&str], signal: Signal| {
        let feed = "exec >fifo; while :; do echo 0,100,4096,R,0.0 || exit; done";
        let mut feeder = std::process::Command::new("sh");
        feeder.args(["-c", feed]).current_dir(place.path("")).stderr(Stdio::null());
        let mut feeder = feeder.spawn().unwrap();
        place.ends(args, signal);
        feeder.kill().unwrap();
        feeder.wait().unwrap();
    };
    for signal in signals() {
        endless(&["trace", "info", "fifo"], signal);
        endless(&["trace", "convert", "fifo", "-o", "out.parquet"], signal);
        endless(&["trace", "cut", "fifo", "--from", "1s", "-o", "out.parquet"], signal);
        endless(&["trace", "report", "fifo", "-o", "out.html"], signal);
        endless(&["train", "--trace", "fifo", "-o", "out.st"], signal);
        place.ends(&["train", "--trace", "a.csv", "-o", "out.st"], signal);
        place.ends(&["evaluate", "--trace", "a.csv", "--json", "out.json"], signal);
        place.ends(&["advise", "a.csv", "b.csv", "--json", "out.json"], signal);
        place.ends(&["profile", "fit", "a.csv", "-o", "out.toml", "--capacity", "12G"], signal);
    }
}
