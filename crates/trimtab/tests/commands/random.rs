//! `trimtab compare --random`, as a user runs it.

use std::fs;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use trimtab_compare::Comparison;

fn trimtab(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_trimtab")).arg("compare").args(args).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn series(more: &[&str]) -> Output {
    let always = ["--random", "2", "--seed", "7", "--strategies", "hedge,c3"];
    trimtab(&[&always, more].concat())
}

#[test]
fn a_series_is_the_same_for_any_threads_and_each_array_stands_alone() {
    let directory = tempfile::tempdir().unwrap();
    let page = directory.path().join("series.html");
    let page = page.to_str().unwrap();
    let output = series(&["--json", "-", "--report", page, "--threads", "2"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let whole: Value = serde_json::from_slice(&output.stdout).unwrap();
    let arrays = whole["arrays"].as_array().unwrap();
    assert_eq!((arrays.len(), whole["strategies"].as_array().unwrap().len()), (2, 3));
    for array in arrays {
        assert_eq!(array["against_base"].as_array().unwrap().len(), 3);
        let [base, c3] = [0, 2].map(|row| array["figures"][row]["mean_ns"].as_f64().unwrap());
        let test = &array["against_base"][0];
        // Figures of histograms are rounded.
        for (figure, exact) in [(base, &test["base_ns"]), (c3, &test["ours_ns"])] {
            let exact = exact.as_f64().unwrap();
            assert!((figure / exact - 1.0).abs() < 0.01, "{figure} and {exact}");
        }
    }
    let html = fs::read_to_string(page).unwrap();
    assert!(html.contains("c3 on 2 random arrays") && html.contains("By replicas"));
    let output = trimtab(&[
        "--random",
        "1",
        "--first",
        "1",
        "--seed",
        "7",
        "--strategies",
        "hedge,c3",
        "--json",
        "-",
        "--threads",
        "1",
    ]);
    let alone: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(alone["arrays"][0], whole["arrays"][1]);
}

#[test]
fn scenarios_of_a_series_can_be_run_by_themselves() {
    let output = trimtab(&["--random", "3", "--seed", "7", "--show"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    let scenarios: Vec<_> = text.split("strategies = ").skip(1).collect();
    assert_eq!(scenarios.len(), 3);
    for scenario in scenarios {
        let scenario = format!("strategies = {scenario}");
        Comparison::parse(&scenario, ".".as_ref()).unwrap();
    }
}

/// In the series 5, a drive of array 5 stalls.
#[test]
fn an_array_with_an_event_runs() {
    let array = |more: &[&str]| {
        let always = ["--random", "1", "--first", "5", "--seed", "5", "--strategies", "c3"];
        let output = trimtab(&[&always, more].concat());
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    let shown = array(&["--show"]);
    let fault = "fault = [{ kind = \"stall\", at_s = 0.578, for_s = 0.153 }]";
    assert!(shown.lines().any(|line| line == fault), "{shown}");
    let directory = tempfile::tempdir().unwrap();
    let page = directory.path().join("series.html");
    let told = array(&["--json", "-", "--report", page.to_str().unwrap()]);
    let told: Value = serde_json::from_str(&told).unwrap();
    let array = &told["arrays"][0];
    assert_eq!((&array["traits"]["event"], &array["reads"]), (&"stalls".into(), &25_000.into()));
    assert!(array["traits"]["recording"].is_null());
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("By event") && page.contains("stalls"));
}

/// Whether the thread of the series runs.
fn has_begun(child: &Child) -> bool {
    let tasks = fs::read_dir(format!("/proc/{}/task", child.id())).unwrap();
    tasks.flatten().any(|task| {
        fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name.trim() == "series")
    })
}

#[test]
fn interrupted_series_tells_what_is_done() {
    let args = ["compare", "--random", "10000", "--seed", "7"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_trimtab"));
    command.args(args).args(["--json", "-"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    // Signals are caught when the series begins, some seconds after the command.
    let begun = (0..2_400).any(|_| {
        std::thread::sleep(Duration::from_millis(50));
        has_begun(&child)
    });
    assert!(begun, "the series does not begin");
    std::thread::sleep(Duration::from_secs(1));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    let arrays = told["arrays"].as_array().unwrap();
    assert_eq!(
        (&told["is_complete"], &told["summary"]["arrays"]),
        (&false.into(), &arrays.len().into())
    );
    for array in arrays {
        assert_eq!(array["figures"].as_array().unwrap().len(), 10);
    }
    let ended = format!("a signal ended it after {} of 10000 arrays", arrays.len());
    assert!(said(&output).contains(&ended), "{}", said(&output));
}

/// Of the series 7 arrays 3, 4 and 7 have three drives, and array 8 four.
#[test]
fn an_array_that_cannot_be_compared_does_not_end_the_others() {
    let directory = tempfile::tempdir().unwrap();
    let page = directory.path().join("series.html");
    let four = |first: &'static str| ["--first", first, "--set", "copies = 4", "--threads", "2"];
    let shown = ["--json", "-", "--report", page.to_str().unwrap()];
    let output = series(&[&four("7")[..], &shown].concat());
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&told["is_complete"], &told["summary"]["arrays"]), (&false.into(), &1.into()));
    let (compared, failed) = (&told["arrays"], &told["failed"]);
    assert_eq!((&compared[0]["number"], &failed[0]["number"]), (&8.into(), &7.into()));
    let why = "`copies` must be from 2 to 3, not 4";
    assert!(failed[0]["error"].as_str().unwrap().contains(why), "{failed}");
    let first = "1 of 2 arrays could not be compared, the first of them array 7: ";
    let error = said(&output);
    let last = error.lines().last().unwrap();
    assert!(last.starts_with("trimtab: incomplete: "), "{error}");
    assert!(last.contains(first) && last.contains(why), "{error}");
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("could not be compared") && page.contains("array 7: "));
    // None of these can be compared.
    let output = series(&four("3"));
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains(why), "{}", said(&output));
}

#[test]
fn arrays_replay_recordings() {
    let trace = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/sqlite.parquet");
    let output = trimtab(&[
        "--random",
        "1",
        "--first",
        "15",
        "--seed",
        "5",
        "--strategies",
        "c3",
        "--trace",
        trace,
        "--json",
        "-",
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(told["recordings"][0], "sqlite.parquet");
    let traits = &told["arrays"][0]["traits"];
    assert_eq!(
        (&traits["arrivals"], &traits["recording"]),
        (&"recorded".into(), &"sqlite.parquet".into())
    );
}

#[test]
fn bad_input_and_an_early_end_are_said_in_one_line() {
    for (args, expected) in [
        (&["--random", "0", "--seed", "1"][..], "0 is not in 1.."),
        (&["--random", "1"], "--seed <S>"),
        (&["--random", "1", "--seed", "1", "--strategies", "hedges"], "unknown strategy `hedges`"),
        (&["--random", "1", "--seed", "1", "--set", "tuning.margin = 7"], "`tuning.margin`"),
        (&["--random", "1", "--seed", "1", "--row", "{ strategy = 3 }"], "string"),
        (&["--random", "1", "--seed", "1", "s.toml"], "cannot be used with"),
        (&["--random", "1", "--seed", "1", "--minutes", "-1"], "minutes"),
        (&["--random", "1", "--seed", "1", "--trace", "no-such.csv"], "no-such.csv: cannot open"),
        (&["--random", "1", "--seed", "1", "--trace", "/dev/null"], "/dev/null: "),
        (&["s.toml", "--trace", "t.csv"], "cannot be used with"),
        (&["s.toml", "--seed", "4"], "cannot be used with"),
        (&["s.toml", "--minutes", "4"], "cannot be used with"),
    ] {
        let output = trimtab(args);
        let error = said(&output);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
        assert!(error.contains(expected) && error.lines().count() == 1, "{args:?}: {error}");
    }
    let output = series(&["--minutes", "0"]);
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    assert!(said(&output).contains("the time ended it after 0 of 2 arrays"), "{}", said(&output));
}
