//! A full device is an error of every command that writes to it: failure, no partial file, one
//! line that names it.

mod place;

use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::Path;
use std::process::Output;

use place::Place;

fn place() -> Place {
    let mut csv = String::new();
    for i in 0..4_000_u64 {
        let kind = if i % 4 == 0 { "Write" } else { "Read" };
        let response = if i % 200 < 10 { 20_000 + i % 500 } else { 1_000 + i % 900 };
        let time = 132_444_736_000_000_000 + i * 500;
        writeln!(csv, "{time},srv,0,{kind},{},4096,{response}", i * 7_919 % 1_000 * 4096).unwrap();
    }
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let example = |name: &str| fs::read_to_string(examples.join(name)).unwrap();
    let synth = example("synth-closed.toml");
    Place::new(&[("a.csv", &csv), ("b.csv", &csv.replace("srv", "usr")), ("synth.toml", &synth)])
}

/// Expects failure with one line of this text.
fn fails(output: &Output, says: &str, what: &str) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{what}: {stderr}");
    let last = stderr.lines().last().unwrap_or_default();
    assert!(last.contains(says) && last.contains("No space left"), "{what}: {stderr}");
}

#[test]
fn full_standard_output_is_an_error() {
    let place = place();
    for command in [
        "--help",
        "--version",
        "trace convert --help",
        "trace info a.csv",
        "trace info a.csv --json",
        "trace report a.csv --json",
        "trace convert a.csv -o out.parquet --json",
        "trace cut a.csv --from 1ms -o cut.parquet",
        "trace cut a.csv --from 1ms -o cut.parquet --json",
        "trace rerate a.csv --factor 2 -o rerated.parquet",
        "trace synth synth.toml -o synth.parquet",
        "profile list",
        "profile show consumer-a",
        "evaluate --trace a.csv",
        "evaluate --trace a.csv --json",
        "train --trace a.csv -o model.safetensors",
        "train --trace a.csv -o model.safetensors --json",
        "advise a.csv b.csv",
        "advise a.csv b.csv --json",
        "drive list",
    ] {
        let args: Vec<_> = command.split(' ').collect();
        let full = File::options().write(true).open("/dev/full").unwrap();
        let run = place.path("run");
        let output = place.command(&args).env("TRIMTAB_RUN", run).stdout(full).output().unwrap();
        fails(&output, "standard output: cannot write", command);
    }
}

#[test]
fn full_files_are_errors() {
    let place = place();
    for command in [
        "trace report a.csv -o /dev/full",
        "trace convert a.csv --to parquet -o /dev/full",
        "trace cut a.csv --from 1ms --to-format msr -o /dev/full",
        "trace rerate a.csv --factor 2 --to msr -o /dev/full",
        "trace synth synth.toml --to parquet -o /dev/full",
        "evaluate --trace a.csv --json /dev/full",
        "evaluate --trace a.csv --report /dev/full",
        "advise a.csv b.csv --json /dev/full",
    ] {
        let args: Vec<_> = command.split(' ').collect();
        let output = place.command(&args).output().unwrap();
        fails(&output, "/dev/full: cannot write", command);
    }
}

#[test]
fn zero_length_of_time_is_refused() {
    let place = place();
    for command in [
        "record sda -d 0s",
        "watch sda -i 0ms",
        "top sda -i 0s",
        "drive stat d --watch --every 0s",
        "drive check --duration 0s",
        "array cost --duration 0s",
        "drive fault d stall --for 0s",
        "trace cut a.csv --busiest 0s -o cut.parquet",
        "trace cut a.csv --to 0s -o cut.parquet",
    ] {
        let args: Vec<_> = command.split(' ').collect();
        let output = place.command(&args).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{command}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{command}: {stderr}");
        assert!(stderr.contains("`0s`") || stderr.contains("`0ms`"), "{command}: {stderr}");
    }
}
