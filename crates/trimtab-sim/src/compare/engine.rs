//! Phase two, for each seed and strategy.

use trimtab_device::Ideal;
use trimtab_steer::{Costs, Kind, Means};

use super::figures::{DriveFacts, Report, SeedFigures};
use super::parallel;
use super::prepare::{Prepared, prepare};
use super::spec::{Comparison, Entry};
use super::trainer::Trainer;
use crate::array::{ArrayFigures, ArrayOptions, Judge, run};
use crate::error::Error;
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
        let prepared = prepare(comparison, seed, trainer, threads, &tell)?;
        let entries = &comparison.entries;
        let figures = parallel::map(threads, entries.len(), |entry| {
            tell(&entries[entry].name, entry, entries.len());
            phase_two(comparison, &prepared, &entries[entry])
        });
        let figures = figures.into_iter().collect::<Result<Vec<_>, _>>()?;
        report.add(seed, drive_facts(comparison, &prepared), figures);
    }
    report.finish();
    Ok(report)
}

/// One strategy.
fn phase_two(
    comparison: &Comparison,
    prepared: &Prepared,
    entry: &Entry,
) -> Result<(SeedFigures, ArrayFigures), Error> {
    let mut drives = prepared.drives.clone();
    if entry.kind == Kind::Ideal {
        for (drive, device) in drives.iter_mut().zip(&comparison.devices) {
            drive.ssd.replace_firmware(Box::new(Ideal::new(&device.profile)));
        }
    }
    let learnt = match &prepared.again {
        Some(again) if entry.retrained => again,
        _ => &prepared.learnt,
    };
    let trainees = entry.kind.predictor().map(|name| &learnt.predictors[name]);
    let inference = comparison.inference(entry, trainees.map(|trainees| trainees.inference));
    let means = Means {
        panel: trainees.map(|trainees| trainees.panel()),
        costs: Costs { inference, failover: comparison.failover },
        tuning: comparison.tuning,
        seed: derived(prepared.seed, u64::MAX - 2),
    };
    let known = trainees.map_or(&learnt.known, |trainees| &trainees.known);
    let strategy = entry.kind.build(known, means);
    let judge = trainees.map(|trainees| Judge {
        thresholds: trainees.thresholds.clone(),
        samples: comparison.judge_samples,
    });
    let options = ArrayOptions { seed: derived(prepared.seed, u64::MAX - 3), judge, record: false };
    let run = run(drives, strategy, &prepared.requests, &options)?;
    Ok((SeedFigures::new(prepared.seed, inference, &run.figures), run.figures))
}

fn drive_facts(comparison: &Comparison, prepared: &Prepared) -> Vec<DriveFacts> {
    let facts = |number: usize| DriveFacts::new(&comparison.devices[number].name, prepared, number);
    (0..prepared.drives.len()).map(facts).collect()
}
