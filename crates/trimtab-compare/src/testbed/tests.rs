//! A testbed of simulated drives must give the figures of the simulation.

use trimtab_predict::{Predictor, SimpleHeuristic};
use trimtab_sim::array::{ArrayDrive, ArrayOptions, RunOptions, run};

use super::*;
use crate::error::TrainError;
use crate::prepare::{ComparedDrive, record, rested, starting_now};
use crate::{SlowThreshold, TrainedPredictor, TrainingInputs, compare};

const SCENARIO: &str = "seeds = [5]
phase_one = { reads = 2_000 }
phase_two = { reads = 2_000 }
refusal_samples = 0
costs = { failover_us = 0 }
strategies = ['base', 'hedge', 'heur-sim', 'snitch', 'tied']

[workload]
read_share = 0.6
sizes = [{ bytes = 8192, weight = 1 }]
offsets = { kind = 'uniform' }
arrivals = { kind = 'poisson', iops = 3000 }

[[device]]
profile = 'reference'
override.geometry = { channels = 2, chips_per_channel = 2, blocks_per_plane = 64, pages_per_block = 64 }
fill = { share = 1.0, kind = 'aged' }

[[device]]
profile = 'reference'
override.geometry = { channels = 2, chips_per_channel = 4, blocks_per_plane = 64, pages_per_block = 64 }
fill = { share = 1.0, kind = 'aged' }
";

/// Slow is later than 300 µs; more than four in flight are too many.
struct Simply;

impl Trainer for Simply {
    fn inflections(
        &self,
        recordings: &[&[Record]],
        _: u64,
    ) -> Result<Vec<Option<SlowThreshold>>, TrainError> {
        let slow_from = SlowThreshold { latency: Nanos::from_micros(300), alone: false };
        Ok(vec![Some(slow_from); recordings.len()])
    }

    fn train(&self, inputs: &TrainingInputs<'_>) -> Result<TrainedPredictor, TrainError> {
        let inflection = inputs.inflections[inputs.drive].expect("all have one");
        let predictor: Box<dyn Predictor> = Box::new(SimpleHeuristic::new(4));
        Ok(TrainedPredictor {
            predictor,
            threshold: inflection.latency,
            never: None,
            false_submit_rate: 0.0,
            inference: Nanos::ZERO,
        })
    }
}

struct Simulated<'a> {
    comparison: &'a Comparison,
    drives: Vec<ComparedDrive>,
    /// The row whose next run is doubtful, with invalid figures.
    doubtful: Option<&'static str>,
}

impl Testbed for Simulated<'_> {
    fn prepare(&mut self, seed: u64) -> Result<(), TestbedError> {
        let drive = |(number, spec): (u64, &DeviceSpec<DriveProfile>)| {
            ArrayDrive::new(
                spec.hosted(spec.drive(number as u32, derived_seed(seed, number)), seed),
                spec.host.queue_depth,
            )
        };
        self.drives = (0..).zip(&self.comparison.devices).map(drive).collect();
        Ok(())
    }

    fn record(&mut self, requests: &[ArrayIo]) -> Result<Vec<Vec<Record>>, TestbedError> {
        let recorded = std::mem::take(&mut self.drives).into_iter().zip(0..).map(|(drive, n)| {
            let recorded = record(&n.to_string(), n, drive, requests).map_err(TestbedError::new)?;
            Ok::<_, TestbedError>((recorded.drive, recorded.records))
        });
        let (drives, records) = recorded.collect::<Result<(Vec<_>, Vec<_>), _>>()?;
        self.drives = rested(drives, self.comparison.gap);
        Ok(records)
    }

    fn serve(&mut self, row: Row<'_>) -> Result<Served, TestbedError> {
        let options =
            RunOptions { seed: row.seed, thresholds: row.thresholds, ..RunOptions::default() };
        let options = ArrayOptions { run: options, refusal_samples: 0 };
        let requests = starting_now(row.requests.to_vec(), &self.drives);
        let run = run(self.drives.clone(), (row.strategy)(), &requests, &options);
        if self.doubtful == Some(row.name) {
            self.doubtful = None;
            let (figures, doubt) = (ArrayFigures::default(), Some(Nanos::from_secs(1)));
            return Ok(Served { figures, doubt });
        }
        Ok(Served { figures: run.map_err(TestbedError::new)?.figures, doubt: None })
    }

    fn has_ideal(&self) -> bool {
        false
    }

    fn has_faults(&self) -> bool {
        false
    }
}

#[test]
fn testbed_of_simulated_drives_equals_simulation() {
    let comparison = Comparison::parse(SCENARIO, ".".as_ref()).unwrap();
    let doubtful = Some("heur-sim");
    let mut testbed = Simulated { comparison: &comparison, drives: Vec::new(), doubtful };
    let on_testbed = compare_on(&mut testbed, &comparison, &Simply, 1, &|_| {}).unwrap();
    assert!(testbed.doubtful.is_none());
    let simulated = compare(&comparison, &Simply, 1, &|_| {}).unwrap();
    assert!(on_testbed.strategies[2].seeds[0].refused > 0);
    let json = |report: &Report| serde_json::to_value(report).unwrap();
    assert_eq!(json(&on_testbed), json(&simulated));
}

#[test]
fn rows_a_testbed_cannot_serve_are_left_out() {
    let with = |from: &str, to: &str| {
        Comparison::parse(&SCENARIO.replace(from, to), ".".as_ref()).unwrap()
    };
    let ideal = with("'base',", "'base', 'ideal',");
    let mut testbed = Simulated { comparison: &ideal, drives: Vec::new(), doubtful: None };
    let report = compare_on(&mut testbed, &ideal, &Simply, 1, &|_| {}).unwrap();
    assert!(report.strategies.iter().all(|row| row.name != "ideal"));
    let workload = &SCENARIO[SCENARIO.find("read_share").unwrap()..];
    let workload = workload.split("\n\n").next().unwrap();
    let change = "[change]\nretrain = { reads = 10 }\n[change.workload]\n".to_owned() + workload;
    let text = SCENARIO.replace("[workload]", &(change + "\n[workload]"));
    let changing = Comparison::parse(&text, ".".as_ref()).unwrap();
    let mut testbed = Simulated { comparison: &changing, drives: Vec::new(), doubtful: None };
    let error = compare_on(&mut testbed, &changing, &Simply, 1, &|_| {}).unwrap_err();
    assert!(error.is_bad_input() && error.to_string().contains("`change` is for simulations"));
}

#[test]
fn testbed_without_faults_refuses_a_scenario_with_them() {
    let faulty = format!("{SCENARIO}fault = [{{ kind = 'slow', factor = 3 }}]\n");
    let comparison = Comparison::parse(&faulty, ".".as_ref()).unwrap();
    let mut testbed = Simulated { comparison: &comparison, drives: Vec::new(), doubtful: None };
    let error = compare_on(&mut testbed, &comparison, &Simply, 1, &|_| {}).unwrap_err();
    assert!(error.is_bad_input() && error.to_string().starts_with("`fault` is for simulated"));
}

/// Serves rows whose runs are this late, one number per run. Returns the rows in the order in
/// which they were served, and the run of each that counts.
fn served(late: &[&[u64]]) -> (Vec<usize>, Vec<u64>) {
    let (mut order, mut runs) = (Vec::new(), vec![0; late.len()]);
    let figures = serve_all(late.len(), &mut |row, again| {
        assert_eq!(again, runs[row] > 0);
        order.push(row);
        let doubt = late[row][runs[row]];
        runs[row] += 1;
        let figures = ArrayFigures { errors: runs[row] as u64, ..ArrayFigures::default() };
        Ok(Served { figures, doubt: (doubt > 0).then_some(Nanos(doubt)) })
    });
    (order, figures.unwrap().iter().map(|figures| figures.errors).collect())
}

#[test]
fn doubtful_rows_are_served_again_while_that_helps() {
    assert_eq!(served(&[&[0], &[0]]), (vec![0, 1], vec![1, 1]));
    // One improves, so that the other is given a third run; the least late counts.
    assert_eq!(served(&[&[9, 7, 8], &[0], &[5, 0]]), (vec![0, 1, 2, 0, 2, 0], vec![2, 1, 2]));
    // None improves; the least late counts nevertheless.
    assert_eq!(served(&[&[9, 9], &[5, 6]]), (vec![0, 1, 0, 1], vec![1, 1]));
    assert_eq!(served(&[&[9, 7]]), (vec![0, 0], vec![2]));
}

#[test]
fn doubtful_figures_are_kept_if_the_testbed_fails() {
    let serve = &mut |_, again| match again {
        true => Err(TestbedError::new("gone").into()),
        false => Ok(Served { figures: ArrayFigures::default(), doubt: Some(Nanos(1)) }),
    };
    assert_eq!(serve_all(2, serve).unwrap().len(), 2);
}
