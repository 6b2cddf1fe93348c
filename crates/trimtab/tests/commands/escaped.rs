//! Names and notes from outside are escaped on terminals: neither control sequences nor line
//! ends pass.

#[path = "../drive/mod.rs"]
mod drive;
#[path = "../place/mod.rs"]
mod place;

use std::fs;
use std::process::Output;

use place::Place;
use trimtab_trace::{Names, OutputFormat, Trace, TraceOptions, Writer};

/// What a terminal interprets: a new title, a line end, a C1 control, a direction mark.
const NASTY: &str = "\x1b]0;x\x07\nforged: line\u{9b}1m\u{202e}";
/// The same, escaped.
const SEEN: &str = "\\x1b]0;x\\x07\\nforged: line\\u{9b}1m\\u{202e}";

/// A file name with all of that.
fn nasty(ending: &str) -> String {
    format!("n{NASTY}.{ending}")
}

/// Two recordings, of a device and with notes whose names contain it too.
fn place() -> Place {
    let place = Place::new(&[("a.csv", &drive::recording(3000, 1, false))]);
    let trace = Trace::open(&[place.path("a.csv")], &TraceOptions::default()).unwrap();
    let mut meta = trace.meta().clone();
    meta.notes.push((format!("key{NASTY}"), format!("value{NASTY}")));
    for (name, devices) in
        [(nasty("parquet"), 1), ("plain.parquet".to_owned(), 1), (nasty("two"), 2)]
    {
        let path = place.path(&name);
        let mut trace = Trace::open(&[place.path("a.csv")], &TraceOptions::default()).unwrap();
        let mut writer = Writer::create(&path, OutputFormat::Parquet, &meta).unwrap();
        let mut names = Names::default();
        let device = |i| names.add_device(&format!("dev{NASTY}{}", ["", "2"][i])).unwrap();
        let ids: Vec<_> = (0..devices).map(device).collect();
        let mut batch = Vec::new();
        while trace.read(&mut batch).unwrap() {
            for (record, id) in batch.iter_mut().zip(ids.iter().cycle()) {
                record.device = *id;
            }
            writer.write(&batch, &names).unwrap();
        }
        writer.finish().unwrap();
    }
    place
}

/// Neither of the two streams contains anything that a terminal interprets, and the escaped
/// form is shown.
fn is_harmless(args: &[&str], output: &Output, seen: &str) {
    let streams = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    for text in &streams {
        let harmful = |c: char| c != '\n' && (c.is_control() || c == '\u{202e}');
        assert!(!text.contains(harmful), "{args:?}: {text:?}");
        assert!(!text.lines().any(|line| line.starts_with("forged")), "{args:?}: {text}");
    }
    let all = streams.concat();
    assert!(all.contains(seen), "{args:?} should show {seen:?}:\n{all}");
}

impl Place {
    fn succeeds(&self, args: &[&str], seen: &str) {
        let output = self.command(args).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{args:?}: {said}");
        is_harmless(args, &output, seen);
    }

    fn fails(&self, args: &[&str], seen: &str) {
        let output = self.command(args).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert_eq!(said.lines().count(), 1, "{args:?}: {said}");
        is_harmless(args, &output, seen);
    }
}

#[test]
fn names_from_traces_are_escaped() {
    let place = place();
    let trace = &nasty("parquet");
    let device = &format!("dev{SEEN}");
    let file = &format!("n{SEEN}.parquet");
    place.succeeds(&["trace", "info", &nasty("two")], device);
    place.succeeds(&["trace", "info", trace], file);
    place.succeeds(&["trace", "info", trace], &format!("note, key{SEEN}"));
    place.succeeds(&["trace", "info", &nasty("two"), "plain.parquet"], device);
    place.succeeds(
        &["trace", "info", "--json", trace],
        "\\u001b]0;x\\u0007\\nforged: line\\u009b1m\\u202e",
    );
    place.succeeds(&["trace", "report", trace, "-o", &nasty("html")], &format!("n{SEEN}.html"));
    place.succeeds(&["trace", "convert", trace, "-o", &nasty("csv")], &format!("n{SEEN}.csv"));
    place.succeeds(&["train", "--trace", trace, "-o", &nasty("st")], &format!("n{SEEN}.st"));
    place.succeeds(&["train", "--trace", trace, "--check", &nasty("st")], &format!("n{SEEN}.st"));
    place.succeeds(&["evaluate", "--trace", trace], file);
    place.succeeds(&["advise", trace, "plain.parquet"], &format!("n{SEEN}"));
    place.fails(&["trace", "cut", trace, "-o", "x.parquet", "--device", "sda"], device);
    place.fails(&["train", "--trace", trace, "-o", "x.st", "--device", NASTY], "\\n");
    place.fails(&["evaluate", "--trace", "plain.parquet", "--model", trace], file);
}

#[test]
fn names_from_descriptions_are_escaped() {
    let place = Place::new(&[]);
    let quoted = "\\u001b]0;x\\u0007\\nforged: line\\u009b1m\\u202e";
    let scenario = format!(
        "seed = 1\nrequests = 100\n[[device]]\nname = \"dev{quoted}\"\nprofile = 'reference'\n\
         capacity = '12G'\nfill = {{ share = 0 }}\n[device.workload]\nread_share = 0\n\
         sizes = [{{ bytes = 4096, weight = 1 }}]\noffsets = {{ kind = 'uniform' }}\n\
         arrivals = {{ kind = 'poisson', iops = 10 }}\n"
    );
    let toml = &nasty("toml");
    fs::write(place.path(toml), &scenario).unwrap();
    place.succeeds(&["sim", "run", toml], &format!("dev{SEEN}"));
    place.succeeds(&["sim", "run", toml], &format!("n{SEEN}.toml"));
    let unknown = scenario.replace("seed = 1\n", &format!("seed = 1\n\"key{quoted}\" = 1\n"));
    fs::write(place.path(toml), unknown).unwrap();
    let file = &format!("n{SEEN}.toml");
    for command in [
        &["sim", "run", toml][..],
        &["compare", toml],
        &["profile", "show", toml],
        &["trace", "synth", toml, "-o", "x.parquet"],
        &["agent", "--check", "--config", toml],
        &["drive", "create", "d", "--faults", toml],
    ] {
        place.fails(command, file);
    }
    let shown = place.command(&["profile", "show", "reference"]).output().unwrap();
    let profile = String::from_utf8(shown.stdout).unwrap();
    let name = profile.lines().find(|line| line.starts_with("name = ")).unwrap();
    fs::write(place.path(toml), profile.replacen(name, &format!("name = \"p{quoted}\""), 1))
        .unwrap();
    place.fails(&["profile", "show", toml], "name must have no control characters");
}

/// Each command that takes a file names it if it does not exist.
#[test]
fn errors_are_one_harmless_line() {
    let place = Place::new(&[("a.csv", &drive::recording(300, 1, false))]);
    let missing = &nasty("none");
    let seen = &format!("n{SEEN}.none");
    for command in [
        &["trace", "info", missing][..],
        &["trace", "report", missing, "-o", "x.html"],
        &["trace", "convert", missing, "-o", "x.parquet"],
        &["trace", "convert", "a.csv", "-o", missing],
        &["trace", "cut", missing, "-o", "x.parquet", "--to", "1s"],
        &["trace", "rerate", missing, "-o", "x.parquet", "--factor", "2"],
        &["trace", "synth", missing, "-o", "x.parquet"],
        &["sim", "run", missing],
        &["compare", missing],
        &["profile", "show", missing],
        &["profile", "fit", missing, "-o", "x.toml"],
        &["train", "--trace", missing, "-o", "x.st"],
        &["train", "--trace", "a.csv", "--check", missing],
        &["evaluate", "--trace", missing],
        &["advise", missing],
        &["agent", "--check", "--config", missing],
        &["drive", "create", "d", "--faults", missing],
        &["drive", "create", "d", "--profile", missing],
    ] {
        place.fails(command, seen);
    }
    // The parser of the command line reports errors separately.
    place.fails(&["trace", "info", "--max-spool", missing, "a.csv"], "\\x1b]0;x\\x07");
    place.fails(&[NASTY], "\\x1b]0;x\\x07");
}
