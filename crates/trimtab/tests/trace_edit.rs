//! What `trimtab trace cut`, `rerate` and `synth` refuse, and how they say so.

use std::process::Command;

const TRACE: &str = "\
128166372000000000,usr,0,Read,0,4096,10000
128166372005000000,usr,1,Read,4096,4096,10000
";

/// Runs in a directory that holds `a.csv` and `bad.toml`; the one line that it
/// says before it exits with 2, leaving no output behind.
fn refusal(args: &[&str]) -> String {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.csv"), TRACE).unwrap();
    std::fs::write(dir.path().join("bad.toml"), "seed = 1\nsead = 2\n").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_trimtab"))
        .current_dir(dir.path())
        .arg("trace")
        .args(args)
        .args(["-o", "out.parquet"])
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(!dir.path().join("out.parquet").exists());
    said
}

#[test]
fn requests_that_make_no_sense() {
    for (args, expected) in [
        (&["cut", "a.csv"][..], "nothing says what to keep"),
        (&["cut", "a.csv", "--from", "2s", "--to", "1s"], "--from must be earlier than --to"),
        (&["cut", "a.csv", "--from", "1h"], "a.csv: no request arrives in that range"),
        (&["cut", "a.csv", "--device", "sda"], "no device is called `sda`; seen were usr.0, usr.1"),
        (&["cut", "a.csv", "--device", "sda", "--busiest", "1s"], "no device is called `sda`"),
        (&["cut", "a.csv", "--busiest", "0s"], "--busiest must be longer than 0"),
        (&["cut", "-", "--busiest", "1s"], "--busiest reads the trace twice"),
        (&["rerate", "-", "--iops", "5"], "--iops reads the trace twice"),
        (&["rerate", "a.csv", "--factor", "0"], "the factor must be more than 0"),
        (&["rerate", "a.csv", "--iops", "0"], "the rate must be more than 0"),
        (&["synth", "none.toml"], "none.toml"),
        (&["synth", "bad.toml"], "bad.toml: line 2: unknown field `sead`"),
    ] {
        let said = refusal(args);
        assert!(said.contains(expected), "{args:?} said {said:?}, not {expected:?}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

#[test]
fn lengths_of_time_need_their_unit() {
    assert!(refusal(&["cut", "a.csv", "--from", "10"]).contains("such as 500us, 10ms"));
}
