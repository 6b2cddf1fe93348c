//! `trimtab sim run`, as a user runs it.

#[path = "../place/mod.rs"]
mod place;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use place::Place;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const SCENARIO: &str = "seed = 1
warm_up_requests = 1000
requests = 20_000

[[device]]
name = 'nvme0'
profile = 'reference'
capacity = '2G'

[device.workload]
read_share = 0.7
sizes = [{ bytes = 4096, weight = 1 }]
offsets = { kind = 'uniform' }
arrivals = { kind = 'closed', queue_depth = 16, think_us = 50 }
";

impl Place {
    fn sim(&self, args: &[&str]) -> Output {
        self.command(&[&["sim", "run"], args].concat()).output().unwrap()
    }

    fn json(&self, scenario: &str) -> Value {
        fs::write(self.path("s.toml"), scenario).unwrap();
        let output = self.sim(&["s.toml", "--json", "-"]);
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Expects exit code 2 and one line with this text.
    fn refuses(&self, scenario: &str, expected: &str) {
        fs::write(self.path("s.toml"), scenario).unwrap();
        let output = self.sim(&["s.toml", "--json", "out.json"]);
        let said = said(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(expected), "{said:?} should say {expected:?}");
        assert_eq!(said.lines().count(), 1, "{said:?}");
        assert!(output.stdout.is_empty() && !self.path("out.json").exists());
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn examples() -> impl Iterator<Item = PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut all: Vec<_> = fs::read_dir(directory).unwrap().map(|e| e.unwrap().path()).collect();
    all.sort();
    all.into_iter()
}

#[test]
fn examples_run() {
    let place = Place::new(&[]);
    fs::create_dir(place.path("examples")).unwrap();
    let is_scenario =
        |path: &PathBuf| path.file_name().unwrap().to_string_lossy().starts_with("sim-");
    let mut scenarios = 0;
    for path in examples() {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name == "synth-poisson.toml" {
            let args = ["trace", "synth", path.to_str().unwrap(), "-o", "poisson.parquet"];
            assert!(place.command(&args).status().unwrap().success());
        }
        if name.starts_with("drive-") {
            fs::copy(&path, place.path(&format!("examples/{name}"))).unwrap();
        }
        if is_scenario(&path) {
            // Only shortened: tests are debug builds.
            let text = fs::read_to_string(&path).unwrap();
            let text = text.replace("\nrequests = 1_000_000", "\nrequests = 20_000");
            let text = text
                .replace("= 2_500_000", "= 10_000")
                .replace("= 100_000\n", "= 10_000\n")
                .replace("duration_s = 4", "duration_s = 0.1");
            fs::write(place.path(&format!("examples/{name}")), text).unwrap();
            scenarios += 1;
        }
    }
    assert!(scenarios >= 14);
    for path in examples().filter(is_scenario) {
        let name = format!("examples/{}", path.file_name().unwrap().to_string_lossy());
        let output = place.sim(&[&name]);
        assert_eq!(output.status.code(), Some(0), "{name}: {}", said(&output));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.contains("p99.99") && text.contains("most in flight"), "{text}");
        assert!(output.stderr.is_empty(), "quiet in a pipe");
    }
}

#[test]
fn same_scenario_gives_the_same_bytes() {
    let place = Place::new(&[("s.toml", SCENARIO)]);
    let run = |out: &str, scenario: &str| {
        let output = place.sim(&[scenario, "--json", out, "--quiet"]);
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        assert!(output.stdout.is_empty() && output.stderr.is_empty());
        fs::read(place.path(out)).unwrap()
    };
    let first = run("a.json", "s.toml");
    assert_eq!(first, run("b.json", "s.toml"));
    let standard_output = place.sim(&["s.toml", "--json", "-"]);
    assert_eq!(first, standard_output.stdout);

    let value: Value = serde_json::from_slice(&first).unwrap();
    let again = place.json(&SCENARIO.replace("seed = 1", "seed = 2"));
    assert_ne!(value["devices"], again["devices"]);
    // The information that reproduces the figures.
    assert_eq!(value["seed"], 1);
    assert_eq!(value["scenario"], SCENARIO);
    assert_eq!(value["complete"], true);
    assert!(value["machine"].as_str().unwrap().contains("Linux"));
    assert_eq!(value["profiles"]["nvme0"]["timing"]["read_us"], 40.0);
}

#[test]
fn json_agrees_with_the_summary() {
    let place = Place::new(&[]);
    let value = place.json(SCENARIO);
    let device = &value["devices"][0];
    let (read, write) = (&device["ops"][0], &device["ops"][1]);
    let count = |op: &Value| op["latency"]["count"].as_u64().unwrap();
    assert_eq!(count(read) + count(write), 20_000);
    assert_eq!(
        (device["requests"].as_u64(), device["unanswered"].as_u64()),
        (Some(20_000), Some(0))
    );
    // 14,000 reads support p99.9, 6,000 writes do not.
    assert!(
        read["latency"].get("p99.9_ns").is_some() && write["latency"].get("p99.9_ns").is_none()
    );
    assert!(device["write_amplification"].as_f64().unwrap() >= 1.0);
    assert!(device["reads"]["waited_for_cleaning"].as_f64().is_some());
    // A program of 200 µs and a transfer of 5.12 µs.
    assert_eq!(device["writes"]["service_ns"], 205_120);

    let text = String::from_utf8(place.sim(&["s.toml"]).stdout).unwrap();
    for expected in
        ["seed      1\n", "machine ", "write amplification", "nvme0 (reference, 1.98 GiB)"]
    {
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn bad_scenarios_give_one_line_and_exit_code_2() {
    let place = Place::new(&[]);
    for (from, to, expected) in [
        ("name = ", "nome = ", "trimtab: error: s.toml: line 6: unknown field `nome`"),
        ("'reference'", "'x'", "s.toml: line 7: unknown profile `x`"),
        ("read_share = 0.7", "read_share = 7", "s.toml: line 11: `read_share` must be from 0 to 1"),
        ("capacity = '2G'", "capacity = 'big'", "s.toml: line 8: "),
        ("capacity = '2G'", "fill = 2", "s.toml: line 8: `fill` must be from 0 to 1, not 2"),
        ("think_us = 50", "think_us = 0", "answers at once at 0 ns"),
    ] {
        let mut text = SCENARIO.replace(from, to);
        if from.starts_with("think_us") {
            text = text.replace("0.7", "1").replace("2G'", "2G'\nfill = 0");
            text = text
                .replace("requests = 20_000", "duration_s = 1")
                .replace("warm_up_requests", "warm_up_s");
            text = text.replace("= 1000", "= 0");
        }
        place.refuses(&text, expected);
    }
    let missing = place.sim(&["missing.toml"]);
    assert_eq!(missing.status.code(), Some(2), "{}", said(&missing));
    let nowhere = place.sim(&["s.toml", "--json", "no/where.json"]);
    assert_ne!(nowhere.status.code(), Some(0));
}

/// Interrupts a simulation after a second; it must report that it is incomplete.
fn interrupted(place: &Place) -> Output {
    let mut command = place.command(&["sim", "run", "s.toml", "--json", "out.json"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_secs(1));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    output
}

#[test]
fn interrupted_simulation_reports_partial_results() {
    let place =
        Place::new(&[("s.toml", &SCENARIO.replace("requests = 20_000", "duration_s = 1e6"))]);
    let output = interrupted(&place);
    assert!(said(&output).starts_with("trimtab: incomplete: interrupted after "));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("interrupted") && text.contains("read"), "{text}");
    let value: Value = serde_json::from_slice(&fs::read(place.path("out.json")).unwrap()).unwrap();
    assert_eq!(value["complete"], false);
    assert!(value["devices"][0]["requests"].as_u64().unwrap() > 1000);
}

#[test]
fn interrupt_while_filling_drives_ends_at_once() {
    // Filling it takes many seconds either way.
    for kind in ["sequential", "aged"] {
        let fill = format!("capacity = '1700G'\nfill = {{ share = 1, kind = '{kind}' }}");
        let scenario = SCENARIO
            .replace("profile = 'reference'", "profile = 'sn260'")
            .replace("capacity = '2G'", &fill);
        let place = Place::new(&[("s.toml", &scenario)]);
        let said = said(&interrupted(&place));
        assert_eq!(said.trim_end(), "trimtab: incomplete: interrupted before it began");
        let left: Vec<_> = fs::read_dir(place.path("")).unwrap().flatten().collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }
}

/// Reads of 4 KiB, 1 ms apart, at these offsets.
fn trace(offsets: &[u64]) -> String {
    let line = |(i, offset): (usize, &u64)| {
        let tick = 128_166_372_000_000_000 + 10_000 * i as u64;
        format!("{tick},usr,0,Read,{offset},4096,10000\n")
    };
    offsets.iter().enumerate().map(line).collect()
}

const REPLAY: &str = "seed = 1
[[device]]
profile = 'reference'
capacity = '2G'
[device.workload]
trace = 'sub/t.csv'
";

#[test]
fn trace_is_replayed() {
    let place = Place::new(&[]);
    fs::create_dir(place.path("sub")).unwrap();
    let offsets: Vec<_> = (0..300).map(|i| i * 40960).collect();
    fs::write(place.path("sub/t.csv"), trace(&offsets)).unwrap();
    for (more, last_arrival) in
        [("", 299_000_000), ("rate = 10\n", 29_900_000), ("rate = 0.5", 598_000_000)]
    {
        let value = place.json(&[REPLAY, more].concat());
        let device = &value["devices"][0];
        assert_eq!(device["requests"], 300);
        assert_eq!(device["ops"][0]["latency"]["max_ns"], 45_120);
        assert_eq!(device["measured_ns"], last_arrival + 45_120);
    }

    fs::write(place.path("sub/t.csv"), trace(&[0, 1 << 20, 3 << 30])).unwrap();
    place.refuses(
        REPLAY,
        "t.csv: request 3 (read of 4096 bytes at 3221225472) ends beyond the device's",
    );
    for offsets in ["wrap", "scale"] {
        let value = place.json(&format!("{REPLAY}offsets = '{offsets}'\n"));
        assert_eq!(value["devices"][0]["requests"], 3);
    }
}

#[test]
fn unsuitable_traces_are_refused() {
    let place = Place::new(&[]);
    fs::create_dir(place.path("sub")).unwrap();
    place.refuses(REPLAY, "sub/t.csv: cannot open");
    fs::write(place.path("sub/t.csv"), trace(&[0, 4096]).replacen("usr,0", "usr,1", 1)).unwrap();
    place.refuses(REPLAY, "several devices (`usr.1`, `usr.0`, …); choose one with `trace_device`");
    let value = place.json(&[REPLAY, "trace_device = 'usr.0'"].concat());
    assert_eq!(value["devices"][0]["requests"], 1);
    place.refuses(&[REPLAY, "trace_device = 'sda'"].concat(), "has no request for a device `sda`");
    place.refuses(&[REPLAY, "offsets = 'fold'"].concat(), "s.toml: line 7: unknown variant `fold`");
    place.refuses(&[REPLAY, "format = 'nothing'"].concat(), "s.toml: line 7: ");
    // This format requires requests in order.
    fs::write(place.path("sub/t.csv"), "5000 0 0 8 1\n1000 0 0 8 1\n").unwrap();
    place.refuses(&[REPLAY, "format = 'disksim-ns'"].concat(), "sub/t.csv: line 2: ");
}
