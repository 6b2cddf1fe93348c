//! `trimtab evaluate`, as a user runs it.

#[path = "../drive/mod.rs"]
mod drive;
#[path = "../place/mod.rs"]
mod place;

use std::fs;
use std::path::PathBuf;
use std::process::Output;

use super::predictions::Row;
use drive::recording;
use place::Place;
use serde_json::Value;
use trimtab_device::DiskProfile;

/// Enough for a hundredth of a half to be a class.
const READS: usize = 5_000;
const PREDICTORS: [&str; 4] = ["heur-sim", "heur-adv", "linnos", "trimtab"];

impl Place {
    fn evaluate(&self, args: &[&str]) -> Output {
        self.command(&[&["evaluate"], args].concat()).output().unwrap()
    }

    fn json(&self, args: &[&str]) -> Value {
        let output = self.evaluate(&[args, &["--json"]].concat());
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Expects exit code 2 and one line with this text.
    fn refuses(&self, args: &[&str], expected: &str) {
        let output = self.evaluate(&[args, &["--json", "out.json"]].concat());
        let said = said(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(expected), "{said:?} should say {expected:?}");
        assert_eq!(said.lines().count(), 1, "{said:?}");
        assert!(output.stdout.is_empty() && !self.path("out.json").exists());
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn one_drive() -> Place {
    Place::new(&[("a.csv", &recording(READS, 1, false))])
}

#[test]
fn table_states_protocol_label_and_reads() {
    let output = one_drive().evaluate(&["--trace", "a.csv"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(output.stderr.is_empty(), "{}", said(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[..2], ["a.csv", "protocol  time-forward"]);
    assert!(lines[2].starts_with("label     cost: slow is beyond "), "{text}");
    assert!(lines[3].starts_with("reads     trained on 2,500, evaluated on 2,500 of which "));
    let columns = "predictor AUC PR AUC accuracy refused false submits of all false revokes of \
                   all calibration ns/decision";
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(words(lines[5]).join(" "), columns);
    let rows: Vec<_> = lines[6..10].iter().map(|line| words(line)).collect();
    assert!(rows.iter().map(|row| row[0].as_str()).eq(PREDICTORS), "{text}");
    assert!(rows.iter().all(|row| row.len() == 11), "{text}");
    assert_eq!(lines[10], "");
    assert_eq!(lines[11], "drift of trimtab: none (0 of 2 windows of 1,000 reads do not fit)");
}

#[test]
fn all_vector_instructions_give_the_same_forecasts() {
    let place = one_drive();
    let forecasts = |more: &[&str]| {
        let out = format!("forecasts{}.parquet", more.len());
        let args = [&["--trace", "a.csv", "--predictions", &out], more].concat();
        let output = place.evaluate(&args);
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        fs::read(place.path(&out)).unwrap()
    };
    let (best, scalar) = (forecasts(&[]), forecasts(&["--simd", "scalar"]));
    assert!(best == scalar, "forecasts differ");
    place.refuses(&["--trace", "a.csv", "--simd", "mmx"], "this processor has scalar");
}

#[test]
fn json_has_an_object_for_each_predictor() {
    let place = one_drive();
    let told = place.json(&["--trace", "a.csv"]);
    assert_eq!(told["trace"], "a.csv");
    assert_eq!((&told["protocol"], &told["leaky"]), (&"time-forward".into(), &false.into()));
    assert_eq!((&told["seed"], &told["label"]["rule"]), (&1.into(), &"cost".into()));
    assert_eq!((&told["reads_trained_on"], &told["reads_scored"]), (&2500.into(), &2500.into()));
    let scores = told["predictors"].as_array().unwrap();
    assert!(scores.iter().map(|score| score["predictor"].as_str().unwrap()).eq(PREDICTORS));
    for score in scores {
        for key in [
            "auc",
            "pr_auc",
            "accuracy",
            "false_submit_rate",
            "false_revoke_rate",
            "false_submits_of_all",
            "false_revokes_of_all",
            "refused",
            "calibration_error",
            "brier",
        ] {
            let figure = score[key].as_f64().unwrap_or_else(|| panic!("{key} of {score}"));
            assert!((0.0..=1.0).contains(&figure), "{key} of {score}");
        }
        assert!(score["ns_per_decision"].as_f64().unwrap() >= 0.0);
        let judged = score["bins"].as_array().unwrap().iter().map(|bin| &bin["count"]);
        assert_eq!(judged.map(|count| count.as_u64().unwrap()).sum::<u64>(), 2500);
    }
    // The units' queues determine which reads wait.
    let auc = |i: usize| scores[i]["auc"].as_f64().unwrap();
    assert!(auc(3) > 0.85 && auc(3) > auc(2) + 0.03, "{} {}", auc(3), auc(2));

    // Everything but measured times is the same in each run.
    let timeless = |mut told: Value| {
        for score in told["predictors"].as_array_mut().unwrap() {
            score["ns_per_decision"].take();
        }
        told
    };
    assert_eq!(timeless(told), timeless(place.json(&["--trace", "a.csv"])));
}

#[test]
fn page_draws_the_scores() {
    let place = one_drive();
    let output = place.evaluate(&["--trace", "a.csv", "--report", "scores.html"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert_eq!(said(&output), "trimtab: report written to scores.html\n");
    assert!(
        String::from_utf8_lossy(&output.stdout).contains("trimtab"),
        "the table is printed too"
    );
    let page = fs::read_to_string(place.path("scores.html")).unwrap();
    let headings: Vec<&str> = page
        .split("<figure class=\"chart\">\n<h3>")
        .skip(1)
        .map(|figure| figure.split("</h3>").next().unwrap())
        .collect();
    let expected = [
        "ROC: slow reads refused over fast reads refused",
        "Precision over recall",
        "Calibration: is the probability right?",
        "Reads by predicted probability",
        "Feature importance of trimtab",
    ];
    assert_eq!(headings, expected);
    for plot in page.split("<script type=\"application/json\">").skip(1) {
        let plot: Value = serde_json::from_str(plot.split("</script>").next().unwrap()).unwrap();
        let layout = &plot["layout"];
        let axes = [&layout["xaxis"]["title"]["text"], &layout["yaxis"]["title"]["text"]];
        assert!(axes.iter().all(|axis| axis.is_string()), "{plot}");
        let traces = plot["data"].as_array().unwrap();
        assert!(!traces.is_empty() && traces.iter().all(|one| one["y"][0].is_number()), "{plot}");
    }
    for fact in ["a.csv", "time-forward", "cost: slow is beyond", "2,500", "Linux"] {
        assert!(page.contains(fact), "{fact}");
    }
    let over = place.evaluate(&["--trace", "a.csv", "--report", "a.csv"]);
    assert_eq!(over.status.code(), Some(2), "{}", said(&over));
}

#[test]
fn every_label_divides_reads() {
    let place = one_drive();
    let share = |label: &str| {
        let told = place.json(&["--trace", "a.csv", "--label", label]);
        assert_eq!(told["label"]["rule"], label);
        assert_eq!(told["predictors"].as_array().unwrap().len(), 4);
        assert_eq!(told["label"]["own_peer"], label == "inflection");
        let kind = if label == "relative" { "relative" } else { "threshold" };
        assert_eq!(told["label"]["kind"], kind);
        told["label"]["slow_share"].as_f64().unwrap()
    };
    for label in ["inflection", "relative"] {
        let share = share(label);
        assert!((0.005..0.6).contains(&share), "{label}: {share}");
    }
    // Of the other half; slow reads are clustered.
    let (p95, p99) = (share("p95"), share("p99"));
    assert!((0.02..0.1).contains(&p95) && (0.001..0.04).contains(&p99), "{p95} {p99}");
    let peer = ["--trace", "a.csv", "--label", "inflection", "--peer", "a.csv"];
    assert_eq!(place.json(&peer)["label"]["own_peer"], false);
}

#[test]
fn protocols_train_and_evaluate_on_their_reads() {
    let (a, b) = (recording(READS, 1, false), recording(3_000, 2, false));
    let place = Place::new(&[("a.csv", &a), ("b.csv", &b)]);
    let both = ["--trace", "a.csv", "--trace", "b.csv", "--protocol", "leave-one-out"];
    let told = place.json(&both);
    let reads = |told: &Value| {
        let number = |key: &str| told[key].as_u64().unwrap();
        (number("reads_trained_on"), number("reads_scored"))
    };
    assert_eq!((reads(&told[0]), reads(&told[1])), ((3000, 5000), (5000, 3000)));

    let leaky = ["--trace", "a.csv", "--protocol", "leaky"];
    let told = place.json(&leaky);
    assert_eq!(told["leaky"], true);
    let (past, future) = reads(&told);
    assert_eq!(past + future, 5000);
    assert!((2300..2700).contains(&past), "{past}");
    let text = String::from_utf8(place.evaluate(&leaky).stdout).unwrap();
    assert!(text.contains("protocol  leaky (leaky: training has seen the future)"), "{text}");

    place.refuses(&["--trace", "a.csv", "--protocol", "leave-one-out"], "give more --trace");
}

#[test]
fn models_are_evaluated_on_unseen_reads() {
    let (a, b) = (recording(READS, 1, false), recording(3_000, 2, false));
    let place = Place::new(&[("a.csv", &a), ("b.csv", &b)]);
    let train = |out: &str, more: &[&str]| {
        let args = [&["train", "--trace", "a.csv", "-o", out], more].concat();
        let output = place.command(&args).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    };
    train("half.st", &["--first", "0.5"]);
    train("third.st", &["--first", "0.3333", "--predictor", "linnos"]);
    train("p95.st", &["--label", "p95", "--predictor", "heur-adv"]);

    // Nearly the result of `evaluate`'s own training; but `train` has not seen the second
    // half, and adds samples that were steered.
    let told = place.json(&["--trace", "a.csv", "--model", "half.st"]);
    assert_eq!((&told["protocol"], &told["seed"]), (&"models".into(), &Value::Null));
    assert_eq!((&told["reads_scored"], &told["reads_trained_on"]), (&2500.into(), &Value::Null));
    let score = &told["predictors"][0];
    assert_eq!(score["model"]["same_recording"], true);
    assert_eq!(score["model"]["reads_trained_on"], 2500);
    let trained = place.json(&["--trace", "a.csv"]);
    assert_eq!(told["label"]["latency"], trained["label"]["latency"]);
    let auc = |score: &Value| score["auc"].as_f64().unwrap();
    assert!((auc(score) - auc(&trained["predictors"][3])).abs() < 0.02);

    // Several models are evaluated on reads that none of them was trained on.
    let both =
        ["--trace", "a.csv", "--trace", "b.csv", "--model", "half.st", "--model", "third.st"];
    let told = place.json(&both);
    assert_eq!((&told[0]["reads_scored"], &told[1]["reads_scored"]), (&2500.into(), &3000.into()));
    assert_eq!(told[1]["predictors"][0]["model"]["same_recording"], false);
    // They were trained on different thresholds, and each is evaluated by its own.
    assert_eq!(told[0]["label"], Value::Null);
    let label_of = |name: &str| {
        let card = fs::read_to_string(place.path(name)).unwrap();
        serde_json::from_str::<Value>(&card).unwrap()["label"]["latency"].clone()
    };
    for (number, card) in ["half.json", "third.json"].into_iter().enumerate() {
        let label = &told[0]["predictors"][number]["label"];
        assert_eq!((&label["rule"], &label["latency"]), (&"cost".into(), &label_of(card)));
    }
    let text = String::from_utf8(place.evaluate(&both[2..]).stdout).unwrap();
    let line = "model     half.st: trained on 2,500 reads of a.csv; cost: slow is beyond ";
    assert!(text.contains(line) && text.contains("linnos (third.st)"), "{text}");
    assert!(text.contains("label     of each model its own"), "{text}");
    let by_one = place.json(&[&both[2..], &["--label", "knee"]].concat());
    assert_eq!(by_one["label"]["rule"], "knee");
    assert!(by_one["predictors"][0].get("label").is_none(), "{by_one}");
    let page = place.path("models.html");
    let report = ["--report", page.to_str().unwrap()];
    assert_eq!(place.evaluate(&[&both[2..], &report].concat()).status.code(), Some(0));
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("by its own label"), "{page}");

    // Labels other than the knee are those of the training.
    let trained = place.json(&["--trace", "b.csv", "--model", "p95.st", "--label", "p95"]);
    let card = fs::read_to_string(place.path("p95.json")).unwrap();
    let card: Value = serde_json::from_str(&card).unwrap();
    assert_eq!(trained["label"]["latency"], card["label"]["latency"]);

    let refused =
        |args: &[&str], why: &str| place.refuses(&[&["--trace", "a.csv"], args].concat(), why);
    let all = "p95.st: was trained on all reads of a.csv; evaluate it on another recording; or train it with --first 0.5";
    refused(&["--model", "p95.st", "--label", "p95"], all);
    refused(
        &["--model", "half.st", "--label", "p99"],
        "was trained on the label cost, not on p99; evaluate it by --label cost, or train",
    );
    refused(&["--model", "no.st"], "no.st: cannot read");
    refused(&["--model", "half.st", "--protocol", "leaky"], "cannot be used with");
    let card = fs::read_to_string(place.path("half.json")).unwrap();
    for (from, to, why) in [
        ("\"version\": 5", "\"version\": 9", "half.json: model of version 9, expected 1 to 5"),
        ("\"features\": ", "\"features\": 1", "half.st: is not the model that half.json is of"),
    ] {
        fs::write(place.path("half.json"), card.replacen(from, to, 1)).unwrap();
        refused(&["--model", "half.st"], why);
    }
    fs::write(place.path("half.json"), card).unwrap();
    fs::copy(place.path("third.st"), place.path("half.st")).unwrap();
    refused(&["--model", "half.st"], "half.st: is not the model that half.json is of");
    let over = place.evaluate(&["--trace", "b.csv", "--model", "p95.st", "--json", "p95.st"]);
    assert_eq!(over.status.code(), Some(2), "{}", said(&over));
}

#[test]
fn unusable_input_gives_one_line_and_exit_code_2() {
    let recorded = recording(READS, 1, false);
    let short: String = recorded.lines().take(1500).map(|line| format!("{line}\n")).collect();
    let two = recorded.replacen(",srv,0,", ",srv,1,", 2000);
    // SPC has arrivals only.
    let arrivals = "0,1000,4096,R,0.5\n0,1008,4096,R,0.6\n";
    let files = [
        ("a.csv", &recorded[..]),
        ("short.csv", &short),
        ("two.csv", &two),
        ("arrivals.spc", arrivals),
    ];
    let place = Place::new(&files);
    place.refuses(&["--trace", "missing.csv"], "missing.csv: cannot open");
    place.refuses(
        &["--trace", "arrivals.spc", "--format", "spc"],
        "holds no latencies, only arrivals; record with `trimtab record`",
    );
    place.refuses(&["--trace", "short.csv"], "reads to train on: ");
    let few = ["--trace", "short.csv", "--trace", "a.csv", "--protocol", "leave-one-out"];
    place.refuses(&[&few[..], &["--label", "p99"]].concat(), "slow reads to train on: ");
    place.refuses(
        &["--trace", "two.csv"],
        "two.csv: is of several drives, srv.1, srv.0; pick one by --device",
    );
    place.refuses(&["--trace", "two.csv", "--device", "srv.2"], "has no device `srv.2`");
    place.refuses(&["--trace", "a.csv", "--label", "p90"], "unknown label \"p90\"; known are cost");
    place.refuses(&["--trace", "a.csv", "--protocol", "any"], "expected time-forward");
    place.refuses(&[], "--trace");
    place.refuses(
        &["--trace", "a.csv", "--disk", "p4600"],
        "--disk p4600: a profile of flash, whose queue models need to know where its data are",
    );
    place.refuses(&["--trace", "a.csv", "--disk", "none"], "no profile is called `none`");
    let profile = DiskProfile::builtin("disk-7200").unwrap().with_capacity(32 << 20).unwrap();
    fs::write(place.path("small.toml"), profile.to_toml()).unwrap();
    place.refuses(&["--trace", "a.csv", "--disk", "small.toml"], "it is a profile of another disk");
    let over = place.evaluate(&["--trace", "a.csv", "--json", "./a.csv"]);
    assert_eq!(over.status.code(), Some(2), "{}", said(&over));
    assert_eq!(place.json(&["--trace", "two.csv", "--device", "srv.0"])["reads_scored"], 1746);
}

/// The area under the ROC curve by its definition: the share of pairs of a slow and a fast
/// read in which the slow one has the higher score; ties count half.
fn auc(rows: &[(f64, bool)]) -> f64 {
    let mut sorted = rows.to_vec();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut fast_below, mut won) = (0.0, 0.0);
    for ties in sorted.chunk_by(|a, b| a.0 == b.0) {
        let slow = ties.iter().filter(|row| row.1).count() as f64;
        let fast = ties.len() as f64 - slow;
        won += slow * (fast_below + fast / 2.0);
        fast_below += fast;
    }
    let slow = rows.iter().filter(|row| row.1).count() as f64;
    won / (slow * (rows.len() as f64 - slow))
}

#[test]
fn predictions_give_the_figures_of_the_table() {
    let (a, b) = (recording(READS, 1, false), recording(3_000, 2, false));
    let place = Place::new(&[("a.csv", &a), ("b.csv", &b)]);
    let two = ["--trace", "a.csv", "--trace", "b.csv", "--predictions", "out.parquet"];
    let scores = place.json(&two);
    let rows = super::predictions::read(&place.path("out.parquet"));
    for (recording, scores) in ["a.csv", "b.csv"].into_iter().zip(scores.as_array().unwrap()) {
        for score in scores["predictors"].as_array().unwrap() {
            let predictor = score["predictor"].as_str().unwrap();
            let of = |row: &&Row| row.recording == recording && row.predictor == predictor;
            let rows: Vec<&Row> = rows.iter().filter(of).collect();
            assert_eq!(rows.len() as u64, scores["reads_scored"].as_u64().unwrap());
            let pairs: Vec<_> = rows.iter().map(|row| (row.score, row.late)).collect();
            let share = |is: &dyn Fn(&Row) -> bool| {
                rows.iter().filter(|row| is(row)).count() as f64 / rows.len() as f64
            };
            for (figure, found) in [
                ("auc", auc(&pairs)),
                ("accuracy", share(&|row| row.refused == row.late)),
                ("refused", share(&|row| row.refused)),
                ("false_submits_of_all", share(&|row| !row.refused && row.late)),
            ] {
                let told = score[figure].as_f64().unwrap();
                assert!((told - found).abs() < 1e-9, "{predictor}: {figure} {told} {found}");
            }
            for row in &rows {
                assert_eq!(row.late, row.latency_ns as f64 > row.threshold_ns);
                assert_eq!(row.forecast_ns.is_some(), predictor == "trimtab");
                assert_eq!((row.model.as_deref(), row.length), (None, 4096));
            }
            assert!(rows.is_sorted_by_key(|row| row.arrival_ns));
            let slow = share(&|row| row.late);
            assert_eq!(slow, scores["label"]["slow_share"].as_f64().unwrap());
        }
    }

    // Models under their files' names.
    let args = ["train", "--trace", "a.csv", "-o", "m.st", "--predictor", "linnos"];
    assert_eq!(place.command(&args).output().unwrap().status.code(), Some(0));
    place.json(&["--trace", "b.csv", "--model", "m.st", "--predictions", "out.parquet"]);
    let rows = super::predictions::read(&place.path("out.parquet"));
    assert_eq!(rows.len(), 3000);
    assert!(rows.iter().all(|row| row.model.as_deref() == Some("m.st")));
    let offsets: Vec<i64> = rows.iter().map(|row| row.offset).collect();
    assert!(offsets.iter().all(|offset| offset % 512 == 0) && offsets[0] != offsets[1]);
}

#[test]
fn predictions_are_written_completely_or_not_at_all() {
    let place = one_drive();
    let out = ["--predictions", "out.parquet"];
    place.refuses(&[&["--trace", "missing.csv"], &out[..]].concat(), "missing.csv: cannot open");
    assert!(!place.path("out.parquet").exists());
    let over = ["--trace", "a.csv", "--predictions", "a.csv"];
    place.refuses(&over, "is an input and would be replaced");
    let nowhere = ["--trace", "a.csv", "--predictions", "none/out.parquet"];
    let output = place.evaluate(&nowhere);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("none/out.parquet: cannot write: "), "{}", said(&output));
}

/// On real recordings, which are not part of the repository.
#[test]
fn a_real_disk_is_predicted_best_by_its_queue_and_profile() {
    if !trimtab_testdisk::requires(&[trimtab_testdisk::Feature::Traces]) {
        return;
    }
    let folder = PathBuf::from(std::env::var_os("TRIMTAB_TRACES").unwrap());
    let place = Place::new(&[]);
    let trace = folder.join("hdd/barracuda.trace");
    let told = place.json(&["--trace", trace.to_str().unwrap(), "--disk", "disk-barracuda"]);
    let auc = |at: usize, name: &str| {
        let of = &told["predictors"][at];
        assert_eq!(of["predictor"], name);
        of["auc"].as_f64().unwrap()
    };
    let (learned, modelled) = (auc(3, "trimtab"), auc(4, "mitt-noop"));
    assert!(modelled > 0.9 && modelled > learned, "{learned} {modelled}");
}

/// On real recordings, which are not part of the repository.
#[test]
fn real_drives_can_be_predicted() {
    if !trimtab_testdisk::requires(&[trimtab_testdisk::Feature::Traces]) {
        return;
    }
    let folder = PathBuf::from(std::env::var_os("TRIMTAB_TRACES").unwrap());
    let place = Place::new(&[]);
    for (name, least) in [("nvme-a.csv", 0.83), ("nvme-b.csv", 0.81)] {
        let trace = folder.join("nvme-replay").join(name);
        let told = place.json(&["--trace", trace.to_str().unwrap()]);
        let ours = &told["predictors"][3];
        assert_eq!(ours["predictor"], "trimtab");
        let auc = ours["auc"].as_f64().unwrap();
        assert!(auc >= least, "{name}: {auc}");
    }
}
