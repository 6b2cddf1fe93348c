//! Training of the predictors of `trimtab-predict`.

use trimtab_io::Nanos;
use trimtab_predict::{Label, LabelRule, PredictorKind, Recorded};
use trimtab_trace::Record;
use trimtab_train::label::{self, LabelInputs, TimedReads, data_latencies, inflection};
use trimtab_train::{
    Error, TrainingOptions, TrainingSet, evaluate, read_latencies, train, train_never,
};

use super::{SlowThreshold, TrainedPredictor, Trainer, TrainingInputs};
use crate::error::TrainError;

/// Trains the predictors of `trimtab-predict`.
#[derive(Clone, Copy, Debug)]
pub struct BuiltinTrainer;

impl Trainer for BuiltinTrainer {
    fn inflections(
        &self,
        recordings: &[&[Record]],
        seed: u64,
    ) -> Result<Vec<Option<SlowThreshold>>, TrainError> {
        let latencies = latencies(recordings);
        if let Some(drive) = latencies.iter().position(Vec::is_empty) {
            return Err(TrainError::NoReads { drive });
        }
        let find = |drive: usize| {
            let own = &latencies[drive];
            let slow_from = |alone| move |latency| SlowThreshold { latency, alone };
            let among_its_peers =
                inflection(own, &peers(&latencies, drive), seed).map(|found| found.latency);
            // `None` if the others are much slower, say: the comparison is still useful.
            let alone = || inflection(own, &[], seed).map(|found| found.latency);
            let found = among_its_peers.map(slow_from(false));
            let found = found.or_else(|| alone().map(slow_from(true)));
            let trainable = |found: SlowThreshold| SlowThreshold {
                latency: between(own, found.latency),
                ..found
            };
            found.map(trainable)
        };
        Ok((0..latencies.len()).map(find).collect())
    }

    fn train(&self, inputs: &TrainingInputs<'_>) -> Result<TrainedPredictor, TrainError> {
        let TrainingInputs { predictor, drive, seed, .. } = *inputs;
        let kind: PredictorKind = predictor
            .parse()
            .map_err(|error: trimtab_predict::Error| TrainError::Other(error.into()))?;
        let failed = |error: Error| TrainError::Other(error.into());
        let recorded: Vec<Recorded> = recorded(inputs.recordings[drive]);
        let set = TrainingSet::whole(&recorded);
        let sets = std::slice::from_ref(&set);
        let failover = inputs.failover;
        let options = TrainingOptions { seed, failover, ..TrainingOptions::default() };
        let label = &label_of(kind, sets, inputs, &options).map_err(failed)?;
        let mut never = label.never().map(str::to_owned);
        let trained = match train(kind, sets, label, &options, |_, _| {}) {
            Err(few @ Error::TooFew { .. }) => {
                never = Some(few.to_string());
                train_never(kind, sets, &options, |_, _| {})
            }
            trained => trained,
        };
        let trained = trained.map_err(failed)?;
        let score = evaluate(&trained, &recorded, &set.reads, label);
        Ok(TrainedPredictor {
            predictor: trained.predictor(),
            threshold: label.threshold().filter(|_| never.is_none()).unwrap_or(Nanos::MAX),
            false_submit_rate: score.false_submit_rate.filter(|_| never.is_none()).unwrap_or(0.0),
            never,
            inference: inference(kind),
        })
    }
}

/// The label to train a predictor on: `trimtab` by the rule that was asked for, the others by the
/// inflection point.
fn label_of(
    kind: PredictorKind,
    sets: &[TrainingSet<'_>],
    inputs: &TrainingInputs<'_>,
    options: &TrainingOptions,
) -> Result<Label, Error> {
    let rule = if kind == PredictorKind::Trimtab { inputs.rule } else { LabelRule::Inflection };
    if rule == LabelRule::Inflection {
        return Ok(match inputs.inflections[inputs.drive] {
            Some(SlowThreshold { latency, .. }) => Label::Threshold { latency },
            None => Label::Never {
                reason: "no threshold makes failing over worthwhile, not even among drives like it"
                    .to_owned(),
            },
        });
    }
    let recorded: Vec<_> = sets.iter().map(|set| set.recorded).collect();
    let (all, latencies) = (data_latencies(&recorded), latencies(inputs.recordings));
    let peers = &peers(&latencies, inputs.drive);
    // They are recorded at the same time.
    let others = inputs.recordings.iter().enumerate().filter(|(other, _)| *other != inputs.drive);
    let timed: Vec<_> =
        others.map(|(_, records)| TimedReads::of(&self::recorded(records))).collect();
    let inputs = LabelInputs { sets, all: &all, peers, timed: &timed, options };
    Ok(label::make(rule, &inputs)?.label)
}

/// The read latencies of each drive, ascending.
fn latencies(recordings: &[&[Record]]) -> Vec<Vec<Nanos>> {
    recordings.iter().map(|records| read_latencies(&recorded(records))).collect()
}

/// Those of the other drives.
fn peers(latencies: &[Vec<Nanos>], drive: usize) -> Vec<&[Nanos]> {
    let others = latencies.iter().enumerate().filter(|(peer, _)| *peer != drive);
    others.map(|(_, latencies)| latencies.as_slice()).collect()
}

/// At least one read in a thousand, and at least 40, are on either side of the threshold:
/// training needs 20 of each.
const SHARE: usize = 1000;
const LEAST: usize = 40;

/// The latency, moved so that a few reads are faster and a few slower: on a drive that is
/// always slower than its peers almost no read is fast, which leaves nothing to train on.
fn between(latencies: &[Nanos], latency: Nanos) -> Nanos {
    let few = (latencies.len() / SHARE).max(LEAST).min((latencies.len() - 1) / 2);
    latency.clamp(latencies[few], latencies[latencies.len() - 1 - few])
}

fn recorded(records: &[Record]) -> Vec<Recorded> {
    let numbered = records.iter().enumerate();
    numbered.filter_map(|(number, record)| trimtab_train::recorded(record, number)).collect()
}

/// The charge for a decision: what `trimtab evaluate` measured, features included, with
/// AVX-512 (docs/measurements/learning.md), rounded up. It is not measured on this machine, so that
/// figures are the same everywhere. A scenario can set another one (`costs.inference_us`).
const fn inference(kind: PredictorKind) -> Nanos {
    match kind {
        PredictorKind::HeurSim | PredictorKind::HeurAdv | PredictorKind::MittState => Nanos(15),
        PredictorKind::Linnos => Nanos(140),
        PredictorKind::Trimtab => Nanos(220),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threshold_leaves_reads_on_either_side() {
        let latencies: Vec<Nanos> = (0..100_000).map(Nanos).collect();
        assert_eq!(between(&latencies, Nanos(8)), Nanos(100));
        assert_eq!(between(&latencies, Nanos(500)), Nanos(500));
        assert_eq!(between(&latencies, Nanos(200_000)), Nanos(99_899));
        assert_eq!(between(&latencies[..1000], Nanos(999)), Nanos(959));
        assert_eq!(between(&latencies[..1], Nanos(7)), Nanos(0));
    }
}
