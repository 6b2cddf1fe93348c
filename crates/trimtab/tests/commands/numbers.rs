//! Every number in every description has a range: each is set to values that no key accepts,
//! and to values that few accept. A new key without a range fails here.

#[path = "../place/mod.rs"]
mod place;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use place::Place;
use rustix::process::{Pid, Signal, kill_process};
use toml::{Table, Value};

/// Values as TOML text, and whether any key accepts them.
const VALUES: [(&str, bool); 9] = [
    ("-1", false),
    ("-1.5", false),
    ("nan", false),
    ("inf", false),
    ("-inf", false),
    ("1e308", false),
    ("0", true),
    ("9223372036854775807", true),
    ("18446744073709551615", true),
];

/// Keys that accept any whole number.
const UNBOUNDED: [&str; 3] = ["seed", "seeds", "offsets.run_requests"];

/// Some examples replay traces that are not part of the repository.
const FOLDER: &str = "set the environment variable";

/// A description with a value in place of one of its numbers.
struct Case {
    file: String,
    key: String,
    value: &'static str,
    may_pass: bool,
    text: String,
}

/// The positions of all numbers of a description, as paths of keys and indices.
fn numbers(value: &Value, path: &mut Vec<String>, found: &mut Vec<Vec<String>>) {
    match value {
        Value::Integer(_) | Value::Float(_) => found.push(path.clone()),
        Value::Array(list) => {
            for (i, entry) in list.iter().enumerate() {
                path.push(i.to_string());
                numbers(entry, path, found);
                path.pop();
            }
        }
        Value::Table(table) => {
            for (key, entry) in table {
                path.push(key.clone());
                numbers(entry, path, found);
                path.pop();
            }
        }
        _ => {}
    }
}

fn at<'v>(mut value: &'v mut Value, path: &[String]) -> &'v mut Value {
    for step in path {
        value = match value {
            Value::Array(list) => &mut list[step.parse::<usize>().unwrap()],
            Value::Table(table) => table.get_mut(step).unwrap(),
            _ => unreachable!("a path goes through tables and lists"),
        };
    }
    value
}

/// All cases of the descriptions, without keys that occurred before.
fn cases(descriptions: &[(String, String)]) -> Vec<Case> {
    const MARK: &str = "NUMBER-UNDER-TEST";
    let mut seen = BTreeMap::new();
    let mut all = Vec::new();
    for (file, text) in descriptions {
        let whole = Value::Table(text.parse::<Table>().unwrap());
        let mut found = Vec::new();
        numbers(&whole, &mut Vec::new(), &mut found);
        assert!(!found.is_empty(), "{file}");
        for path in found {
            let named: Vec<_> = path.iter().filter(|step| step.parse::<usize>().is_err()).collect();
            let key = named.iter().map(|step| step.as_str()).collect::<Vec<_>>().join(".");
            if seen.insert(key.clone(), ()).is_some() {
                continue;
            }
            let mut marked = whole.clone();
            *at(&mut marked, &path) = Value::String(MARK.to_owned());
            let marked = toml::to_string(&marked).unwrap();
            for (value, may_pass) in VALUES {
                let text = marked.replace(&format!("\"{MARK}\""), value);
                all.push(Case { file: file.clone(), key: key.clone(), value, may_pass, text });
            }
        }
    }
    all
}

fn example(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples")).join(name)
}

fn examples(beginning: &str) -> Vec<(String, String)> {
    let mut names: Vec<String> = fs::read_dir(example(""))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with(beginning) && name.ends_with(".toml"))
        .collect();
    names.sort();
    assert!(!names.is_empty(), "{beginning}");
    names
        .into_iter()
        .map(|name| (name.clone(), fs::read_to_string(example(&name)).unwrap()))
        .collect()
}

/// Runs a command on each case. Expects one line that names the file and the key or the line,
/// or, for values that may pass, a run that works. A long run is ended by SIGTERM. `otherwise`
/// is the command's complaint about a valid description.
fn all_are_checked(descriptions: &[(String, String)], command: &[&str], otherwise: Option<&str>) {
    let place = Place::new(&[]);
    for name in ["own.toml", "drive-two-planes.toml", "sqlite.parquet"] {
        if example(name).exists() {
            fs::copy(example(name), place.path(name)).unwrap();
        }
    }
    for case in cases(descriptions) {
        let Case { file, key, value, may_pass, text } = &case;
        let what = format!("{file}: {key} = {value}");
        fs::write(place.path("case.toml"), text).unwrap();
        let output = ended(&place, command, &what);
        let said = String::from_utf8_lossy(&output.stderr);
        let passed = otherwise.is_some_and(|complaint| said.contains(complaint));
        if output.status.code() == Some(2) && !passed {
            assert_eq!(said.lines().count(), 1, "{what}: {said}");
            // An error during the run need not name the file.
            let last = key.rsplit('.').next().unwrap();
            let names_place = said.contains("case.toml: ") && said.contains("line ");
            assert!(names_place || said.contains(last), "{what}: {said}");
            continue;
        }
        assert_ne!(output.status.code(), Some(101), "{what}: {said}");
        let unbounded = UNBOUNDED.iter().any(|known| key.ends_with(known));
        let whole = value.bytes().all(|byte| byte.is_ascii_digit());
        assert!(*may_pass && (unbounded || *value == "0") && whole, "{what} was accepted: {said}");
    }
}

/// The command's output; a long run must obey SIGTERM.
fn ended(place: &Place, command: &[&str], what: &str) -> Output {
    let mut command = place.command(command);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let begun = Instant::now();
    let mut asked = false;
    while child.try_wait().unwrap().is_none() {
        if begun.elapsed() > Duration::from_millis(400) && !asked {
            kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
            asked = true;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}: does not end on SIGTERM");
        std::thread::sleep(Duration::from_millis(2));
    }
    child.wait_with_output().unwrap()
}

/// Small scenarios, so that those that pass end soon.
#[test]
fn scenarios() {
    let fill = "fill = { share = 0.5, kind = 'aged', overwrites = 1 }\n";
    let device = |more: &str, workload: &str| {
        format!(
            "seed = 1\nwarm_up_requests = 10\nwarm_up_s = 0.001\nrequests = 1000\nduration_s = 1\n\
             [[device]]\nprofile = 'reference'\ncapacity = '12G'\n{fill}{more}\n\
             [device.workload]\n{workload}\n"
        )
    };
    let synthetic = "queue = 0\nread_share = 0.5\nalign_bytes = 4096\ncapacity_gb = 1\nrate = 2\n\
                     requests = 100\nduration_s = 1\nseed = 7\n\
                     sizes = [{ bytes = 4096, weight = 1 }]\n\
                     write_sizes = [{ bytes = 8192, weight = 1 }]\n";
    let with = |kinds: &str| [synthetic, kinds].concat();
    let bursty =
        "arrivals = { kind = 'bursty', on_iops = 100, off_iops = 10, on_ms = 1, off_ms = 1 }";
    let closed = "arrivals = { kind = 'closed', queue_depth = 1, think_us = 1 }";
    let all = vec![
        device(
            "host = { submission_queues = 2, queue_depth = 8 }",
            &with(
                "arrivals = { kind = 'poisson', iops = 100 }\noffsets = { kind = 'zipf', theta = 0.5 }",
            ),
        ),
        device(
            "",
            &with(&format!(
                "{bursty}\noffsets = {{ kind = 'sequential', streams = 1, run_requests = 4 }}"
            )),
        ),
        device(
            "",
            &with(&format!("{closed}\noffsets = {{ kind = 'uniform' }}")).replace("rate = 2\n", ""),
        ),
        device(
            "",
            "trace = 'sqlite.parquet'\noffsets = 'wrap'\nrate = 2\nbegin_s = 0\nspread_s = 0",
        ),
    ];
    let mut all: Vec<_> = all.into_iter().map(|text| ("scenario".to_owned(), text)).collect();
    // Keys that occur only in the examples.
    all.extend(examples("sim-"));
    all_are_checked(&all, &["sim", "run", "--quiet", "case.toml"], Some(FOLDER));
}

#[test]
fn comparisons() {
    let mut all = examples("compare-");
    all.extend(examples("live-"));
    all_are_checked(&all, &["compare", "--quiet", "case.toml"], Some(FOLDER));
}

#[test]
fn profiles() {
    let mut all = Vec::new();
    for name in ["reference", "femu", "openchannel", "consumer-a", "disk-7200"] {
        let shown = Place::new(&[]).command(&["profile", "show", name]).output().unwrap();
        all.push((name.to_owned(), String::from_utf8(shown.stdout).unwrap()));
    }
    all.push((
        "two planes".to_owned(),
        fs::read_to_string(example("drive-two-planes.toml")).unwrap(),
    ));
    all_are_checked(&all, &["profile", "show", "case.toml"], None);
}

#[test]
fn synthetic_traces() {
    all_are_checked(
        &examples("synth-"),
        &["trace", "synth", "case.toml", "-o", "out.parquet"],
        None,
    );
}

#[test]
fn agents() {
    let config = "recording_mib = 32\nretrain_pause_s = 1\ndrift_check_s = 1\n\
                  [[drive]]\ndevice = 'no-such-drive'\n";
    all_are_checked(
        &[("agent".to_owned(), config.to_owned())],
        &["agent", "--check", "--config", "case.toml"],
        Some("no-such-drive"),
    );
}

/// The drive's name is invalid, so that no drive is made if the rest is valid.
#[test]
fn fault_schedules() {
    all_are_checked(
        &examples("drive-faults"),
        &["drive", "create", "", "--faults", "case.toml"],
        Some("a drive's name is"),
    );
}

/// The same for options: none accepts a number outside its range.
#[test]
fn options() {
    let place = Place::new(&[("a.csv", "128166372000000000,srv,0,Read,0,4096,700\n")]);
    let train = ["train", "--trace", "a.csv", "-o", "m"];
    let evaluate = ["evaluate", "--trace", "a.csv"];
    let create = ["drive", "create", "x"];
    let rerate = ["trace", "rerate", "a.csv", "-o", "x.parquet"];
    for (command, option, values) in [
        (&train[..], "--first", &["-1", "0", "nan", "inf", "1e308"][..]),
        (&train, "--steered", &["-1", "nan", "inf", "1e308"]),
        (&train, "--samples", &["-1", "nan", "1e308", "18446744073709551616"]),
        (&train, "--seed", &["-1", "nan", "1e308", "18446744073709551616"]),
        (&evaluate, "--seed", &["-1", "nan", "1e308", "18446744073709551616"]),
        (&train, "--max-spool", &["-1", "-1G", "nan", "inf", "1e308G", "99999999T"]),
        (&create, "--fill", &["-1", "nan", "inf", "-inf", "1e308"]),
        (&create, "--overwrites", &["-1", "nan", "inf", "-inf", "1e308"]),
        (&create, "--size", &["-1", "nan", "0G", "99999999T"]),
        (&create, "--block-size", &["-1", "nan", "0", "1e308"]),
        (&create, "--lead", &["-1", "nan", "inf", "999999999999h"]),
        (&rerate, "--factor", &["-1", "0", "nan", "inf", "1e308"]),
        (&rerate, "--iops", &["-1", "0", "nan", "inf", "1e308"]),
    ] {
        for value in values {
            let option = format!("{option}={value}");
            let output = place.command(&[command, &[&option]].concat()).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{command:?} {option}: {said}");
            assert_eq!(said.lines().count(), 1, "{command:?} {option}: {said}");
        }
    }
}
