//! `trimtab check`, as root and as an ordinary user.

use std::process::{Command, Output};

use serde_json::Value;

fn check(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_trimtab")).arg("check").args(args).output().unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).expect("it is JSON, whatever the exit code")
}

fn passed(report: &Value, name: &str) -> bool {
    let checks = report["checks"].as_array().unwrap();
    let check = checks.iter().find(|check| check["name"] == name);
    let check = check.unwrap_or_else(|| panic!("there is no check of {name}: {checks:?}"));
    let is = check["passed"].as_bool().unwrap();
    assert!(is != check["advice"].is_string(), "{check}");
    is
}

/// The exit code is for scripts: it agrees with the report.
#[test]
fn exit_code_agrees_with_predicted_reads() {
    let output = check(&["--json"]);
    let report = json(&output);
    let devices = report["devices"].as_array().unwrap();
    let any = devices.iter().any(|device| device["predicted_reads"] == true);
    assert_eq!(report["predicted_reads"], any);
    assert_eq!(output.status.code(), Some(if any { 0 } else { 1 }));
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(error.lines().count(), usize::from(!any), "{error}");
    for device in devices.iter().filter(|device| device["predicted_reads"] == false) {
        assert!(device["why"].is_string(), "{device}");
    }
}

#[test]
fn tables_use_words_without_a_terminal() {
    let output = check(&[]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("kernel") && text.contains("predicted reads"), "{text}");
    assert!(!text.contains('✓') && !text.contains('✗'), "{text}");
}

#[test]
fn unpinned_state_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let report = json(&check(&["--json", "--pins", directory.path().to_str().unwrap()]));
    assert!(!passed(&report, "state tracker"));
}

/// Only the capabilities are removed: the program may be in a directory that other users
/// cannot access.
#[test]
fn missing_capabilities_are_reported() {
    let program = env!("CARGO_BIN_EXE_trimtab");
    let output = Command::new("setpriv")
        .args(["--inh-caps=-all", "--bounding-set=-all", "--no-new-privs", "--securebits=+noroot"])
        .args([program, "check", "--json"])
        .output();
    let Ok(output) = output else { return };
    if output.stdout.is_empty() {
        // The caller lacks the privilege for that: it is an ordinary user itself.
        return;
    }
    let report = json(&output);
    for name in ["BPF capabilities", "state programs", "recording programs"] {
        assert!(!passed(&report, name), "{name}");
    }
    assert!(passed(&report, "kernel"));
}
