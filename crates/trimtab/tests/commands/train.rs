//! `trimtab train`, as a user runs it.

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
    fn train(&self, args: &[&str]) -> Output {
        self.command(&[&["train"], args].concat()).output().unwrap()
    }

    fn card(&self, name: &str) -> Value {
        serde_json::from_str(&fs::read_to_string(self.path(name)).unwrap()).unwrap()
    }

    /// Expects exit code 2 and one line with this text, and no new file.
    fn refuses(&self, args: &[&str], expected: &str) {
        let before = fs::read_dir(self.path("")).unwrap().count();
        let output = self.train(args);
        let said = said(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(expected), "{said:?} should say {expected:?}");
        assert_eq!(said.lines().count(), 1, "{said:?}");
        assert!(output.stdout.is_empty());
        assert_eq!(fs::read_dir(self.path("")).unwrap().count(), before);
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn every_predictor_becomes_a_model_with_a_card() {
    let place = Place::new(&[("a.csv", &recording(3000, 1, false))]);
    for (predictor, features) in [("heur-sim", 1), ("heur-adv", 1), ("linnos", 31), ("trimtab", 0)]
    {
        let (out, card) = (format!("{predictor}.safetensors"), format!("{predictor}.json"));
        let output = place.train(&["--trace", "a.csv", "--predictor", predictor, "-o", &out]);
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        let text = String::from_utf8(output.stdout).unwrap();
        let value = |key: &str| {
            let line = text.lines().find(|line| line.starts_with(key)).unwrap();
            line[key.len()..].trim().to_owned()
        };
        assert_eq!((value("model"), value("predictor")), (out.clone(), predictor.to_owned()));
        assert_eq!(value("trained on"), "3,000 reads of a.csv");
        assert!(value("slow").contains("% of them, by cost: beyond "), "{text}");
        assert!(place.path(&out).exists());
        let card = place.card(&card);
        assert_eq!((&card["version"], &card["predictor"]), (&5.into(), &predictor.into()));
        if features > 0 {
            assert_eq!(card["features"], features);
        }
        assert_eq!((&card["rule"], &card["training"]["reads"]), (&"cost".into(), &3000.into()));
        assert_eq!(card["training"]["fingerprint"].as_str().unwrap().len(), 16);
        assert!(card["training"]["slow"].as_u64().unwrap() > 20);
    }
    // The drive's eight units were found: the low three bits of the page.
    let units = &place.card("trimtab.json")["units"];
    let masks = units.as_array().unwrap().iter().find_map(|unit| unit["masks"].as_array());
    let bits = masks.map(|masks| masks.iter().fold(0, |all, mask| all | mask.as_u64().unwrap()));
    let stripe = units.as_array().unwrap().iter().find_map(|unit| unit["units"].as_u64());
    assert!(bits == Some(0b111 << 12) || stripe == Some(8), "{units}");
}

#[test]
fn same_seed_gives_the_same_model() {
    let place = Place::new(&[("a.csv", &recording(3000, 1, false))]);
    let model = |name: &str, more: &[&str]| {
        let output = place.train(&[&["--trace", "a.csv", "-o", name], more].concat());
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        if more.contains(&"--json") {
            let card: Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!(card, place.card(&name.replace("safetensors", "json")));
        }
        fs::read(place.path(name)).unwrap()
    };
    let one = model("1.safetensors", &[]);
    assert!(one == model("2.safetensors", &[]));
    assert_eq!(place.card("1.json"), place.card("2.json"));
    assert!(one != model("3.safetensors", &["--seed", "2"]));
    assert!(one != model("4.safetensors", &["--first", "0.5"]));
    assert_eq!(place.card("4.json")["training"]["reads"], 1500);
    // A failover that takes longer than a slow read saves nothing.
    let failover = ["--failover", "1s"];
    assert!(one != model("6.safetensors", &failover));
    assert_eq!(place.card("6.json")["label"]["kind"], "never");
    assert_eq!(place.card("6.json")["training"]["cost"]["failover"], 1_000_000_000);
    let labelled = ["--label", "inflection", "--samples", "2000", "--json"];
    assert!(one != model("5.safetensors", &labelled));
    let card = place.card("5.json");
    assert_eq!((&card["rule"], &card["training"]["reads"]), (&"inflection".into(), &2000.into()));
}

#[test]
fn check_reports_whether_to_train_again() {
    let (then, alike, busy) =
        (recording(4000, 1, false), recording(4000, 2, false), recording(4000, 3, true));
    let place = Place::new(&[("then.csv", &then), ("alike.csv", &alike), ("busy.csv", &busy)]);
    let trained = place.train(&["--trace", "then.csv", "--predictor", "heur-sim", "-o", "m.st"]);
    assert_eq!(trained.status.code(), Some(0), "{}", said(&trained));
    let check = |trace: &str| -> Value {
        let output = place.train(&["--trace", trace, "--check", "m.st", "--json"]);
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let fits = report["fits"] == true;
        assert_eq!(output.status.code(), Some(i32::from(!fits)), "{}", said(&output));
        assert_eq!(said(&output).contains("m.st: does not fit"), !fits, "{}", said(&output));
        report
    };
    let (same, alike, busy) = (check("then.csv"), check("alike.csv"), check("busy.csv"));
    let (then, now) = ("inflection_percentile_then", "inflection_percentile_now");
    assert_eq!(same[then], same[now]);
    assert_eq!((&same["fits"], &alike["fits"]), (&true.into(), &true.into()), "{alike}");
    assert_eq!((&same["retrain"], &alike["retrain"]), (&false.into(), &false.into()), "{alike}");
    assert_eq!((&busy["retrain"], &busy[then]), (&true.into(), &same[then]), "{busy}");
    assert_eq!(busy["fit"]["measures"].as_array().map(Vec::len), Some(4), "{busy}");
    assert!(busy[now].as_f64() < same[then].as_f64(), "{busy}");

    let trained = place.train(&["--trace", "then.csv", "-o", "m.st"]);
    assert_eq!(trained.status.code(), Some(0), "{}", said(&trained));
    let (alike, busy) = (check("alike.csv"), check("busy.csv"));
    assert_eq!(alike["drift"]["retrain_after"], Value::Null, "{alike}");
    assert_eq!(alike["drift"]["windows"], 4);
    assert_eq!(busy["drift"]["windows"], 4, "{busy}");
    assert_eq!((&alike["fits"], &busy["fits"]), (&true.into(), &false.into()), "{alike} {busy}");

    let text = place.train(&["--trace", "busy.csv", "--check", "m.st"]).stdout;
    let text = String::from_utf8(text).unwrap();
    assert!(
        text.lines().any(|line| line.starts_with("verdict") && line.ends_with("train it again")),
        "{text}"
    );
}

#[test]
fn failures_are_reported_in_one_line() {
    let recorded = recording(3000, 1, false);
    let short: String = recorded.lines().take(500).map(|line| format!("{line}\n")).collect();
    let place = Place::new(&[("a.csv", &recorded), ("short.csv", &short)]);
    let out = ["-o", "m.safetensors"];
    let with = |args: &[&'static str]| [args, &out].concat();
    place.refuses(&with(&["--trace", "missing.csv"]), "missing.csv: cannot open");
    place.refuses(&with(&["--trace", "short.csv"]), "reads to train on: ");
    place.refuses(
        &with(&["--trace", "a.csv", "--predictor", "oracle"]),
        "unknown predictor \"oracle\"; known are heur-sim, heur-adv, linnos, trimtab",
    );
    place.refuses(&with(&["--trace", "a.csv", "--label", "slow"]), "unknown label \"slow\"");
    place.refuses(&with(&["--trace", "a.csv", "--first", "1.5"]), "expected a share above 0");
    let unused = ["--trace", "a.csv", "--label", "knee", "--failover", "1ms"];
    place.refuses(&with(&unused), "--failover is for the label `cost`");
    place.refuses(&["--trace", "a.csv", "-o", "m.json"], ".json is the card's ending");
    place.refuses(&["--trace", "a.csv", "-o", "-"], "needs a file's name");
    place.refuses(&["--trace", "a.csv"], "--out <MODEL>");
    place.refuses(&["--trace", "a.csv", "--check", "m.st"], "m.st: cannot read");
    place.refuses(&["--trace", "a.csv", "--check", "m.st", "-o", "n.st"], "cannot be used with");

    let trained = place.train(&["--trace", "a.csv", "--predictor", "heur-adv", "-o", "m.st"]);
    assert_eq!(trained.status.code(), Some(0), "{}", said(&trained));
    let card = fs::read_to_string(place.path("m.json")).unwrap();
    let check = ["--trace", "a.csv", "--check", "m.st"];
    fs::write(place.path("m.json"), card.replacen("\"version\": 5", "\"version\": 7", 1)).unwrap();
    place.refuses(&check, "m.json: model of version 7, expected 1 to 5; train it again");
    fs::write(place.path("m.json"), card.replacen("\"features\": 1", "\"features\": 9", 1))
        .unwrap();
    let changed = "m.st: is not the model that m.json is of, or one of the two was changed since";
    place.refuses(&check, changed);
    fs::remove_file(place.path("m.json")).unwrap();
    place.refuses(&check, "m.json: cannot read");
}

/// A recording in which nothing varies is no failure: the model never refuses.
#[test]
fn model_of_a_drive_without_slow_reads_never_refuses() {
    let even = |step: u32| {
        let line = |i| format!("{i},80,1,4096,{},{},4096\n", 4096 * (i * step % 1000), i);
        (0..3000).map(line).collect::<String>()
    };
    let place = Place::new(&[("even.csv", &even(7)), ("other.csv", &even(11))]);
    let trace = ["--trace", "even.csv"];
    for predictor in ["trimtab", "linnos", "heur-sim", "heur-adv"] {
        for label in ["cost", "knee", "inflection", "relative"] {
            let args = ["--predictor", predictor, "--label", label, "-o", "m.st"];
            let output = place.train(&[&trace[..], &args].concat());
            assert_eq!(output.status.code(), Some(0), "{}", said(&output));
            let text = String::from_utf8(output.stdout).unwrap();
            assert!(text.contains("the model never refuses: "), "{text}");
            let card = place.card("m.json");
            assert_eq!(card["label"]["kind"], "never");
            assert!(card["label"]["reason"].as_str().is_some_and(|reason| !reason.is_empty()));
            let evaluate = ["evaluate", "--trace", "other.csv", "--model", "m.st"];
            let args = ["--label", label, "--json"];
            let output = place.command(&[&evaluate[..], &args].concat()).output().unwrap();
            assert_eq!(output.status.code(), Some(0), "{}", said(&output));
            let told: Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!(told["predictors"][0]["refused"], 0.0, "{told}");
            assert_eq!(told["label"]["slow_share"], 0.0);
        }
    }
    let output = place.command(&["evaluate", "--trace", "even.csv"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("no read is slow"), "{text}");
}

/// A model of a version whose card had no checksum decides as before, with a warning.
#[test]
fn older_model_is_used_with_a_warning() {
    let place = Place::new(&[("a.csv", &recording(3000, 1, false))]);
    let trained = place.train(&["--trace", "a.csv", "--predictor", "heur-adv", "-o", "m.st"]);
    assert_eq!(trained.status.code(), Some(0), "{}", said(&trained));
    let judged = || {
        let output = place.train(&["--trace", "a.csv", "--check", "m.st", "--json"]);
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        (output.stdout.clone(), said(&output))
    };
    let (new, silence) = judged();
    assert_eq!(silence, "");
    let mut card = place.card("m.json");
    card["version"] = 3.into();
    // FNV-1a over the tensors, as in version 3.
    let fnv = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let tensors = fs::read(place.path("m.st")).unwrap();
    let checksum = tensors.iter().fold(0xcbf2_9ce4_8422_2325, fnv);
    card["checksum"] = format!("{checksum:016x}").into();
    fs::write(place.path("m.json"), card.to_string()).unwrap();
    let (old, warning) = judged();
    assert_eq!(String::from_utf8(old), String::from_utf8(new));
    assert_eq!(warning.lines().count(), 1, "{warning}");
    let expected = "trimtab: warning: m.st: its card is of version 3, which no checksum covers";
    assert!(warning.starts_with(expected), "{warning}");
}
