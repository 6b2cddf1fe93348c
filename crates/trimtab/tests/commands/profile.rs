//! `trimtab profile` as users run it.

use std::process::{Command, Output};

fn profile(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trimtab"));
    command.arg("profile").args(args).output().unwrap()
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

/// The single line of an error that the user can correct.
fn error(args: &[&str]) -> String {
    let output = profile(args);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(output.stdout.is_empty());
    assert_eq!(text.lines().count(), 1, "{text}");
    text
}

fn json(args: &[&str]) -> serde_json::Value {
    let output = profile(args);
    assert!(output.status.success());
    serde_json::from_str(stdout(&output)).unwrap()
}

#[test]
fn list_is_aligned() {
    let output = profile(&["list"]);
    assert!(output.status.success());
    let lines: Vec<_> = stdout(&output).lines().collect();
    assert!(lines[0].starts_with("name "));
    let line = lines.iter().find(|line| line.starts_with("openchannel ")).unwrap();
    for figure in ["16 × 8", "16.0 KiB", "40.0 µs", "1.00 ms – 2.00 ms", "6.00 ms", "–"] {
        assert!(line.contains(figure), "{figure}: {line}");
    }
    let about = |line: &str, word| line[..line.find(word).unwrap()].chars().count();
    assert_eq!(about(lines[0], "about"), about(line, "Host-managed"));
}

#[test]
fn list_as_json_has_units_in_its_names() {
    let list = json(&["list", "--json"]);
    let names: Vec<_> = list.as_array().unwrap().iter().map(|p| p["name"].clone()).collect();
    assert_eq!(names[0], "reference");
    assert_eq!(names.len(), 16);
    assert!(names.iter().any(|name| name == "disk-7200"));
    let femu = list.as_array().unwrap().iter().find(|p| p["name"] == "femu").unwrap();
    assert_eq!(femu["capacity_bytes"], 12_u64 << 30);
    assert_eq!(femu["channels"], 8);
    assert_eq!(femu["dies_per_channel"], 8);
    assert_eq!(femu["read_us"], 40.0);
    assert_eq!(femu["program_us_max"], 140.0);
}

#[test]
fn shown_profiles_can_be_read_again() {
    let dir = tempfile::tempdir().unwrap();
    for name in json(&["list", "--json"]).as_array().unwrap() {
        let name = name["name"].as_str().unwrap();
        let shown = profile(&["show", name]);
        let path = dir.path().join(format!("{name}.toml"));
        std::fs::write(&path, stdout(&shown)).unwrap();
        let again = profile(&["show", path.to_str().unwrap()]);
        assert_eq!(stdout(&again), stdout(&shown), "{name}");
        let last = if name.starts_with("disk-") { "[queue]" } else { "[wear]" };
        assert!(stdout(&shown).contains(last), "{name} leaves defaults out");
    }
}

#[test]
fn show_as_json_has_the_keys_of_the_toml() {
    let shown = json(&["show", "970", "--json"]);
    assert_eq!(shown["geometry"]["blocks_per_plane"], 2731);
    assert_eq!(shown["gc"]["watermarks_of"], "over-provisioning");
}

#[test]
fn capacity_changes_the_blocks_only() {
    let whole = json(&["show", "ocssd", "--json"]);
    let mut scaled = json(&["show", "ocssd", "--json", "--capacity", "64G"]);
    // 64 GiB / 0.88 / (128 dies of 8 MiB blocks)
    assert_eq!(scaled["geometry"]["blocks_per_plane"], 73);
    scaled["geometry"]["blocks_per_plane"] = whole["geometry"]["blocks_per_plane"].clone();
    assert_eq!(scaled, whole);
}

#[test]
fn errors_name_the_problem() {
    let text = error(&["show", "p4601"]);
    assert!(text.contains("`p4601`") && text.contains("reference, ioda-sim, "), "{text}");
    let text = error(&["show", "no-such-file.toml"]);
    assert!(text.contains("no-such-file.toml: cannot read"), "{text}");
    let text = error(&["show", "femu", "--capacity", "64"]);
    assert!(text.contains("such as 512M, 64G"), "{text}");
    let text = error(&["show", "femu", "--capacity", "1M"]);
    assert!(text.contains("femu with --capacity") && text.contains("blocks_per_plane"), "{text}");
    error(&["show", "femu", "--capacity", "9999999T"]);

    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("mine.toml");
    let shown = profile(&["show", "reference"]);
    let broken = |from: &str, to: &str| {
        assert!(stdout(&shown).contains(from));
        std::fs::write(&path, stdout(&shown).replacen(from, to, 1)).unwrap();
        error(&["show", path.to_str().unwrap()])
    };
    let text = broken("channels = 8", "channels = 0");
    assert!(text.contains("mine.toml: geometry.channels must be from 1 to 256, not 0"), "{text}");
    let text = broken("channels = 8", "chanels = 8");
    assert!(text.contains("mine.toml: line 5: unknown field `chanels`"), "{text}");
    let text = broken("victim = \"greedy\"", "victim = \"greed\"");
    assert!(text.contains("unknown variant `greed`"), "{text}");
    let text = broken("[wear]", "[wear");
    assert!(text.contains("mine.toml: line "), "{text}");
    std::fs::write(&path, [0xff, 0xfe]).unwrap();
    error(&["show", path.to_str().unwrap()]);
    error(&["show", dir.path().to_str().unwrap()]);
}

#[test]
fn queue_makes_a_model_of_a_profile() {
    let directory = tempfile::tempdir().unwrap();
    let model = directory.path().join("disk.safetensors");
    let model = model.to_str().unwrap();
    let args = ["queue", "disk-7200", "--deadline", "20ms", "--json", "-o", model];
    let card = json(&args);
    assert_eq!((&card["predictor"], &card["queue"]["parallel"]), (&"mitt-state".into(), &1.into()));
    // The data sheet's mean seek of 8.5 ms, half a revolution of 8.33 ms, and the command.
    let read_ms = card["queue"]["read_ns"].as_f64().unwrap() / 1e6;
    assert!((read_ms - 12.7).abs() < 1.0, "{read_ms}");
    let near = json(&[&args[..], &["--span", "1G"]].concat());
    assert!(near["queue"]["read_ns"].as_f64().unwrap() / 1e6 < 7.0, "{near}");
    let flash = json(&["queue", "openchannel", "--deadline", "1ms", "--json", "-o", model]);
    assert_eq!(
        (&flash["queue"]["parallel"], &flash["queue"]["read_ns"]),
        (&128.into(), &41_500.into())
    );
    assert!(
        error(&["queue", "disk-7200", "--deadline", "0ms", "-o", model]).contains("above zero")
    );
    let bad: [(&[&str], &str); 5] = [
        (&["disk-7200", "--deadline=-5ms"], "such as 500us"),
        (&["disk-7200", "--deadline", "9999h"], "no read takes as long as `9999h`"),
        (&["disk-7200", "--deadline", "5ms", "--span", "2T"], "more than disk-7200 has"),
        (&["disk-7200", "--deadline", "5ms", "--span", "0"], "expected a size"),
        (&["openchannel", "--deadline", "5ms", "--span", "1G"], "is flash, which has no seeks"),
    ];
    for (args, said) in bad {
        let text = error(&[&["queue"], args, &["-o", model]].concat());
        assert!(text.contains(said), "{args:?}: {text}");
    }
    let text = error(&["queue", "disk-7200", "--deadline", "1ms", "-o", "a.json"]);
    assert!(text.contains("a.json: .json is the card's ending"), "{text}");
}

#[test]
fn help_has_an_example() {
    for args in [&["--help"][..], &["list", "--help"], &["show", "--help"]] {
        assert!(stdout(&profile(args)).contains("Examples:"), "{args:?}");
    }
}
