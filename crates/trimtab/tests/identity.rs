//! The identity of a drive, from a recording to the users of its model.

mod drive;
mod place;

use std::fs;

use place::Place;
use serde_json::Value;
use trimtab_testdisk::{self as disk, LoopDisk};

const LEARN: [&str; 5] = ["train", "--predictor", "heur-sim", "--label", "p95"];

impl Place {
    /// Runs the program, which must succeed.
    fn done(&self, args: &[&str]) {
        let output = self.command(args).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Trains on a recording. Returns the drive's identity in the model's card.
    fn learn(&self, trace: &str, model: &str, more: &[&str]) -> Value {
        let out = format!("{model}.safetensors");
        self.done(&[&LEARN[..], &["--trace", trace, "-o", &out], more].concat());
        let card = fs::read(self.path(&format!("{model}.json"))).unwrap();
        let card: Value = serde_json::from_slice(&card).unwrap();
        card["drive"].clone()
    }

    /// Records two thousand reads of a disk. (The kernel may hide some completions: exit code
    /// 3.)
    fn record(&self, disk: &LoopDisk, out: &str) {
        let load =
            format!("dd if={} of=/dev/null bs=4k count=2000 iflag=direct status=none", disk.path);
        let mut command = self.command(&["record", &disk.path, "--out", out, "--"]);
        let output = command.args(["sh", "-c", &load]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(matches!(output.status.code(), Some(0 | 3)), "{said}");
    }
}

#[test]
fn model_names_its_drive_and_is_used_for_no_other() {
    if !disk::requires(disk::REAL_DISKS) {
        return;
    }
    let (here, like_it, other) = (LoopDisk::new(16), LoopDisk::new(16), LoopDisk::new(32));
    let place = Place::new(&[]);
    place.record(&here, "a.parquet");
    let expected = serde_json::json!({ "bytes": 16 << 20 });
    assert_eq!(place.learn("a.parquet", "m", &[]), expected);
    // A converted recording has the same identity.
    place.done(&["trace", "convert", "a.parquet", "-o", "b.parquet"]);
    assert_eq!(place.learn("b.parquet", "b", &[]), expected);
    assert_eq!(place.learn("b.parquet", "any", &["--any-drive"]), Value::Null);
    // Other formats cannot hold it.
    place.done(&["trace", "convert", "a.parquet", "-o", "c.csv"]);
    assert_eq!(place.learn("c.csv", "c", &[]), Value::Null);

    let model = |disk: &LoopDisk, model: &str| {
        let args = ["watch", &disk.path, "--model", model, "--count", "1", "--interval", "20ms"];
        let output = place.command(&args).arg("--json").output().unwrap();
        assert!(output.status.success());
        let shown: Value = serde_json::from_slice(&output.stdout).unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        (shown["refused"].is_array(), said)
    };
    assert_eq!(model(&here, "m.safetensors"), (true, String::new()));
    assert_eq!(model(&like_it, "m.safetensors"), (true, String::new()));
    assert_eq!(model(&other, "any.safetensors"), (true, String::new()));
    let (is_used, said) = model(&other, "m.safetensors");
    let reason = "the model was trained on a drive of capacity 16777216 bytes, this one's is \
                  33554432 bytes\n";
    let name = other.name();
    assert!(!is_used);
    assert_eq!(said, format!("trimtab: watch: {name}: no model used: {reason}"));

    // `top` scores the model nevertheless, and reports the difference.
    let of_another = |disk: &LoopDisk| {
        let model = format!("{}=m.safetensors", disk.path);
        let args = ["top", &disk.path, "--model", &model, "--count", "1", "--json"];
        let output = place.command(&args).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        let shown: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(shown["facts"]["model"].is_string(), "{shown}");
        shown["facts"]["of another drive"].clone()
    };
    assert_eq!(of_another(&like_it), Value::Null);
    assert_eq!(of_another(&other), reason.trim_end());

    let checked = |disk: &LoopDisk| {
        let config = format!("[[drive]]\ndevice = \"{}\"\nmodel = \"m.safetensors\"\n", disk.path);
        fs::write(place.path("agent.toml"), config).unwrap();
        let args = ["agent", "--config", "agent.toml", "--check"];
        let output = place.command(&args).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(checked(&like_it).0, Some(0));
    let refused = (Some(2), format!("trimtab: error: m.safetensors: {reason}"));
    assert_eq!(checked(&other), refused);
}

/// Older recordings have no identity.
#[test]
fn without_a_note_the_drive_is_unknown() {
    let place = Place::new(&[("a.csv", &drive::recording(3000, 1, false))]);
    assert_eq!(place.learn("a.csv", "m", &[]), Value::Null);
}
