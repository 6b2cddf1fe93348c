//! The comparison on simulated drives: phase two, for each seed and strategy.

use std::borrow::Cow;

use trimtab_device::{Drive, DriveProfile, Ideal};
use trimtab_io::{Nanos, derived_seed};
use trimtab_predict::mitt::Limit;
use trimtab_predict::{ErrorShares, Mistaken};
use trimtab_sim::array::{ArrayFigures, ArrayIo, ArrayOptions, RunOptions, run};
use trimtab_sim::{HostedDrive, parallel};
use trimtab_steer::{Costs, PredictorSet, Strategy, StrategyInputs, StrategyKind};

use crate::error::Error;
use crate::figures::{DriveFacts, Report, SeedFigures};
use crate::prepare::{Learnt, Prepared, Ready, Trainees, of, prepare};
use crate::queue_models;
use crate::spec::{Comparison, Entry};
use crate::trainer::Trainer;

/// The progress of a comparison.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// The seed's number, from 0, and the number of seeds.
    pub seed: (usize, usize),
    /// The current work.
    pub doing: &'a str,
    /// The number of the piece of work, and the number of pieces.
    pub piece: (usize, usize),
}

/// Runs a comparison on simulated drives, on `threads` threads; the result does not depend on
/// their number.
///
/// # Errors
/// A trace cannot be read, a drive does not take a request, or the recordings do not
/// suffice for training.
pub fn compare(
    comparison: &Comparison,
    trainer: &dyn Trainer,
    threads: usize,
    progress: &(dyn Fn(&Progress<'_>) + Sync),
) -> Result<Report, Error> {
    let mut report = Report::new(comparison);
    let seeds = comparison.seeds.len();
    for (number, &seed) in comparison.seeds.iter().enumerate() {
        let tell = |doing: &str, piece, of| {
            progress(&Progress { seed: (number, seeds), doing, piece: (piece, of) });
        };
        let mut prepared = prepare(comparison, seed, trainer, threads, &tell)?;
        report.add_seed(seed, prepared.ready.facts(comparison));
        let entries = &comparison.entries;
        for turn in 0..comparison.turns {
            if turn > 0 {
                prepared.start_later(STAGGER);
            }
            let figures = parallel::map(threads, entries.len(), |entry| {
                let before = turn as usize * entries.len();
                let all = comparison.turns as usize * entries.len();
                tell(&entries[entry].name, before + entry, all);
                phase_two(comparison, &prepared, &entries[entry])
            });
            report.add_turn(turn, figures.into_iter().collect::<Result<Vec<_>, _>>()?);
        }
    }
    report.finish();
    Ok(report)
}

/// The delay of each turn's start: drives that flush their buffers twice a second, say, are at
/// another point of their cycle in each of the first few turns.
const STAGGER: Nanos = Nanos(137_310_000);

/// One strategy.
fn phase_two(
    comparison: &Comparison,
    prepared: &Prepared,
    entry: &Entry,
) -> Result<(SeedFigures, ArrayFigures), Error> {
    serve(comparison, prepared, entry, false)
}

/// One strategy, and the latency of each read, by the number of its request.
pub(crate) fn phase_two_of_each_read(
    comparison: &Comparison,
    prepared: &Prepared,
    entry: &Entry,
) -> Result<(SeedFigures, Vec<Nanos>), Error> {
    let (seed, figures) = serve(comparison, prepared, entry, true)?;
    Ok((seed, figures.each_read))
}

fn serve(
    comparison: &Comparison,
    prepared: &Prepared,
    entry: &Entry,
    each_read: bool,
) -> Result<(SeedFigures, ArrayFigures), Error> {
    let (mut drives, ready) = (prepared.drives.clone(), &prepared.ready);
    if entry.kind == StrategyKind::Ideal {
        for (drive, device) in drives.iter_mut().zip(&comparison.devices) {
            if let (Drive::Flash(ssd), DriveProfile::Flash(profile)) =
                (drive.server.drive_mut(), &device.profile)
            {
                ssd.replace_firmware(Box::new(Ideal::new(profile)));
            }
        }
    }
    if entry.kind == StrategyKind::NoNoise {
        for drive in &mut drives {
            if let HostedDrive::Cached(cached) = &mut drive.server {
                cached.end_evictions();
            }
        }
    }
    for ((drive, faults), number) in drives.iter_mut().zip(&comparison.faults).zip(0..) {
        drive.set_faults(faults, derived_seed(ready.fault_seed(), number));
    }
    let knows = entry.kind.knows_queues();
    let learned = ready.trainees(entry).map(|trainees| trainees.inference);
    let model = knows.then_some(queue_models::INFERENCE);
    let measured = match (learned, model) {
        (Some(learned), Some(model)) => Some(learned + model),
        (learned, model) => learned.or(model),
    };
    let inference = comparison.inference(entry, measured);
    let costs = Costs { inference, failover: comparison.failover };
    let limits = ready.limits(comparison);
    let deadlines = limits.iter().map(|limit| limit.deadline.unwrap_or(Nanos::MAX)).collect();
    let models = knows.then(|| queue_models::of_drives(&mut drives, &comparison.devices, &limits));
    let strategy = ready.strategy(comparison, entry, costs, models);
    let thresholds = match ready.trainees(entry) {
        Some(trainees) if !knows => Some(trainees.thresholds.clone()),
        _ => knows.then_some(deadlines),
    };
    let options = ArrayOptions {
        run: RunOptions {
            seed: ready.order_seed(),
            copies: comparison.copies,
            groups: comparison.group_numbers(),
            parallel: comparison.parallel > 1,
            resend: comparison.resend,
            thresholds,
            log: false,
            each_read,
        },
        refusal_samples: comparison.refusal_samples,
    };
    let requests = ready.requests(entry);
    let run = run(drives, strategy, &requests, &options)?;
    Ok((SeedFigures::new(ready.seed, inference, &run.figures), run.figures))
}

/// The predictors with errors.
fn mistaken(predictors: PredictorSet, errors: ErrorShares, seed: u64) -> PredictorSet {
    if errors == ErrorShares::default() {
        return predictors;
    }
    predictors.map(|number, predictor| {
        let seed = derived_seed(derived_seed(seed, u64::MAX - 6), number as u64);
        Box::new(Mistaken::new(predictor, errors, seed))
    })
}

impl Ready {
    /// The training results for a row.
    fn learnt(&self, entry: &Entry) -> &Learnt {
        match &self.again {
            Some(again) if entry.retrained => again,
            _ => &self.learnt,
        }
    }

    /// The predictors of a row that uses any.
    pub(crate) fn trainees(&self, entry: &Entry) -> Option<&Trainees> {
        entry.kind.predictor().map(|name| &self.learnt(entry).predictors[name])
    }

    /// What the queue models refuse, by drive.
    fn limits(&self, comparison: &Comparison) -> Vec<Limit> {
        let of_drive = |drive: usize| {
            let group = comparison.group_of(drive);
            let history = of(&group.drives, &self.learnt.history);
            let deadline = group.deadline.unwrap_or_else(|| queue_models::usual_deadline(&history));
            let elsewhere = Some(queue_models::usual_latency(&history));
            Limit { deadline: Some(deadline), hop: comparison.failover, elsewhere }
        };
        (0..comparison.devices.len()).map(of_drive).collect()
    }

    /// The strategy of a row, which has seen nothing of phase two. `models`: of the drives'
    /// queues, for rows that know these.
    pub(crate) fn strategy(
        &self,
        comparison: &Comparison,
        entry: &Entry,
        costs: Costs,
        models: Option<PredictorSet>,
    ) -> Box<dyn Strategy> {
        let trainees = self.trainees(entry);
        let predictors = match (trainees.map(Trainees::predictors), models) {
            (Some(learned), Some(models)) => Some(models.together(learned)),
            (learned, models) => learned.or(models),
        };
        let inputs = StrategyInputs {
            predictors: predictors.map(|set| mistaken(set, entry.errors, self.seed)),
            costs,
            tuning: entry.tuning.unwrap_or(comparison.tuning),
            seed: derived_seed(self.seed, u64::MAX - 2),
        };
        entry.kind.build(trainees.map_or(&self.learnt(entry).history, |t| &t.history), inputs)
    }

    /// The requests of phase two that a row serves.
    pub(crate) fn requests(&self, entry: &Entry) -> Cow<'_, [ArrayIo]> {
        match entry.kind {
            StrategyKind::NoNoise => {
                self.requests.iter().filter(|io| !io.is_noise).copied().collect()
            }
            _ => Cow::Borrowed(&self.requests),
        }
    }

    /// Determines the order in which each read fails over.
    pub(crate) fn order_seed(&self) -> u64 {
        derived_seed(self.seed, u64::MAX - 3)
    }

    /// Determines which requests fail, by drive.
    fn fault_seed(&self) -> u64 {
        derived_seed(self.seed, u64::MAX - 5)
    }

    /// The drives' figures from phase one.
    pub(crate) fn facts(&self, comparison: &Comparison) -> Vec<DriveFacts> {
        let devices = comparison.devices.iter().zip(0..);
        devices.map(|(device, number)| DriveFacts::new(&device.name, self, number)).collect()
    }
}
