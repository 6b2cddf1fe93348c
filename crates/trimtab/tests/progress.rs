//! Long work shows progress on a terminal, and nothing in a pipe.

mod emulated;
mod place;

use std::fmt::Write as _;
use std::process::{Command, Output};

use emulated::Bench;
use place::Place;

/// Reads and writes 50 µs apart, of which one in twenty is slow.
fn recording(requests: u64) -> String {
    let mut csv = String::new();
    for i in 0..requests {
        let kind = if i % 4 == 0 { "Write" } else { "Read" };
        let response = if i % 200 < 10 { 20_000 + i % 500 } else { 1_000 + i % 900 };
        let (time, offset) = (132_444_736_000_000_000 + i * 500, i * 7_919 % 100_000 * 4096);
        writeln!(csv, "{time},srv,0,{kind},{offset},4096,{response}").unwrap();
    }
    csv
}

/// The output of a command on a terminal, including carriage returns.
fn on_terminal(place: &Place, command: &str) -> String {
    let program = env!("CARGO_BIN_EXE_trimtab");
    let output: Output = Command::new("script")
        .args(["-qec", &format!("'{program}' {command}"), "/dev/null"])
        .current_dir(place.path(""))
        .env("TERM", "xterm")
        .output()
        .expect("script runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn long_work_shows_progress_on_a_terminal_only() {
    if !trimtab_testdisk::requires(&[trimtab_testdisk::Feature::Program("script")]) {
        return;
    }
    let place = Place::new(&[
        ("long.csv", &recording(2_400_000)),
        ("a.csv", &recording(80_000)),
        ("b.csv", &recording(80_001)),
    ]);
    for (command, part) in [
        ("trace info long.csv", "million records"),
        ("trace report long.csv -o long.html", "million records"),
        ("trace convert long.csv -o long.parquet", "million records"),
        ("trace cut long.csv --from 1ms -o cut.parquet", "million records"),
        ("trace rerate long.csv --factor 2 -o rerated.parquet", "million records"),
        // "training" or, on a fast machine, "scoring".
        ("evaluate --trace a.csv", "ing "),
        ("train --trace a.csv -o a.safetensors", "training"),
        ("advise a.csv b.csv", "training"),
    ] {
        let shown = on_terminal(&place, command);
        assert!(shown.contains(part), "{command}: {shown}");
        // The line is erased in the end.
        assert!(shown.contains("\r\u{1b}[K"), "{command}: {shown}");
    }
    // In a pipe there is no progress line, and no control characters.
    for command in ["trace info long.csv", "advise a.csv b.csv"] {
        let args: Vec<_> = command.split(' ').collect();
        let output = place.command(&args).output().unwrap();
        assert!(output.status.success());
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{command}");
    }
}

/// The check takes a minute, with no other output.
#[test]
fn drive_check_shows_the_current_measurement() {
    let Some(bench) = Bench::new(&["script"]) else { return };
    let check = format!("'{}' drive check --duration 200ms", env!("CARGO_BIN_EXE_trimtab"));
    let output = Command::new("script")
        .args(["-qec", &check, "/dev/null"])
        .env("TRIMTAB_RUN", bench.path(""))
        .env("TERM", "xterm")
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{shown}");
    for part in ["watching an idle server; 1 s", "measurement 4 of 9: 1 drive, 8 in flight"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    // The table follows after the line is erased.
    assert!(shown.rfind("\r\u{1b}[K") < shown.find("added p50"), "{shown}");
}
