//! `trimtab compare`, as a user runs it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;
use trimtab_compare::Comparison;

const SCENARIO: &str = "seeds = [1]
phase_one = { reads = 15_000 }
phase_two = { reads = 10_000 }
refusal_samples = 20

[workload]
read_share = 0.5
sizes = [{ bytes = 8192, weight = 1 }]
write_sizes = [{ bytes = 16384, weight = 1 }]
offsets = { kind = 'uniform' }
arrivals = { kind = 'bursty', on_iops = 3000, off_iops = 300, on_ms = 100, off_ms = 300 }
";
const DEVICE: &str = "
[[device]]
profile = 'reference'
fill = { share = 1.0, kind = 'aged' }
override.geometry.channels = 2
override.geometry.chips_per_channel = 4
override.geometry.blocks_per_plane = 64
override.geometry.pages_per_block = 64
";

fn scenario() -> String {
    [SCENARIO, &DEVICE.repeat(3)].concat()
}

struct Place(TempDir);

impl Place {
    fn new(scenario: &str) -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        fs::write(place.path("s.toml"), scenario).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn compare(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_trimtab"));
        command.current_dir(self.0.path()).args(["compare", "s.toml"]).args(args);
        command.output().unwrap()
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn every_strategy_has_its_row() {
    let place = Place::new(&scenario());
    let output = place.compare(&["--json", "s.json", "--report", "s.html"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let told: Value = serde_json::from_slice(&fs::read(place.path("s.json")).unwrap()).unwrap();
    let rows = told["strategies"].as_array().unwrap();
    let table = String::from_utf8(output.stdout).unwrap();
    assert_eq!(rows.len(), 23);
    for row in rows {
        let name = row["name"].as_str().unwrap();
        assert!(table.lines().any(|line| line.starts_with(name)), "{name} in {table}");
        let (seed, median) = (&row["seeds"][0], &row["median"]);
        assert_eq!((seed["reads"].as_u64(), seed["seed"].as_u64()), (Some(10_000), Some(1)));
        assert!(median["p99.9_ns"].is_number() && median["p99.99_ns"].is_null(), "{name}");
        let predicts =
            ["linnos", "heur", "mitt", "trimtab"].iter().any(|word| name.starts_with(word));
        assert_eq!(median["false_submit_percent"].is_number(), predicts, "{name}");
        assert_eq!(seed["inference_ns"] != 0, predicts, "{name}");
    }
    assert!(told["drives"][0][2]["inflection_ns"].is_number());
    let page = fs::read_to_string(place.path("s.html")).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("linnos+hl"));
}

#[test]
fn keys_and_strategies_are_replaced() {
    let array = "strategies = ['ioda']
reads = 1_000
warm_up_s = 1
array = { level = 'raid5', chunk = '64K', members = 4 }
";
    let load = "[workload]
read_share = 0.5
sizes = [{ bytes = 4096, weight = 1 }]
offsets = { kind = 'uniform' }
arrivals = { kind = 'poisson', iops = 500 }
";
    for scenario in [scenario(), [array, load, DEVICE].concat()] {
        let place = Place::new(&scenario);
        let args = ["--strategies", "ideal,base", "--set", "seeds = [3]", "--json", "-"];
        let output = place.compare(&args);
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        let told: Value = serde_json::from_slice(&output.stdout).unwrap();
        let rows = told["strategies"].as_array().unwrap();
        let names: Vec<_> = rows.iter().map(|row| row["name"].as_str().unwrap()).collect();
        assert_eq!((names, &told["seeds"][0]), (vec!["ideal", "base"], &3.into()));
        let noted = told["scenario"].as_str().unwrap();
        assert!(noted.ends_with("# --set 'strategies = [\"ideal\", \"base\"]'"), "{noted}");

        for (args, expected) in [
            (["--set", "nonsense = 3"], "s.toml: --set 'nonsense = 3': unknown field `nonsense`"),
            (["--set", "workload.read_share = 7"], "--set 'workload.read_share = 7': `read_share`"),
            (["--set", "seeds"], "--set 'seeds': "),
            (["--strategies", "bases"], "--set 'strategies = [\"bases\"]': "),
        ] {
            let output = place.compare(&args);
            let said = said(&output);
            assert_eq!(output.status.code(), Some(2), "{said}");
            assert!(said.contains(expected) && said.lines().count() == 1, "{said:?}");
        }
    }
}

#[test]
fn invalid_input_is_reported_in_one_line() {
    let refuses = |scenario: &str, args: &[&str], expected: &str| {
        let place = Place::new(scenario);
        let output = place.compare(&[args, &["--json", "out.json"]].concat());
        let said = said(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(expected) && said.lines().count() == 1, "{said:?}");
        assert!(output.stdout.is_empty() && !place.path("out.json").exists());
    };
    let one_drive = [SCENARIO, DEVICE].concat();
    refuses(&one_drive, &[], "there must be 2 to 32 `[[device]]`, not 1");
    refuses(&scenario(), &["--seeds", "3,3"], "no two alike");
    let faulty = |fault: &str| scenario() + &format!("fault = [{{ {fault} }}]\n");
    refuses(&faulty("kind = 'melt'"), &[], "unknown variant `melt`");
    refuses(&faulty("kind = 'stall', at_s = -1, for_s = 1"), &[], "a fault's at_s must be from 0");
    refuses(&faulty("kind = 'power-cut'"), &[], "a comparison has no `power-cut`");
    let own = DEVICE.replace("fill", "workload = []\nfill");
    refuses(&[SCENARIO, &own.repeat(2)].concat(), &[], "s.toml: line 6: no `[[device]]` has this");
    refuses(&scenario().replace("phase_two", "phase_too"), &[], "s.toml: line 3: unknown field");
    refuses(&scenario(), &["--report", "s.toml"], "is an input and would be replaced");
    refuses(&scenario(), &["--files", "a,b,c"], "--live");
    let live = |files| ["--live", "--files", files];
    refuses(&scenario(), &live("a,b"), "--files names 2, and the scenario has 3 devices");
    refuses(&scenario(), &live("a,b,c"), "a: cannot look at it");
    refuses(&scenario(), &live("/dev/null,b,c"), "/dev/null: ");
}

#[test]
fn faults_are_felt_and_reads_that_fail_everywhere_are_reported() {
    let compare = |faults: [&str; 3]| {
        let devices = faults.map(|fault| [DEVICE, fault, "\n"].concat()).concat();
        let strategies = "strategies = ['base', 'c3', 'linnos']\n";
        let place = Place::new(&[strategies, SCENARIO, &devices].concat());
        let output = place.compare(&["--json", "s.json", "--report", "s.html"]);
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        let told: Value = serde_json::from_slice(&fs::read(place.path("s.json")).unwrap()).unwrap();
        let page = fs::read_to_string(place.path("s.html")).unwrap();
        (told, String::from_utf8(output.stdout).unwrap(), page)
    };
    let number = |told: &Value, row: usize, key: &str| {
        told["strategies"][row]["seeds"][0][key].as_f64().unwrap()
    };
    let usual = compare([""; 3]).0;
    let slow = "fault = [{ kind = 'slow', factor = 20, at_s = 0.5 }]";
    let (told, table, _) = compare([slow, "", ""]);
    assert!(number(&told, 0, "mean_ns") > 3.0 * number(&usual, 0, "mean_ns"));
    assert!(number(&told, 1, "mean_ns") < 0.5 * number(&told, 0, "mean_ns"), "c3 avoids it");
    assert!(!table.contains("failed"), "{table}");

    let dies = "fault = [{ kind = 'error', share = 1, at_s = 0.5, for_s = 0.5 }]";
    let (told, table, page) = compare([dies; 3]);
    for (row, name) in ["base", "c3", "linnos"].iter().enumerate() {
        let (reads, errors) = (number(&told, row, "reads"), number(&told, row, "errors"));
        assert!(reads + errors == 10_000.0 && errors > 0.0, "{name}: {reads}, {errors}");
        let errors = trimtab_report::count(errors as u64);
        let line = format!("{name}: {errors} reads failed on every drive");
        assert!(table.contains(&line) && page.contains(&line), "{line} in {table}");
    }
}

/// Where predictors have nothing to gain, or too little to train on, every row is compared: they
/// never refuse, and the output says so and why.
#[test]
fn rows_run_where_no_threshold_pays() {
    let bursty = "'bursty', on_iops = 3000, off_iops = 300, on_ms = 100, off_ms = 300";
    let alike = scenario()
        .replace("read_share = 0.5", "read_share = 1")
        .replace("bytes = 8192", "bytes = 4096")
        .replace(bursty, "'poisson', iops = 100");
    let short = scenario().replace("reads = 15_000", "reads = 300");
    for (scenario, reason) in [(alike, "no threshold"), (short, "at least 1000 are needed")] {
        let place = Place::new(&scenario);
        let output = place.compare(&["--json", "s.json", "--report", "s.html"]);
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        let told: Value = serde_json::from_slice(&fs::read(place.path("s.json")).unwrap()).unwrap();
        let rows = told["strategies"].as_array().unwrap();
        let row = |name: &str| rows.iter().find(|row| row["name"] == name).unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let page = fs::read_to_string(place.path("s.html")).unwrap();
        for drive in 0..3 {
            let never = told["drives"][0][drive]["never_refuses"].as_object().unwrap();
            assert_eq!(never.len(), 4, "{never:?}");
            let of_drive = format!("device {drive}, seed 1: ");
            let says = |line: &str| line.starts_with(&of_drive) && line.contains(reason);
            assert!(text.lines().any(says) && text.contains("never refuse"), "{text}");
            assert!(page.contains(reason));
        }
        for name in ["base", "hedge", "hedge-ip", "adaptive", "c3", "linnos", "heur-adv", "trimtab"]
        {
            assert_eq!(row(name)["seeds"][0]["reads"], 10_000, "{name}");
            assert_eq!(row(name)["seeds"][0]["refused"], 0, "{name}");
        }
        let mean = |name: &str| row(name)["median"]["mean_ns"].as_f64().unwrap();
        let inference = row("linnos")["seeds"][0]["inference_ns"].as_f64().unwrap();
        assert!((mean("linnos") - mean("base") - inference).abs() < 0.01 * mean("base"));
        assert!(mean("trimtab") < 1.02 * mean("base"), "{} {}", mean("trimtab"), mean("base"));
    }
}

#[test]
fn examples_are_valid() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut count = 0;
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name().unwrap().to_string_lossy().starts_with("compare-") {
            Comparison::load(&path).unwrap();
            count += 1;
        }
    }
    assert_eq!(count, 12);
}

/// A drive that is always faster than the other is compared too.
#[test]
fn drive_that_never_profits_from_failover_is_marked() {
    let slow = DEVICE.to_owned() + "override.timing.read_us = 4000\n";
    let place =
        Place::new(&["strategies = ['base', 'hedge-ip']\n", SCENARIO, DEVICE, &slow].concat());
    let output = place.compare(&["--json", "s.json"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let told: Value = serde_json::from_slice(&fs::read(place.path("s.json")).unwrap()).unwrap();
    let alone = |drive: usize| told["drives"][0][drive]["inflection_alone"].as_bool();
    assert_eq!((alone(0), alone(1)), (Some(true), Some(false)));
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(table.contains("* among drives like it"), "{table}");
}

const ARRAY: &str = "strategies = ['base', 'ideal', 'ioda', 'ttflash']
reads = 20_000
warm_up_s = 5
[array]
level = 'raid5'
members = 4
chunk = '4K'
[[device]]
profile = 'femu'
capacity = '3G'
fill = { share = 1.0, kind = 'aged', overwrites = 2 }
[workload]
read_share = 0.64
sizes = [{ bytes = 4096, weight = 1 }]
offsets = { kind = 'uniform' }
arrivals = { kind = 'poisson', iops = 4000 }
";

#[test]
fn arrays_are_compared() {
    let place = Place::new(ARRAY);
    let output = place.compare(&["--json", "a.json", "--report", "a.html"]);
    assert!(output.status.success(), "{}", said(&output));
    let table = String::from_utf8(output.stdout).unwrap();
    for text in ["raid5, 4 members, chunks of 4 KiB", "p99.9 / ideal", "extra reads", "ttflash"] {
        assert!(table.contains(text), "{text}: {table}");
    }
    let json: Value = serde_json::from_slice(&fs::read(place.path("a.json")).unwrap()).unwrap();
    let rows = json["strategies"].as_array().unwrap();
    assert_eq!(rows.len(), 4);
    assert!(rows.iter().all(|row| row["seeds"][0]["reads"].as_u64() >= Some(20_000)));
    let page = fs::read_to_string(place.path("a.html")).unwrap();
    assert!(page.contains("Busy members of a stripe"));
    assert!(!table.contains("write buffer") && rows[2]["seeds"][0].get("buffer").is_none());
}

#[test]
fn arrays_with_a_write_buffer_show_it() {
    let scenario = ARRAY.replace("'base', 'ideal', 'ioda', 'ttflash'", "'ideal', 'rails'");
    let place = Place::new(&format!("{scenario}[buffer]\ncapacity = '16M'\n"));
    let output = place.compare(&["--json", "a.json"]);
    assert!(output.status.success(), "{}", said(&output));
    let table = String::from_utf8(output.stdout).unwrap();
    for text in ["the host's write buffer held", "16.0 MiB", "writes waited for room"] {
        assert!(table.contains(text), "{text}: {table}");
    }
    let json: Value = serde_json::from_slice(&fs::read(place.path("a.json")).unwrap()).unwrap();
    let buffer = &json["strategies"][1]["seeds"][0]["buffer"];
    assert!(buffer["high_water_bytes"].as_u64() <= Some(16 << 20), "{buffer}");
    assert!(buffer["stalled_writes"].as_u64() > Some(0), "{buffer}");
}

/// A row for each length of the windows, both parts of a run whose windows change, and notes.
#[test]
fn windows_of_an_array_are_varied() {
    let windows = "[windows]\nwindow_ms = [10, 100]\nthen = { at_s = 1, window_ms = 200 }\n";
    let text = ARRAY.replace("reads = 20_000", "duration_s = 2").replace(", 'ttflash'", "");
    let place = Place::new(&(text.clone() + windows));
    let output = place.compare(&["--json", "a.json", "--report", "a.html"]);
    assert!(output.status.success(), "{}", said(&output));
    let table = String::from_utf8(output.stdout).unwrap();
    for text in ["ioda 10 ms", "ioda 100 ms", "reads/s", "writes/s", "p99.9 before  after"] {
        assert!(table.contains(text), "{text}: {table}");
    }
    assert!(table.contains("windows of 10.0 ms are shorter than one cleaning"), "{table}");
    assert!(!table.contains("overloaded"), "{table}");
    let json: Value = serde_json::from_slice(&fs::read(place.path("a.json")).unwrap()).unwrap();
    let rows = json["strategies"].as_array().unwrap();
    assert!(rows.iter().all(|row| row["seeds"][0]["parts"].as_array().unwrap().len() == 2));
    let page = fs::read_to_string(place.path("a.html")).unwrap();
    assert!(page.contains("ioda 100 ms") && page.contains("p99 before"));

    let place = Place::new(&text.replace("iops = 4000", "iops = 200_000"));
    let output = place.compare(&[]);
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(table.contains("base: overloaded: ") && !table.contains("ideal: over"), "{table}");
}

#[test]
fn what_cannot_be_an_array_is_one_line() {
    for (old, new, expected) in [
        ("'raid5'", "'raid10'", "level"),
        ("members = 4", "members = 2", "members"),
        ("chunk = '4K'", "chunk = 4000", "chunk"),
        ("'ioda'", "'yoda'", "`yoda`"),
        ("reads = 20_000", "reads = 20_000\nwritten = 1", "written"),
    ] {
        let place = Place::new(&ARRAY.replace(old, new));
        let output = place.compare(&[]);
        let said = said(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(expected) && said.trim_end().lines().count() == 1, "{said}");
        assert!(said.contains("s.toml: line "), "{said}");
    }
    let live = Place::new(ARRAY).compare(&["--live"]);
    assert!(said(&live).contains("leave out --live"), "{}", said(&live));
}
