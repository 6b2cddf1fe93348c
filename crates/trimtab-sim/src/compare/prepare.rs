//! Everything up to phase two: drives, phase one, training.

use std::collections::BTreeMap;
use std::sync::Mutex;

use trimtab_io::{LatencyHistogram, Nanos, Op};
use trimtab_steer::{Known, Panel, Replica, strategies};
use trimtab_trace::Record;

use super::parallel;
use super::phase::Workloads;
use super::spec::Comparison;
use super::trainer::{Trained, Trainer};
use crate::array::{ArrayDrive, ArrayIo, ArrayOptions, run};
use crate::error::Error;
use crate::scenario::derived;

/// What all strategies begin with, for one seed.
pub(super) struct Prepared {
    pub(super) seed: u64,
    /// The drives as phase one has left them.
    pub(super) drives: Vec<ArrayDrive>,
    /// The requests of phase two.
    pub(super) requests: Vec<ArrayIo>,
    /// What is known of the drives from phase one.
    pub(super) known: Vec<Known>,
    pub(super) predictors: BTreeMap<&'static str, Trainees>,
}

/// The predictors of one name, one for each drive.
pub(super) struct Trainees {
    /// What is known of the drives, with the predictors' false submits.
    pub(super) known: Vec<Known>,
    pub(super) thresholds: Vec<Nanos>,
    pub(super) inference: Nanos,
    /// Not all predictors can be looked at from two threads.
    panel: Mutex<Panel>,
}

impl Trainees {
    fn new(trained: Vec<Trained>, known: &[Known]) -> Self {
        let with_rate = |(known, trained): (&Known, &Trained)| Known {
            false_submit_rate: trained.false_submit_rate,
            ..known.clone()
        };
        Self {
            known: known.iter().zip(&trained).map(with_rate).collect(),
            thresholds: trained.iter().map(|trained| trained.threshold).collect(),
            inference: trained.iter().map(|trained| trained.inference).max().unwrap_or_default(),
            panel: Mutex::new(Panel::new(trained.into_iter().map(|trained| trained.predictor))),
        }
    }

    /// Fresh copies of the predictors.
    pub(super) fn panel(&self) -> Panel {
        self.panel.lock().expect("copying does not panic").clone()
    }
}

/// Ages the drives, runs phase one, and trains.
pub(super) fn prepare(
    comparison: &Comparison,
    seed: u64,
    trainer: &dyn Trainer,
    threads: usize,
    tell: &(dyn Fn(&str, usize, usize) + Sync),
) -> Result<Prepared, Error> {
    let devices = &comparison.devices;
    let mut workloads = Workloads::new(devices, seed, comparison.correlated_bursts)?;
    let first = workloads.take("phase_one", &comparison.phase_one)?;
    let mut requests = workloads.take("phase_two", &comparison.phase_two)?;

    tell("phase one", 0, devices.len());
    let aged = parallel::map(threads, devices.len(), |number| {
        let result = phase_one(comparison, seed, number, &first);
        tell("phase one", number + 1, devices.len());
        result
    });
    let (mut drives, recordings) = aged.into_iter().collect::<Result<(Vec<_>, Vec<_>), _>>()?;
    let start = drives.iter().map(|drive| drive.ssd.now()).max().unwrap_or_default();
    let start = start + comparison.gap;
    drives.iter_mut().for_each(|drive| drive.rest(start));
    requests.iter_mut().for_each(|io| io.at += start);

    let known = learn(&recordings, trainer, seed)?;
    let predictors = train(comparison, &known, &recordings, trainer, seed, threads, tell)?;
    Ok(Prepared { seed, drives, requests, known, predictors })
}

/// One drive in phase one, where it is alone with its workload.
fn phase_one(
    comparison: &Comparison,
    seed: u64,
    number: usize,
    requests: &[ArrayIo],
) -> Result<(ArrayDrive, Vec<Record>), Error> {
    let spec = &comparison.devices[number];
    let ssd = spec.drive(number as u32, derived(seed, number as u64));
    let drive = ArrayDrive::new(ssd, spec.host.queue_depth);
    let own = requests.iter().filter(|io| io.home.index() == number);
    let own: Vec<_> = own.map(|io| ArrayIo { home: Replica(0), ..*io }).collect();
    let options = ArrayOptions { record: true, ..ArrayOptions::default() };
    let base = Box::new(strategies::Base::new("base"));
    let named = |error| match error {
        Error::Device { source, .. } => Error::Device { device: spec.name.clone(), source },
        Error::Stuck { at, in_flight, .. } => {
            Error::Stuck { device: spec.name.clone(), at, in_flight }
        }
        other => other,
    };
    let mut run = run(vec![drive], base, &own, &options).map_err(named)?;
    let mut records = run.records.remove(0);
    records.iter_mut().for_each(|record| record.device.0 = number as u32);
    Ok((run.drives.remove(0), records))
}

/// What the recordings say without predictors.
fn learn(
    recordings: &[Vec<Record>],
    trainer: &dyn Trainer,
    seed: u64,
) -> Result<Vec<Known>, Error> {
    let inflections = trainer.inflections(recordings, seed).map_err(Error::Training)?;
    let of = |(records, inflection): (&Vec<Record>, Nanos)| {
        let mut reads = LatencyHistogram::new();
        let completed = records.iter().filter(|record| record.op == Op::Read);
        reads.extend(completed.filter_map(Record::response_time));
        Known { reads, inflection, false_submit_rate: 0.0 }
    };
    Ok(recordings.iter().zip(inflections).map(of).collect())
}

fn train(
    comparison: &Comparison,
    known: &[Known],
    recordings: &[Vec<Record>],
    trainer: &dyn Trainer,
    seed: u64,
    threads: usize,
    tell: &(dyn Fn(&str, usize, usize) + Sync),
) -> Result<BTreeMap<&'static str, Trainees>, Error> {
    let mut names: Vec<_> = comparison.entries.iter().filter_map(|e| e.kind.predictor()).collect();
    names.sort_unstable();
    names.dedup();
    let inflections: Vec<_> = known.iter().map(|drive| drive.inflection).collect();
    let drives = known.len();
    let trained = parallel::map(threads, names.len() * drives, |job| {
        let (name, drive) = (names[job / drives], job % drives);
        tell("training", job, names.len() * drives);
        trainer.train(name, drive, recordings, &inflections, derived(seed, drive as u64)).map_err(
            |what| {
                let device = &comparison.devices[drive].name;
                Error::Training(format!("device `{device}`: {name}: {what}"))
            },
        )
    });
    let mut trained = trained.into_iter();
    let all = names.iter().map(|&name| {
        let drives = trained.by_ref().take(drives).collect::<Result<Vec<_>, _>>()?;
        Ok((name, Trainees::new(drives, known)))
    });
    all.collect()
}
