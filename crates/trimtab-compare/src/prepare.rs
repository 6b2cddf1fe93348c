//! Everything up to phase two: drives, phase one, training.

use std::collections::BTreeMap;
use std::sync::Mutex;

use trimtab_io::{LatencyHistogram, Nanos, Op};
use trimtab_steer::{Known, Panel, Replica, strategies};
use trimtab_trace::Record;

use super::phase::Workloads;
use super::spec::{Comparison, Entry};
use super::trainer::{SlowFrom, Trained, Trainer};
use crate::array::{ArrayDrive, ArrayIo, ArrayOptions, run};
use crate::error::Error;
use crate::parallel;
use crate::scenario::derived;

/// What all strategies begin with, for one seed.
pub(super) struct Prepared {
    /// The drives as they are before phase two.
    pub(super) drives: Vec<ArrayDrive>,
    pub(super) ready: Ready,
}

impl Prepared {
    /// Has phase two begin so much later.
    pub(super) fn begin_later(&mut self, time: Nanos) {
        self.drives = rested(std::mem::take(&mut self.drives), time);
        self.ready.requests.iter_mut().for_each(|io| io.at += time);
    }
}

/// What of it is no drive.
pub(super) struct Ready {
    pub(super) seed: u64,
    /// The requests of phase two.
    pub(super) requests: Vec<ArrayIo>,
    /// What was learnt in phase one.
    pub(super) learnt: Learnt,
    /// And again, after the workload had changed.
    pub(super) again: Option<Learnt>,
}

/// What there is to know from recordings.
pub(super) struct Learnt {
    /// Of each drive.
    pub(super) known: Vec<Known>,
    pub(super) slow_from: Vec<SlowFrom>,
    pub(super) predictors: BTreeMap<&'static str, Trainees>,
}

/// What each drive was sent, in the order of the drives.
type Recordings = Vec<Vec<Record>>;

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

/// What one seed is prepared with.
struct Preparation<'a> {
    comparison: &'a Comparison,
    seed: u64,
    trainer: &'a dyn Trainer,
    threads: usize,
    tell: &'a (dyn Fn(&str, usize, usize) + Sync),
}

/// Ages the drives, runs phase one, and trains.
pub(super) fn prepare(
    comparison: &Comparison,
    seed: u64,
    trainer: &dyn Trainer,
    threads: usize,
    tell: &(dyn Fn(&str, usize, usize) + Sync),
) -> Result<Prepared, Error> {
    let new = Preparation { comparison, seed, trainer, threads, tell };
    let bursts = comparison.correlated_bursts;
    let mut workloads = Workloads::new(&comparison.devices, seed, bursts, comparison.reach)?;
    let first = workloads.take("phase_one", &comparison.phase_one)?;
    let mut after = None;
    if let Some(change) = &comparison.change {
        workloads =
            Workloads::new(&change.devices, derived(seed, u64::MAX - 4), bursts, comparison.reach)?;
        after = Some(workloads.take("change.retrain", &change.retrain)?);
    }
    let requests = workloads.take("phase_two", &comparison.phase_two)?;

    let (drives, recordings) = new.record("phase one", &first, &|number| new.drive(number))?;
    let learnt = new.learn("training", &recordings, |entry| !entry.retrained)?;
    let (mut drives, mut again) = (rested(drives, comparison.gap), None);
    if let Some(after) = after {
        let after = begun(after, &drives);
        let recorded = new.record("the change", &after, &|number| drives[number].clone())?;
        again = Some(new.learn("training again", &recorded.1, |entry| entry.retrained)?);
        drives = rested(recorded.0, comparison.gap);
    }
    let requests = begun(requests, &drives);
    Ok(Prepared { drives, ready: Ready { seed, requests, learnt, again } })
}

/// The same with drives that are elsewhere: `record` has them serve phase one, and
/// gives what they were recorded doing.
pub(super) fn prepare_on(
    comparison: &Comparison,
    seed: u64,
    trainer: &dyn Trainer,
    threads: usize,
    tell: &(dyn Fn(&str, usize, usize) + Sync),
    record: &mut dyn FnMut(&[ArrayIo]) -> Result<Recordings, Error>,
) -> Result<Ready, Error> {
    let new = Preparation { comparison, seed, trainer, threads, tell };
    let bursts = comparison.correlated_bursts;
    let mut workloads = Workloads::new(&comparison.devices, seed, bursts, comparison.reach)?;
    let first = workloads.take("phase_one", &comparison.phase_one)?;
    let requests = workloads.take("phase_two", &comparison.phase_two)?;
    tell("phase one", 0, 1);
    let recordings = record(&first)?;
    let learnt = new.learn("training", &recordings, |entry| !entry.retrained)?;
    Ok(Ready { seed, requests, learnt, again: None })
}

/// The drives a while later, all at the same time.
pub(super) fn rested(mut drives: Vec<ArrayDrive>, gap: Nanos) -> Vec<ArrayDrive> {
    let now = drives.iter().map(|drive| drive.ssd.now()).max().unwrap_or_default();
    drives.iter_mut().for_each(|drive| drive.rest(now + gap));
    drives
}

/// The requests, beginning now.
pub(super) fn begun(mut requests: Vec<ArrayIo>, drives: &[ArrayDrive]) -> Vec<ArrayIo> {
    let now = drives.iter().map(|drive| drive.ssd.now()).max().unwrap_or_default();
    requests.iter_mut().for_each(|io| io.at += now);
    requests
}

impl Preparation<'_> {
    /// A drive as it is before phase one.
    fn drive(&self, number: usize) -> ArrayDrive {
        let spec = &self.comparison.devices[number];
        let ssd = spec.drive(number as u32, derived(self.seed, number as u64));
        ArrayDrive::new(ssd, spec.host.queue_depth)
    }

    /// Each drive alone with its workload; the drives afterwards, and the
    /// recordings.
    fn record(
        &self,
        doing: &str,
        requests: &[ArrayIo],
        drive: &(dyn Fn(usize) -> ArrayDrive + Sync),
    ) -> Result<(Vec<ArrayDrive>, Recordings), Error> {
        let devices = &self.comparison.devices;
        (self.tell)(doing, 0, devices.len());
        let recorded = parallel::map(self.threads, devices.len(), |number| {
            let result = record(&devices[number].name, number, drive(number), requests);
            (self.tell)(doing, number + 1, devices.len());
            result
        });
        recorded.into_iter().collect()
    }

    /// What there is to know from these recordings: for the rows that go by them.
    fn learn(
        &self,
        doing: &str,
        recordings: &[Vec<Record>],
        which: impl Fn(&Entry) -> bool,
    ) -> Result<Learnt, Error> {
        let slow_from = self.trainer.inflections(recordings, self.seed);
        let slow_from = slow_from.map_err(Error::Training)?;
        let known = known(recordings, &slow_from);
        let rows = self.comparison.entries.iter().filter(|entry| which(entry));
        let mut names: Vec<_> = rows.filter_map(|entry| entry.kind.predictor()).collect();
        names.sort_unstable();
        names.dedup();
        let predictors = self.train(doing, &names, &known, recordings)?;
        Ok(Learnt { known, slow_from, predictors })
    }

    fn train(
        &self,
        doing: &str,
        names: &[&'static str],
        known: &[Known],
        recordings: &[Vec<Record>],
    ) -> Result<BTreeMap<&'static str, Trainees>, Error> {
        let Self { seed, trainer, .. } = *self;
        let inflections: Vec<_> = known.iter().map(|drive| drive.inflection).collect();
        let drives = known.len();
        let trained = parallel::map(self.threads, names.len() * drives, |job| {
            let (name, drive) = (names[job / drives], job % drives);
            (self.tell)(doing, job, names.len() * drives);
            let seed = derived(seed, drive as u64);
            let trained = trainer.train(name, drive, recordings, &inflections, seed);
            trained.map_err(|what| {
                let device = &self.comparison.devices[drive].name;
                Error::Training(format!("device `{device}`: {name}: {what}"))
            })
        });
        let mut trained = trained.into_iter();
        let all = names.iter().map(|&name| {
            let drives = trained.by_ref().take(drives).collect::<Result<Vec<_>, _>>()?;
            Ok((name, Trainees::new(drives, known)))
        });
        all.collect()
    }
}

/// One drive, alone with its workload.
pub(super) fn record(
    name: &str,
    number: usize,
    drive: ArrayDrive,
    requests: &[ArrayIo],
) -> Result<(ArrayDrive, Vec<Record>), Error> {
    let own = requests.iter().filter(|io| io.home.index() == number);
    let own: Vec<_> = own.map(|io| ArrayIo { home: Replica(0), ..*io }).collect();
    let options = ArrayOptions { record: true, ..ArrayOptions::default() };
    let base = Box::new(strategies::Base::new("base"));
    let named = |error| match error {
        Error::Device { source, .. } => Error::Device { device: name.to_owned(), source },
        Error::Stuck { at, in_flight, .. } => {
            Error::Stuck { device: name.to_owned(), at, in_flight }
        }
        other => other,
    };
    let mut run = run(vec![drive], base, &own, &options).map_err(named)?;
    let mut records = run.records.remove(0);
    records.iter_mut().for_each(|record| record.device.0 = number as u32);
    Ok((run.drives.remove(0), records))
}

/// What the recordings say without predictors.
fn known(recordings: &[Vec<Record>], slow_from: &[SlowFrom]) -> Vec<Known> {
    let of = |(records, slow_from): (&Vec<Record>, &SlowFrom)| {
        let mut reads = LatencyHistogram::new();
        let completed = records.iter().filter(|record| record.op == Op::Read);
        reads.extend(completed.filter_map(Record::response_time));
        Known { reads, inflection: slow_from.latency, false_submit_rate: 0.0 }
    };
    recordings.iter().zip(slow_from).map(of).collect()
}
