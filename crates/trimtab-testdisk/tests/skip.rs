//! A test that cannot run is reported and counted, or fails if it is required. The tests at
//! the end are run in separate processes for that.

use std::path::Path;
use std::process::{Command, Output};

use trimtab_testdisk::{Feature, requires, skip};

/// Runs one of the tests below on a machine with no program and no traces.
fn run(test: &str, skipped: &Path, required: Option<&str>) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([test, "--exact", "--ignored", "--test-threads=2"]);
    command.env("TRIMTAB_SKIPPED", skipped).env("PATH", "/nonexistent");
    command.env_remove("TRIMTAB_TRACES").env_remove("TRIMTAB_REQUIRE");
    command.envs(required.map(|required| ("TRIMTAB_REQUIRE", required)));
    command.output().unwrap()
}

/// Returns the output on standard error, and that in the file.
fn run_in(directory: &Path, test: &str, required: Option<&str>) -> (bool, String, String) {
    let file = directory.join("skipped");
    let output = run(test, &file, required);
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(said).unwrap(), text)
}

#[test]
fn skipped_test_passes_and_is_counted() {
    let directory = tempfile::tempdir().unwrap();
    let (passed, said, text) = run_in(directory.path(), "needs_fio", None);
    assert!(passed && said.contains("skipped skip::needs_fio: needs the program fio"), "{said}");
    assert_eq!(text, "fio\tskip::needs_fio\tneeds the program fio\n");
    // The file is added to.
    let (passed, said, text) = run_in(directory.path(), "finds_out", Some("root-is-not,fio"));
    assert!(!passed && said.contains("there is no feature `root-is-not`"), "{said}");
    assert_eq!(text.lines().count(), 1);
    let (passed, said, text) = run_in(directory.path(), "finds_out", Some("traces, fio"));
    assert!(passed, "{said}");
    assert_eq!(text.lines().nth(1).unwrap(), "io_uring\tskip::finds_out\trefused by the kernel");
}

#[test]
fn missing_required_feature_fails_the_test() {
    for (test, required) in
        [("needs_fio", "fio"), ("needs_fio", "traces,fio"), ("finds_out", "io_uring")]
    {
        let directory = tempfile::tempdir().unwrap();
        let (passed, said, text) = run_in(directory.path(), test, Some(required));
        assert!(!passed && said.contains("cannot be skipped, as TRIMTAB_REQUIRE names"), "{said}");
        assert_eq!(text, "", "{test} {required}");
    }
}

/// Also where another feature is missing too, and comes first.
#[test]
fn each_missing_feature_is_held_against_the_required_ones() {
    let directory = tempfile::tempdir().unwrap();
    let (passed, said, _) = run_in(directory.path(), "needs_much", Some("traces"));
    assert!(!passed && said.contains("names `traces`"), "{said}");
}

#[test]
fn uncountable_skip_fails() {
    let nowhere = Path::new("/nonexistent/skipped");
    let output = run("needs_fio", nowhere, None);
    assert!(!output.status.success());
}

#[test]
#[ignore = "is what is tested"]
fn needs_fio() {
    assert!(!requires(&[Feature::Program("fio")]));
}

#[test]
#[ignore = "is what is tested"]
fn needs_much() {
    assert!(!requires(&[Feature::Program("fio"), Feature::Traces]));
}

#[test]
#[ignore = "is what is tested"]
fn finds_out() {
    assert!(requires(&[Feature::IoUring]));
    skip(Feature::IoUring, "refused\nby the kernel");
}
