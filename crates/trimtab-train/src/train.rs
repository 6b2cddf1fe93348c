//! Training a predictor on recordings.

use trimtab_io::Nanos;
use trimtab_predict::{Forecast, HeuristicLimits, Label, PredictorKind, Recorded, Trained};

use crate::dataset::digits;
use crate::error::Error;
use crate::never::never_and_forecast;
use crate::options::TrainingOptions;
use crate::reads::Read;
use crate::set::TrainingSet;
use crate::{forests, linnos, units};

/// The fewest reads to train on, and of each class.
pub(crate) const LEAST_READS: usize = 1000;
pub(crate) const LEAST_OF_CLASS: usize = 20;

/// Trains a predictor on recordings of a drive, or of drives of one model; one that
/// [never](crate::train_never) refuses if no read is slow by the label. `progress` gets the number of
/// the step and the number of steps.
///
/// # Errors
/// There are too few reads, or too few of a class.
pub fn train(
    kind: PredictorKind,
    sets: &[TrainingSet<'_>],
    label: &Label,
    options: &TrainingOptions,
    progress: impl FnMut(usize, usize),
) -> Result<Trained, Error> {
    Ok(train_and_forecast(kind, sets, label, options, progress)?.0)
}

/// As [`train`], and the forecasts for the last reads of the sets by parts of the predictor that
/// have not seen them; `None` for a predictor that has no such parts.
pub(crate) fn train_and_forecast(
    kind: PredictorKind,
    sets: &[TrainingSet<'_>],
    label: &Label,
    options: &TrainingOptions,
    progress: impl FnMut(usize, usize),
) -> Result<(Trained, Option<Vec<Forecast>>), Error> {
    let (sets, all) = past_reads(sets, options);
    enough("reads to train on", all.len(), LEAST_READS)?;
    if label.never().is_some() {
        return never_and_forecast(kind, &sets, options, progress);
    }
    let slow: Vec<bool> = all.iter().map(|read| read.is_slow(label)).collect();
    let count = slow.iter().filter(|slow| **slow).count();
    enough("slow reads to train on", count, LEAST_OF_CLASS)?;
    enough("fast reads to train on", all.len() - count, LEAST_OF_CLASS)?;
    let failed = |source| Error::Learn { predictor: kind.name(), source };
    match kind {
        PredictorKind::HeurSim => Ok((Trained::HeurSim(limits(&all, &slow, label)), None)),
        PredictorKind::HeurAdv => Ok((Trained::HeurAdv(limits(&all, &slow, label)), None)),
        PredictorKind::Linnos => {
            let digits: Vec<_> =
                sets.iter().flat_map(|set| digits(set.recorded, &set.mask())).collect();
            let slow: Vec<u8> = slow.iter().map(|&slow| slow.into()).collect();
            let network = linnos::train(&digits, &slow, options.seed, progress);
            Ok((network.map(Trained::Linnos).map_err(failed)?, None))
        }
        PredictorKind::Trimtab => {
            let past: Vec<&[Recorded]> = sets.iter().map(TrainingSet::past).collect();
            let functions = units::find(&past).functions;
            let (model, unseen) =
                forests::train(functions, &sets, all, label, options, progress).map_err(failed)?;
            Ok((model.into(), Some(unseen)))
        }
        PredictorKind::MittState => Err(Error::Untrained { predictor: kind.name() }),
    }
}

fn enough(what: &'static str, found: usize, needed: usize) -> Result<(), Error> {
    if found < needed { Err(Error::TooFew { what, found, needed }) } else { Ok(()) }
}

/// The sets with at most the last `samples` of each recording's reads, and all of these.
pub(crate) fn past_reads<'a>(
    sets: &[TrainingSet<'a>],
    options: &TrainingOptions,
) -> (Vec<TrainingSet<'a>>, Vec<Read>) {
    let sets: Vec<TrainingSet<'a>> = sets.iter().map(|set| latest(set, options)).collect();
    let reads = sets.iter().flat_map(|set| set.reads.iter().copied()).collect();
    (sets, reads)
}

/// At most the last `samples` of a recording's reads.
fn latest<'a>(set: &TrainingSet<'a>, options: &TrainingOptions) -> TrainingSet<'a> {
    let from = set.reads.len().saturating_sub(options.samples);
    TrainingSet { recorded: set.recorded, reads: set.reads[from..].to_vec() }
}

/// The heuristics' limits (LinnOS, §5.3): from the distribution of the queue's length, at the
/// percentile at which latencies become slow.
fn limits(reads: &[Read], slow: &[bool], label: &Label) -> HeuristicLimits {
    let mut lengths: Vec<u32> = reads.iter().map(|read| read.queue).collect();
    lengths.sort_unstable();
    let fast = slow.iter().filter(|slow| !**slow).count();
    let at = |rank: usize| lengths[rank.min(lengths.len() - 1)] as usize;
    HeuristicLimits {
        slow: label.threshold().unwrap_or(Nanos::MAX),
        high: at(fast.saturating_sub(1)),
        median: at(lengths.len() / 2),
        low: at(lengths.len() / 4),
    }
}
