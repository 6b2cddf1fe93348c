//! Endless files as inputs: memory and time stay bounded.

#[path = "../drive/mod.rs"]
mod drive;
#[path = "../place/mod.rs"]
mod place;

use std::process::{Command, Output};

use place::Place;

impl Place {
    /// The program, limited to 2 GiB of memory: reading an endless input into memory fails
    /// before it burdens the machine.
    fn bounded(&self, args: &[&str]) -> Output {
        let mut command = Command::new("sh");
        command.args([
            "-c",
            "ulimit -v 2097152; exec \"$0\" \"$@\"",
            env!("CARGO_BIN_EXE_trimtab"),
        ]);
        command.current_dir(self.path("")).args(args).output().unwrap()
    }
}

/// The single line of an error.
fn line(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    said
}

#[test]
fn endless_descriptions_are_refused() {
    let scenario = "seed = 1\n[[device]]\nprofile = \"/dev/zero\"\n[device.workload]\n";
    let place = Place::new(&[("own.toml", scenario)]);
    for (args, expected) in [
        (&["sim", "run", "/dev/zero"][..], "is this a scenario?"),
        (&["sim", "run", "own.toml"], "is this a drive's profile?"),
        (&["compare", "/dev/zero"], "is this a comparison?"),
        (&["compare", "--live", "/dev/zero"], "is this a comparison?"),
        (&["profile", "show", "/dev/zero"], "is this a drive's profile?"),
        (&["trace", "synth", "/dev/zero", "-o", "x.parquet"], "is this a description of a trace?"),
        (&["agent", "--check", "--config", "/dev/zero"], "is this the agent's configuration?"),
        (&["drive", "create", "d", "--faults", "/dev/zero"], "is this a schedule of faults?"),
    ] {
        let said = line(&place.bounded(args));
        let expected = format!("/dev/zero: cannot read: larger than 4 MiB: {expected}");
        let expected = expected.trim_start_matches("/dev/zero: cannot read: ");
        assert!(said.contains(expected) && said.contains("/dev/zero: "), "{args:?}: {said}");
    }
}

#[test]
fn endless_models_are_refused() {
    let place = Place::new(&[("a.csv", &drive::recording(3000, 1, false))]);
    let said = line(&place.bounded(&["train", "--trace", "a.csv", "--check", "/dev/zero"]));
    assert!(
        said.contains("/dev/zero: cannot read: larger than 64 MiB: is this a model?"),
        "{said}"
    );
    let said = line(&place.bounded(&["evaluate", "--trace", "a.csv", "--model", "/dev/zero"]));
    assert!(
        said.contains("/dev/zero: cannot read: larger than 64 MiB: is this a model?"),
        "{said}"
    );
}

impl Place {
    /// A pipeline with the program in it, `$T`, whose exit code is that of the last part.
    fn pipeline(&self, script: &str) -> Output {
        let script = format!("ulimit -v 2097152; {script}");
        let mut command = Command::new("sh");
        command.args(["-c", &script]).env("T", env!("CARGO_BIN_EXE_trimtab"));
        command.current_dir(self.path("")).output().unwrap()
    }

    fn is_refused(&self, script: &str, expected: &str) {
        let said = line(&self.pipeline(script));
        assert!(said.contains(expected), "{script}: {said}");
    }
}

const MSR: &str = "128166372003061629,srv,0,Read,8192,4096,1331";

#[test]
fn endless_streams_other_than_traces_are_refused_at_once() {
    let place = Place::new(&[]);
    for input in ["/dev/zero", "- </dev/zero"] {
        let binary = "is a binary file, but neither parquet nor blktrace";
        place.is_refused(&format!("$T trace info {input}"), binary);
        place.is_refused(&format!("$T trace convert -o x.parquet {input}"), binary);
        let forced = "does not begin as a Parquet file does";
        place.is_refused(&format!("$T trace info --format parquet {input}"), forced);
        let line = "found a line of over 65536 bytes";
        place.is_refused(&format!("$T trace info --format msr {input}"), line);
        place.is_refused(&format!("$T train -o m --trace {input}"), binary);
    }
    place.is_refused("yes | $T trace info -", "is in no known trace format");
    place.is_refused("yes | gzip -c | $T trace info -", "is in no known trace format");
    place.is_refused("yes | zstd -c 2>/dev/null | $T trace info -", "is ");
}

#[test]
fn spooled_input_is_limited() {
    let place = Place::new(&[]);
    let limit = "over the limit of 4 MiB; raise that with --max-spool SIZE";
    let parquet = "{ printf PAR1; cat /dev/zero; }";
    place.is_refused(&format!("{parquet} | $T trace info --max-spool 4M -"), limit);
    place.is_refused(&format!("{parquet} | gzip -1c | $T trace info --max-spool 4M -"), limit);
    // The decompressed size counts.
    let made = place.pipeline(&format!(
        "{parquet} | head -c 64M | gzip -9c >bomb; test $(stat -c %s bomb) -lt 100000"
    ));
    assert!(made.status.success(), "{made:?}");
    place.is_refused("$T trace info --max-spool 4M bomb", limit);
    // Also for traces that a scenario names.
    let device = "[[device]]\nprofile = \"consumer-a\"\ncapacity = \"4G\"\n";
    let replay = "[workload]\ntrace = \"bomb\"\n";
    let phases = "phase_one = { duration_s = 1 }\nphase_two = { duration_s = 1 }\n";
    let its_own = replay.replace("[w", "[device.w");
    std::fs::write(place.path("sim.toml"), ["seed = 1\n", device, &its_own].concat()).unwrap();
    std::fs::write(place.path("compare.toml"), [phases, replay, device, device].concat()).unwrap();
    place.is_refused("$T sim run --max-spool 4M sim.toml", limit);
    place.is_refused("$T compare --max-spool 4M compare.toml", limit);
}

#[test]
fn endless_traces_are_limited_if_kept_in_memory() {
    let place = Place::new(&[]);
    let limit = "over the limit of 16 MiB; raise that with --max-spool SIZE";
    for command in ["trace info", "trace convert -o x.parquet", "train -o m --trace", "advise"] {
        place.is_refused(&format!("yes {MSR} | $T {command} - --max-spool 16M"), limit);
    }
    assert_eq!(std::fs::read_dir(place.path("")).unwrap().count(), 0);
}

/// Input in order is processed as it arrives, without a copy.
#[test]
fn stream_in_order_is_not_spooled() {
    let place = Place::new(&[]);
    let args = "$T trace info --max-spool 1K --json -";
    for compressed in ["cat", "gzip -c"] {
        let script = format!("yes 0,100,4096,R,0.0 | head -n 300000 | {compressed} | {args}");
        let output = place.pipeline(&script);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(told[0]["requests"], 300_000, "{told}");
    }
}

/// A stream gives the same results as a file, in every format and compression.
#[test]
fn stream_gives_the_same_results_as_a_file() {
    let place = Place::new(&[("a.csv", &drive::recording(3000, 1, false))]);
    let made = place.pipeline("$T trace convert a.csv -o a.parquet 2>/dev/null");
    assert!(made.status.success());
    for file in ["a.csv", "a.parquet"] {
        let plain = place.pipeline(&format!("$T trace info --json <{file} -")).stdout;
        let whole = place.command(&["trace", "info", "--json", file]).output().unwrap().stdout;
        let whole = String::from_utf8(whole);
        assert_eq!(whole.unwrap().replace(file, "-"), String::from_utf8(plain.clone()).unwrap());
        let gzip = place.pipeline(&format!("gzip -c {file} | $T trace info --json -")).stdout;
        assert!(!plain.is_empty() && gzip == plain, "{file}");
    }
}
