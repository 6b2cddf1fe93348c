//! The whole experiment, with a simple predictor.

mod labels;
#[path = "../../trimtab-sim/tests/suspicious/mod.rs"]
mod suspicious;
mod tails;

use std::sync::atomic::{AtomicUsize, Ordering};

use suspicious::Suspicious;
use trimtab_compare::{
    Comparison, DriveFacts, Error, Report, SlowThreshold, StrategyReport, TrainError,
    TrainedPredictor, Trainer, TrainingInputs, compare,
};
use trimtab_io::{LatencyHistogram, Nanos, Op};
use trimtab_trace::Record;

const SCENARIO: &str = "seeds = [3, 4]
phase_one = { reads = 6_000 }
phase_two = { reads = 12_000 }
refusal_samples = 20

[workload]
read_share = 0.5
sizes = [{ bytes = 8192, weight = 1 }]
write_sizes = [{ bytes = 16384, weight = 1 }]
offsets = { kind = 'uniform' }
arrivals = { kind = 'bursty', on_iops = 3000, off_iops = 300, on_ms = 100, off_ms = 300 }

[[device]]
profile = 'reference'
override.geometry = { channels = 2, chips_per_channel = 2, blocks_per_plane = 64, pages_per_block = 64 }
fill = { share = 1.0, kind = 'aged' }

[[device]]
profile = 'reference'
override.geometry = { channels = 2, chips_per_channel = 4, blocks_per_plane = 64, pages_per_block = 64 }
fill = { share = 1.0, kind = 'aged' }

[[device]]
profile = 'reference'
override.geometry = { channels = 2, chips_per_channel = 2, blocks_per_plane = 64, pages_per_block = 64 }
fill = { share = 1.0, kind = 'aged' }
";

/// Slow starts at p90, and a drive is predicted slow after a slow completion.
struct Simple {
    calls: AtomicUsize,
}

impl Trainer for Simple {
    fn inflections(
        &self,
        recordings: &[&[Record]],
        _: u64,
    ) -> Result<Vec<Option<SlowThreshold>>, TrainError> {
        let p90 = |records: &&[Record]| {
            let mut reads = LatencyHistogram::new();
            let completed = records.iter().filter(|record| record.op == Op::Read);
            reads.extend(completed.filter_map(Record::response_time));
            let latency = reads.quantile(0.9).ok_or(TrainError::NoReads { drive: 0 })?;
            Ok(Some(SlowThreshold { latency, alone: false }))
        };
        recordings.iter().map(p90).collect()
    }

    fn train(&self, inputs: &TrainingInputs<'_>) -> Result<TrainedPredictor, TrainError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let inflection = inputs.inflections[inputs.drive].expect("all have one").latency;
        if inputs.predictor == "heur-sim" {
            return Err(TrainError::Other("cannot be".into()));
        }
        Ok(TrainedPredictor {
            predictor: Box::new(Suspicious::new(inflection)),
            threshold: inflection,
            never: None,
            false_submit_rate: 0.06,
            inference: Nanos(200),
        })
    }
}

fn run(text: &str, threads: usize) -> Result<(Report, usize), Error> {
    let trainer = Simple { calls: AtomicUsize::new(0) };
    let comparison = Comparison::parse(text, ".".as_ref())?;
    let report = compare(&comparison, &trainer, threads, &|_| {})?;
    Ok((report, trainer.calls.into_inner()))
}

fn with(strategies: &str) -> String {
    format!("strategies = {strategies}\n{SCENARIO}")
}

#[test]
fn result_is_independent_of_threads() {
    let text = with("['base', 'hedge', 'linnos', 'trimtab', 'snitch']");
    let json = |threads| serde_json::to_string(&run(&text, threads).unwrap().0).unwrap();
    assert_eq!(json(1), json(3));
}

#[test]
fn report_has_all_rows() {
    let text = with("['base', 'ideal', 'clone', 'hedge-ip', 'heur-adv', 'linnos', 'linnos+hl']");
    let (report, trained) = run(&text, 2).unwrap();
    // Two predictors for three drives, twice.
    assert_eq!(trained, 12);
    assert_eq!((report.seeds.as_slice(), report.drives.len()), (&[3, 4][..], 2));
    for (one, other) in report.drives[0].iter().zip(&report.drives[1]) {
        assert_ne!(one.inflection_ns, other.inflection_ns, "seeds make no difference");
        assert!((88.0..92.0).contains(&one.inflection_percentile.unwrap()));
        assert_eq!(one.training_false_submit_percent["linnos"], 6.0);
    }
    let [base, ideal, clone, _, _, linnos, _] = report.strategies.as_slice() else { panic!() };
    let get = |row: &StrategyReport, key| row.median.get(key).unwrap();
    for row in &report.strategies {
        assert_eq!(row.latencies.count(), 24_000);
        for seed in &row.seeds {
            assert_eq!((seed.reads, seed.errors), (12_000, 0), "{}", row.name);
            assert!(seed.figures.get("p99.9_ns").is_some());
            assert!(seed.figures.get("p99.99_ns").is_none(), "12,000 reads are too few");
        }
        assert!(row.lowest.get("mean_ns") < row.highest.get("mean_ns"));
    }
    assert!(get(ideal, "p99_ns") < get(base, "p99_ns"));
    assert_eq!(get(base, "extra_io_percent"), 0.0);
    // A read that completes at once, from a write buffer, is not cloned.
    assert!((99.0..=100.0).contains(&get(clone, "extra_io_percent")));
    assert!(get(linnos, "false_submit_percent") > 0.0);
    assert!(linnos.seeds[0].refused_sampled > 9 && linnos.seeds[0].inference_ns == Nanos(200));
}

#[test]
fn turns_start_later_each_time() {
    let flushes = "profile = 'reference'\noverride.buffer = { size_mb = 1, flush_period_ms = 50 }";
    let text = with("['base', 'trimtab']")
        .replace("seeds = [3, 4]", "seeds = [3]")
        .replace("profile = 'reference'", flushes);
    let mut comparison = Comparison::parse(&text, ".".as_ref()).unwrap();
    let simulate = |comparison: &Comparison| {
        let trainer = Simple { calls: AtomicUsize::new(0) };
        compare(comparison, &trainer, 2, &|_| {}).unwrap()
    };
    let once = simulate(&comparison);
    comparison.set_turns(3);
    let thrice = simulate(&comparison);
    assert_eq!((&thrice.seeds, thrice.drives.len()), (&once.seeds, 1));
    for (once, thrice) in once.strategies.iter().zip(&thrice.strategies) {
        assert_eq!((once.seeds.len(), thrice.seeds.len()), (1, 3));
        assert_eq!(once.seeds[0].figures, thrice.seeds[0].figures, "the first is as without");
        assert!(thrice.seeds.iter().all(|turn| turn.reads == once.seeds[0].reads));
        let mean = |turn: usize| thrice.seeds[turn].figures.get("mean_ns");
        assert!(mean(0) != mean(1) && mean(1) != mean(2), "{}: nothing changes", once.name);
        let [low, median, high] =
            [thrice.lowest, thrice.median, thrice.highest].map(|figures| figures.get("mean_ns"));
        assert!(low < median && median < high);
    }
}

/// With less load after the change, the inflection point is lower.
#[test]
fn retrained_rows_use_the_change_of_workload() {
    let two = "['base', 'linnos', { strategy = 'linnos', retrained = true }]";
    let text = with(two)
        + "
[change]
retrain = { reads = 3_000 }
[change.workload]
read_share = 0.9
sizes = [{ bytes = 8192, weight = 1 }]
write_sizes = [{ bytes = 16384, weight = 1 }]
offsets = { kind = 'uniform' }
arrivals = { kind = 'poisson', iops = 300 }
";
    let (report, trained) = run(&text, 2).unwrap();
    // For three drives and two seeds, before the change and after.
    assert_eq!(trained, 12);
    let changed = |drive: &DriveFacts| {
        let changed = drive.changed.expect("it was recorded again");
        assert!(2 * changed.inflection_ns.unwrap().0 < drive.inflection_ns.unwrap().0, "{drive:?}");
    };
    report.drives.iter().flatten().for_each(changed);
    let [_, old, new] = report.strategies.as_slice() else { panic!() };
    let refused = |row: &StrategyReport| -> u64 { row.seeds.iter().map(|seed| seed.refused).sum() };
    // The old model predicts nothing slow any more and refuses little.
    assert!(3 * refused(old) < refused(new), "{} {}", refused(old), refused(new));
    let same = run(&text, 1).unwrap().0;
    assert_eq!(serde_json::to_string(&report).unwrap(), serde_json::to_string(&same).unwrap());
}

#[test]
fn training_errors_name_device_and_predictor() {
    let error = run(&with("['base', 'heur-sim']"), 2).map(|_| ()).unwrap_err();
    assert!(error.is_bad_input());
    assert_eq!(error.to_string(), "device `device 0`: heur-sim: cannot be");
}

#[test]
fn workloads_must_cover_both_phases() {
    let says = |from: &str, to: &str, expected: &str| {
        let text = with("['base']").replace(from, to);
        let error = run(&text, 1).map(|_| ()).unwrap_err();
        assert!(error.is_bad_input() && error.to_string().contains(expected), "{error}");
    };
    says(
        "read_share",
        "requests = 9_000\nread_share",
        "`phase_two` is too long: the workloads end",
    );
    says("{ reads = 6_000 }", "{ duration_s = 0.0001 }", "`phase_one` is too short: device number");
}
