//! `trimtab advise` and `trimtab profile fit`, as a user runs them.

#[path = "../drive/mod.rs"]
mod drive;
#[path = "../place/mod.rs"]
mod place;

use std::fs;
use std::process::Output;

use drive::recording;
use place::Place;
use serde_json::Value;

impl Place {
    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Expects exit code 2, one line with this text, and no new file.
    fn refuses(&self, args: &[&str], expected: &str) {
        let before = fs::read_dir(self.path("")).unwrap().count();
        let output = self.run(args);
        let said = said(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(expected), "{said:?} should say {expected:?}");
        assert_eq!(said.lines().count(), 1, "{said:?}");
        assert_eq!(fs::read_dir(self.path("")).unwrap().count(), before);
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn advice_needs_several_drives() {
    let place = Place::new(&[
        ("a.csv", &recording(4000, 1, false)),
        ("b.csv", &recording(4000, 2, false)),
        ("few.csv", &recording(200, 3, false)),
    ]);
    let output = place.run(&["advise", "a.csv", "b.csv", "--json", "out.json"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("a.csv") && text.contains("inflection"), "{text}");
    let advice: Value = serde_json::from_slice(&fs::read(place.path("out.json")).unwrap()).unwrap();
    assert_eq!(advice["drives"].as_array().unwrap().len(), 2, "{advice}");
    for drive in advice["drives"].as_array().unwrap() {
        let mean = |of: &str| drive[of]["mean"].as_u64().unwrap();
        assert!(mean("best") <= mean("likely") && mean("best") <= mean("before"), "{drive}");
    }
    let again = place.run(&["advise", "a.csv", "b.csv", "--json"]);
    let mut again: Value = serde_json::from_slice(&again.stdout).unwrap();
    again["machine"] = advice["machine"].clone();
    assert_eq!(again, advice, "the same seed gives the same advice");

    place.refuses(&["advise", "a.csv"], "only one drive");
    place.refuses(&["advise", "a.csv", "few.csv"], "reads");
    place.refuses(&["advise", "a.csv", "none.csv"], "none.csv");
}

#[test]
fn profile_is_fitted() {
    let place = Place::new(&[("a.csv", &recording(3000, 1, false))]);
    let args =
        ["profile", "fit", "a.csv", "--base", "reference", "--capacity", "1G", "--models", "30"];
    let output = place.run(&[&args[..], &["-o", "a.toml", "--json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(told["base"], "reference");
    assert!((30..100).contains(&told["models_tried"].as_u64().unwrap()), "{told}");
    assert!(told["second_half"].is_object() && told["halves"].is_object(), "{told}");
    let error = told["second_half"]["read_error"].as_f64().unwrap();
    assert_eq!(told["reads_are_near"], error <= 0.2, "{told}");
    let shown = place.run(&["profile", "show", "a.toml"]);
    assert_eq!(shown.status.code(), Some(0), "{}", said(&shown));

    place.refuses(&["profile", "fit", "a.csv", "--base", "nobody", "-o", "b.toml"], "nobody");
    place.refuses(&["profile", "fit", "a.csv", "-o", "-"], "-");
    place.refuses(&["profile", "fit", "a.csv", "--models", "0", "-o", "b.toml"], "--models");
}
