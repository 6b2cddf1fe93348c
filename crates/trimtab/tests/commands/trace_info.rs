//! `trimtab trace info` as users run it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Four reads and a write on two disks within 2 s, response time 1 ms.
const TRACE: &str = "\
128166372000000000,usr,0,Read,0,4096,10000
128166372005000000,usr,0,Read,4096,4096,10000
128166372010000000,usr,1,Write,8192,8192,10000
128166372015000000,usr,0,Read,8192,4096,10000
128166372020000000,usr,0,Read,0,4096,10000
";

fn info(args: &[&str], files: &[&Path]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trimtab"));
    command.args(["trace", "info"]).args(args).args(files).output().unwrap()
}

fn write(dir: &tempfile::TempDir, name: &str, content: &str) -> PathBuf {
    let path = dir.path().join(name);
    std::fs::write(&path, content).unwrap();
    path
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

#[test]
fn text_has_the_figures() {
    let dir = tempfile::tempdir().unwrap();
    let output = info(&[], &[&write(&dir, "a.csv", TRACE)]);
    assert!(output.status.success(), "{}", stderr(&output));
    let figure = |label: &str| {
        let line = stdout(&output).lines().find(|line| line.starts_with(label));
        line.unwrap_or_else(|| panic!("{label}")).split_whitespace().last().unwrap().to_owned()
    };
    assert_eq!(figure("requests"), "5");
    assert_eq!(figure("devices"), "2");
    assert_eq!(figure("reads of all data"), "80.0%");
    assert_eq!(figure("mean IOPS"), "2.50");
    assert_eq!(figure("peak IOPS, 1 s"), "2.00");
    assert_eq!(figure("peak IOPS, 10 s"), "–");
    assert_eq!(figure("sequential"), "40.0%");
    assert!(stdout(&output).contains("footprint               20.0 KiB"));
    assert!(stdout(&output).contains("Response time"));
    assert!(!stdout(&output).contains("Service time"));
}

#[test]
fn json_has_units_in_its_names() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (write(&dir, "a.csv", TRACE), write(&dir, "b.csv", TRACE));
    let output = info(&["--json"], &[&a, &b]);
    assert!(output.status.success(), "{}", stderr(&output));
    let traces: serde_json::Value = serde_json::from_str(stdout(&output)).unwrap();
    assert_eq!(traces.as_array().unwrap().len(), 2);
    assert_eq!(traces[1]["file"], b.to_str().unwrap());
    let trace = &traces[0];
    assert_eq!(trace["format"], "msr");
    assert_eq!(trace["requests"], 5);
    assert_eq!(trace["duration_ns"], 2_000_000_000_u64);
    assert_eq!(trace["rates"]["mean_iops"], 2.5);
    assert_eq!(trace["rates"]["peaks"][0]["iops"], 2.0);
    assert_eq!(trace["ops"][0]["op"], "read");
    assert_eq!(trace["ops"][0]["response"]["mean_ns"], 1_000_000);
    assert_eq!(trace["footprint"]["bytes"], 20_480);
    assert_eq!(trace["footprint"]["exact"], true);
    assert_eq!(trace["inter_arrival"]["coefficient_of_variation"], 0.0);
    assert_eq!(trace["queue_depth"]["max"], 0);
    assert_eq!(trace["devices"]["top"][0]["name"], "usr.0");
}

#[test]
fn traces_stand_side_by_side() {
    let dir = tempfile::tempdir().unwrap();
    let files = [write(&dir, "a.csv", TRACE), write(&dir, "b.csv", TRACE)];
    let output = info(&[], &[&files[0], &files[1]]);
    let requests = stdout(&output).lines().find(|line| line.starts_with("requests")).unwrap();
    assert_eq!(requests.split_whitespace().collect::<Vec<_>>(), ["requests", "5", "5"]);
}

#[test]
fn bad_records_are_named_or_skipped() {
    let dir = tempfile::tempdir().unwrap();
    let bad = TRACE.replacen("Write", "Wrote", 1);
    let path = write(&dir, "bad.csv", &bad);

    let output = info(&["--format", "msr"], &[&path]);
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    assert_eq!(stderr(&output).lines().count(), 1, "{}", stderr(&output));
    assert!(stderr(&output).contains("bad.csv: line 3: "), "{}", stderr(&output));

    let output = info(&["--format", "msr", "--skip-bad", "--json"], &[&path]);
    assert_eq!(output.status.code(), Some(3));
    let traces: serde_json::Value = serde_json::from_str(stdout(&output)).unwrap();
    assert_eq!(traces[0]["requests"], 4);
    assert!(stderr(&output).contains("skipped 1 malformed record"), "{}", stderr(&output));
}

#[test]
fn missing_files_are_one_line() {
    let output = info(&[], &[Path::new("no-such-file.csv")]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(stderr(&output).lines().count(), 1);
    assert!(stderr(&output).contains("no-such-file.csv"));
}

#[test]
fn help_has_an_example() {
    let output = info(&["--help"], &[]);
    assert!(stdout(&output).contains("Examples:"));
}
