//! Everything that precedes phase two: drives, phase one, training.

use std::collections::BTreeMap;
use std::sync::Mutex;

use trimtab_io::{DeviceId, LatencyHistogram, Nanos, Op, derived_seed};
use trimtab_sim::array::{ArrayDrive, ArrayIo, ArrayOptions, RunOptions, run};
use trimtab_sim::parallel;
use trimtab_sim::{HostedDrive, Server as _};
use trimtab_steer::{PredictorSet, Replica, ReplicaHistory, strategies};
use trimtab_trace::Record;

use crate::error::Error;
use crate::phase::{WorkloadOptions, Workloads};
use crate::recording::recording;
use crate::spec::{Comparison, Entry};
use crate::trainer::{SlowThreshold, TrainedPredictor, Trainer, TrainingInputs};

/// A drive of a comparison.
pub(crate) type ComparedDrive = ArrayDrive<HostedDrive>;

/// Drives that have served a phase, each alone with its workload.
#[derive(Default)]
struct Recordings {
    drives: Vec<ComparedDrive>,
    recordings: Vec<Vec<Record>>,
    /// The latency of the users' reads, by drive.
    reads: Vec<LatencyHistogram>,
}

/// The common starting point of all strategies, for one seed.
pub(crate) struct Prepared {
    /// The drives as they are before phase two.
    pub(crate) drives: Vec<ComparedDrive>,
    pub(crate) ready: Ready,
}

impl Prepared {
    /// Delays the start of phase two.
    pub(crate) fn start_later(&mut self, time: Nanos) {
        self.drives = rested(std::mem::take(&mut self.drives), time);
        self.ready.requests.iter_mut().for_each(|io| io.at += time);
    }
}

/// The requests of phase two and the predictors.
pub(crate) struct Ready {
    pub(crate) seed: u64,
    /// The requests of phase two.
    pub(crate) requests: Vec<ArrayIo>,
    /// Trained on phase one.
    pub(crate) learnt: Learnt,
    /// Trained on the recording after the change of workload.
    pub(crate) again: Option<Learnt>,
}

/// The results of training.
pub(crate) struct Learnt {
    /// By drive.
    pub(crate) history: Vec<ReplicaHistory>,
    pub(crate) slow_from: Vec<Option<SlowThreshold>>,
    pub(crate) predictors: BTreeMap<&'static str, Trainees>,
}

/// The predictors of one name, one for each drive.
pub(crate) struct Trainees {
    /// The history of the drives, with the predictors' false submits.
    pub(crate) history: Vec<ReplicaHistory>,
    pub(crate) thresholds: Vec<Nanos>,
    /// Why those that never refuse do not.
    pub(crate) never: Vec<Option<String>>,
    pub(crate) inference: Nanos,
    /// Not all predictors can be shared between threads.
    predictors: Mutex<PredictorSet>,
}

impl Trainees {
    fn new(trained: Vec<TrainedPredictor>, history: &[ReplicaHistory]) -> Self {
        let with_rate = |(history, trained): (&ReplicaHistory, &TrainedPredictor)| ReplicaHistory {
            false_submit_rate: trained.false_submit_rate,
            ..history.clone()
        };
        let never: Vec<_> = trained.iter().map(|trained| trained.never.clone()).collect();
        let history = history.iter().zip(&trained).map(with_rate).collect();
        let thresholds = trained.iter().map(|trained| trained.threshold).collect();
        let inference = trained.iter().map(|trained| trained.inference).max().unwrap_or_default();
        let mut predictors = PredictorSet::new(trained.into_iter().map(|t| t.predictor));
        if never.iter().all(Option::is_some) {
            predictors = predictors.never_refusing();
        }
        Self { history, thresholds, never, inference, predictors: Mutex::new(predictors) }
    }

    /// Fresh copies of the predictors.
    pub(crate) fn predictors(&self) -> PredictorSet {
        self.predictors.lock().expect("copying does not panic").clone()
    }
}

/// The inputs of the preparation of one seed.
struct Preparation<'a> {
    comparison: &'a Comparison,
    seed: u64,
    trainer: &'a dyn Trainer,
    threads: usize,
    tell: &'a (dyn Fn(&str, usize, usize) + Sync),
}

/// Ages the drives, runs phase one, and trains.
pub(crate) fn prepare(
    comparison: &Comparison,
    seed: u64,
    trainer: &dyn Trainer,
    threads: usize,
    tell: &(dyn Fn(&str, usize, usize) + Sync),
) -> Result<Prepared, Error> {
    let new = Preparation { comparison, seed, trainer, threads, tell };
    let mut workloads = comparison.workloads(seed)?;
    let first = workloads.take("phase_one", &comparison.phase_one)?;
    let mut after = None;
    if let Some(change) = &comparison.change {
        let seed = derived_seed(seed, u64::MAX - 4);
        workloads = Workloads::new(
            &change.devices,
            &comparison.groups,
            seed,
            &comparison.workload_options(),
        )?;
        after = Some(workloads.take("change.retrain", &change.retrain)?);
    }
    let requests = workloads.take("phase_two", &comparison.phase_two)?;

    let recorded = new.record("phase one", &first, &|number| new.drive(number))?;
    let Recordings { drives, recordings, reads } = recorded;
    let learnt = new.learn("training", &recordings, reads, |entry| !entry.retrained)?;
    let (mut drives, mut again) = (rested(drives, comparison.gap), None);
    if let Some(after) = after {
        let after = starting_now(after, &drives);
        let recorded = new.record("the change", &after, &|number| drives[number].clone())?;
        let Recordings { drives: after, recordings, reads } = recorded;
        again = Some(new.learn("training again", &recordings, reads, |e| e.retrained)?);
        drives = rested(after, comparison.gap);
    }
    let requests = starting_now(requests, &drives);
    Ok(Prepared { drives, ready: Ready { seed, requests, learnt, again } })
}

/// Has drives serve phase one, and returns their recordings.
pub(crate) type RecordPhase<'a> = dyn FnMut(&[ArrayIo]) -> Result<Vec<Vec<Record>>, Error> + 'a;

/// The same on a testbed: `record` has its drives serve phase one and returns their
/// recordings.
pub(crate) fn prepare_on(
    comparison: &Comparison,
    seed: u64,
    trainer: &dyn Trainer,
    threads: usize,
    tell: &(dyn Fn(&str, usize, usize) + Sync),
    record: &mut RecordPhase<'_>,
) -> Result<Ready, Error> {
    let new = Preparation { comparison, seed, trainer, threads, tell };
    let mut workloads = comparison.workloads(seed)?;
    let first = workloads.take("phase_one", &comparison.phase_one)?;
    let requests = workloads.take("phase_two", &comparison.phase_two)?;
    tell("phase one", 0, 1);
    let recordings = record(&first)?;
    let reads = all_reads(&recordings);
    let learnt = new.learn("training", &recordings, reads, |entry| !entry.retrained)?;
    Ok(Ready { seed, requests, learnt, again: None })
}

/// The drives after a pause, all at the same time.
pub(crate) fn rested(mut drives: Vec<ComparedDrive>, gap: Nanos) -> Vec<ComparedDrive> {
    let now = drives.iter().map(|drive| drive.server.now()).max().unwrap_or_default();
    drives.iter_mut().for_each(|drive| drive.rest(now + gap));
    drives
}

/// The requests, starting at the drives' time.
pub(crate) fn starting_now(mut requests: Vec<ArrayIo>, drives: &[ComparedDrive]) -> Vec<ArrayIo> {
    let now = drives.iter().map(|drive| drive.server.now()).max().unwrap_or_default();
    requests.iter_mut().for_each(|io| io.at += now);
    requests
}

impl Comparison {
    const fn workload_options(&self) -> WorkloadOptions {
        let Self { correlated_bursts: correlated, reach, parallel, .. } = *self;
        WorkloadOptions { correlated, reach, parallel }
    }

    /// Its workloads with a seed.
    pub(crate) fn workloads(&self, seed: u64) -> Result<Workloads, trimtab_sim::Error> {
        Workloads::new(&self.devices, &self.groups, seed, &self.workload_options())
    }
}

impl Preparation<'_> {
    /// A drive before phase one.
    fn drive(&self, number: usize) -> ComparedDrive {
        let spec = &self.comparison.devices[number];
        let seed = derived_seed(self.seed, number as u64);
        let drive = spec.drive(number as u32, seed);
        ArrayDrive::new(spec.hosted(drive, seed), spec.host.queue_depth)
    }

    /// Each drive alone with its workload. Returns the drives afterwards, and the recordings.
    fn record(
        &self,
        doing: &str,
        requests: &[ArrayIo],
        drive: &(dyn Fn(usize) -> ComparedDrive + Sync),
    ) -> Result<Recordings, Error> {
        let devices = &self.comparison.devices;
        (self.tell)(doing, 0, devices.len());
        let recorded = parallel::map(self.threads, devices.len(), |number| {
            let result = record(&devices[number].name, number, drive(number), requests);
            (self.tell)(doing, number + 1, devices.len());
            result
        });
        let recorded = recorded.into_iter().collect::<Result<Vec<_>, _>>()?;
        let mut all = Recordings::default();
        for Recorded { drive, records, reads } in recorded {
            all.drives.push(drive);
            all.recordings.push(records);
            all.reads.push(reads);
        }
        // A drive without readers of its own has those of its neighbours only.
        let of_all = all_reads(&all.recordings);
        for (reads, of_all) in all.reads.iter_mut().zip(of_all) {
            if reads.count() == 0 {
                *reads = of_all;
            }
        }
        Ok(all)
    }

    /// Trains the predictors that the rows selected by `which` need, on these recordings.
    fn learn(
        &self,
        doing: &str,
        recordings: &[Vec<Record>],
        reads: Vec<LatencyHistogram>,
        which: impl Fn(&Entry) -> bool,
    ) -> Result<Learnt, Error> {
        let slow_from = self.inflections(recordings)?;
        let history = history(reads, &slow_from);
        let rows = self.comparison.entries.iter().filter(|entry| which(entry));
        let mut names: Vec<_> = rows.filter_map(|entry| entry.kind.predictor()).collect();
        names.sort_unstable();
        names.dedup();
        let predictors = self.train(doing, &names, (&history, &slow_from), recordings)?;
        Ok(Learnt { history, slow_from, predictors })
    }

    fn inflections(&self, recordings: &[Vec<Record>]) -> Result<Vec<Option<SlowThreshold>>, Error> {
        let mut all = vec![None; recordings.len()];
        for group in &self.comparison.groups {
            let found = self.trainer.inflections(&parts(&group.drives, recordings), self.seed);
            for (&drive, slow_from) in group.drives.iter().zip(found.map_err(Error::Inflections)?) {
                all[drive] = slow_from;
            }
        }
        Ok(all)
    }

    fn train(
        &self,
        doing: &str,
        names: &[&'static str],
        (history, inflections): (&[ReplicaHistory], &[Option<SlowThreshold>]),
        recordings: &[Vec<Record>],
    ) -> Result<BTreeMap<&'static str, Trainees>, Error> {
        let Self { comparison, seed, trainer, .. } = *self;
        let (rule, failover) = (comparison.label, comparison.failover);
        let drives = history.len();
        let trained = parallel::map(self.threads, names.len() * drives, |job| {
            let (predictor, number) = (names[job / drives], job % drives);
            (self.tell)(doing, job, names.len() * drives);
            let seed = derived_seed(seed, number as u64);
            // What others hold does not matter.
            let group = &comparison.group_of(number).drives;
            let (recordings, inflections) = (parts(group, recordings), of(group, inflections));
            let (recordings, inflections) = (&recordings[..], &inflections[..]);
            let drive = group.iter().position(|&other| other == number).unwrap_or_default();
            let inputs =
                TrainingInputs { predictor, drive, recordings, inflections, rule, failover, seed };
            trainer.train(&inputs).map_err(|source| {
                let device = comparison.devices[number].name.clone();
                Error::Training { device, predictor, source }
            })
        });
        let mut trained = trained.into_iter();
        let all = names.iter().map(|&name| {
            let drives = trained.by_ref().take(drives).collect::<Result<Vec<_>, _>>()?;
            Ok((name, Trainees::new(drives, history)))
        });
        all.collect()
    }
}

/// The recordings of these drives.
fn parts<'a>(drives: &[usize], recordings: &'a [Vec<Record>]) -> Vec<&'a [Record]> {
    drives.iter().map(|&drive| recordings[drive].as_slice()).collect()
}

/// The entries of these drives.
pub(crate) fn of<T: Clone>(drives: &[usize], all: &[T]) -> Vec<T> {
    drives.iter().map(|&drive| all[drive].clone()).collect()
}

/// A drive that has served phase one, alone with its workload.
pub(crate) struct Recorded {
    /// The drive afterwards.
    pub(crate) drive: ComparedDrive,
    /// What it was sent.
    pub(crate) records: Vec<Record>,
    /// The latency of the reads that were not its neighbours'.
    pub(crate) reads: LatencyHistogram,
}

/// One drive, alone with its workload.
pub(crate) fn record(
    name: &str,
    number: usize,
    drive: ComparedDrive,
    requests: &[ArrayIo],
) -> Result<Recorded, Error> {
    let own = requests.iter().filter(|io| io.primary.index() == number);
    let own: Vec<_> = own.map(|io| ArrayIo { primary: Replica(0), ..*io }).collect();
    let run_options = RunOptions { log: true, ..RunOptions::default() };
    let options = ArrayOptions { run: run_options, ..ArrayOptions::default() };
    let base = Box::new(strategies::Base::new("base"));
    let device = name.to_owned();
    let named = |error| match error {
        trimtab_sim::Error::Device { source, .. } => trimtab_sim::Error::Device { device, source },
        trimtab_sim::Error::Stuck { at, in_flight, .. } => {
            trimtab_sim::Error::Stuck { device, at, in_flight }
        }
        other => other,
    };
    let mut run = run(vec![drive], base, &own, &options).map_err(named)?;
    let records = recording(DeviceId(number as u32), run.log.remove(0));
    Ok(Recorded { drive: run.drives.remove(0), records, reads: run.figures.reads })
}

/// The drives' history, without the false submits of predictors. Without an inflection point
/// no read is slow.
fn history(
    reads: Vec<LatencyHistogram>,
    slow_from: &[Option<SlowThreshold>],
) -> Vec<ReplicaHistory> {
    let of = |(reads, slow_from): (LatencyHistogram, &Option<SlowThreshold>)| {
        let inflection = slow_from.map_or(Nanos::MAX, |slow_from| slow_from.latency);
        ReplicaHistory { reads, inflection, false_submit_rate: 0.0 }
    };
    reads.into_iter().zip(slow_from).map(of).collect()
}

/// The latency of all reads of each recording.
fn all_reads(recordings: &[Vec<Record>]) -> Vec<LatencyHistogram> {
    let of = |records: &Vec<Record>| {
        let mut reads = LatencyHistogram::new();
        let completed = records.iter().filter(|record| record.op == Op::Read);
        reads.extend(completed.filter_map(Record::response_time));
        reads
    };
    recordings.iter().map(of).collect()
}
