//! Phase two, for each seed and strategy.

use trimtab_device::Ideal;
use trimtab_io::Nanos;
use trimtab_steer::{Costs, Kind, Means, Strategy};

use super::figures::{DriveFacts, Report, SeedFigures};
use super::prepare::{Learnt, Prepared, Ready, Trainees, prepare};
use super::spec::{Comparison, Entry};
use super::trainer::Trainer;
use crate::array::{ArrayFigures, ArrayOptions, Judge, run};
use crate::error::Error;
use crate::parallel;
use crate::scenario::derived;

/// How far a comparison is.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// The seed's number, from 0, and how many there are.
    pub seed: (usize, usize),
    /// What is being done.
    pub doing: &'a str,
    /// The piece's number, and how many there are.
    pub piece: (usize, usize),
}

/// Runs a comparison on so many threads, which make no difference to the result.
///
/// # Errors
/// A trace cannot be read, a drive does not take a request, or the recordings
/// are not fit to train on.
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
                prepared.begin_later(STAGGER);
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

/// So much later each turn begins: drives that flush their buffers twice a second, say, are
/// at another point of that in each of the first few.
const STAGGER: Nanos = Nanos(137_310_000);

/// One strategy.
fn phase_two(
    comparison: &Comparison,
    prepared: &Prepared,
    entry: &Entry,
) -> Result<(SeedFigures, ArrayFigures), Error> {
    let (mut drives, ready) = (prepared.drives.clone(), &prepared.ready);
    if entry.kind == Kind::Ideal {
        for (drive, device) in drives.iter_mut().zip(&comparison.devices) {
            drive.ssd.replace_firmware(Box::new(Ideal::new(&device.profile)));
        }
    }
    let measured = ready.trainees(entry).map(|trainees| trainees.inference);
    let inference = comparison.inference(entry, measured);
    let costs = Costs { inference, failover: comparison.failover };
    let strategy = ready.strategy(comparison, entry, costs);
    let judge = ready.trainees(entry).map(|trainees| Judge {
        thresholds: trainees.thresholds.clone(),
        samples: comparison.judge_samples,
    });
    let options = ArrayOptions { seed: ready.order_seed(), judge, record: false };
    let run = run(drives, strategy, &ready.requests, &options)?;
    Ok((SeedFigures::new(ready.seed, inference, &run.figures), run.figures))
}

impl Ready {
    /// What was learnt for a row.
    fn learnt(&self, entry: &Entry) -> &Learnt {
        match &self.again {
            Some(again) if entry.retrained => again,
            _ => &self.learnt,
        }
    }

    /// The predictors of a row that asks any.
    pub(super) fn trainees(&self, entry: &Entry) -> Option<&Trainees> {
        entry.kind.predictor().map(|name| &self.learnt(entry).predictors[name])
    }

    /// The strategy of a row, which has seen nothing of phase two.
    pub(super) fn strategy(
        &self,
        comparison: &Comparison,
        entry: &Entry,
        costs: Costs,
    ) -> Box<dyn Strategy> {
        let trainees = self.trainees(entry);
        let means = Means {
            panel: trainees.map(Trainees::panel),
            costs,
            tuning: comparison.tuning,
            seed: derived(self.seed, u64::MAX - 2),
        };
        entry.kind.build(trainees.map_or(&self.learnt(entry).known, |t| &t.known), means)
    }

    /// Decides the order in which each read fails over.
    pub(super) fn order_seed(&self) -> u64 {
        derived(self.seed, u64::MAX - 3)
    }

    /// What phase one told of the drives.
    pub(super) fn facts(&self, comparison: &Comparison) -> Vec<DriveFacts> {
        let devices = comparison.devices.iter().zip(0..);
        devices.map(|(device, number)| DriveFacts::new(&device.name, self, number)).collect()
    }
}
