//! A training job: from a recording to a model with its card.

use trimtab_io::Nanos;
use trimtab_predict::{
    FitReference, LabelRule, Model, PredictorKind, Provenance, Recorded, fingerprint,
};

use crate::error::Error;
use crate::evaluate::{forecasts, score};
use crate::fit::fit_blocks;
use crate::label::{self, LabelInputs, MadeLabel, TimedReads, data_latencies, inflection};
use crate::options::TrainingOptions;
use crate::reads::{Read, latencies, reads};
use crate::set::TrainingSet;
use crate::train::train_and_forecast;

/// The predictor, and the data to train it on.
#[derive(Clone, Copy, Debug)]
pub struct TrainingJob<'a> {
    /// Which predictor.
    pub kind: PredictorKind,
    /// The rule that makes the label.
    pub rule: LabelRule,
    /// The recording's name, for people.
    pub name: &'a str,
    /// The recording, in order of arrival.
    pub recorded: &'a [Recorded],
    /// Those of its reads to train on. Nothing after the last of them is used.
    pub past: &'a [Read],
    /// The read latencies of the other drives, each ascending, for [`LabelRule::Cost`] and
    /// [`LabelRule::Inflection`]. Without them the drive is its own peer.
    pub peers: &'a [&'a [Nanos]],
    /// The reads of the other drives, if their clock is the recording's, for [`LabelRule::Cost`].
    pub timed: &'a [TimedReads],
    /// How to train.
    pub options: &'a TrainingOptions,
}

/// A model, and the latencies that its label was made from.
#[derive(Debug)]
pub struct TrainingResult {
    /// The model.
    pub model: Model,
    /// The latencies of the reads to train on, ascending.
    pub latencies: Vec<Nanos>,
}

impl TrainingJob<'_> {
    /// Makes the label, trains, and evaluates on the reads trained on. `progress` gets the
    /// number of the step and the number of steps.
    ///
    /// # Errors
    /// There are too few reads, or the latencies do not divide into fast and slow.
    pub fn run(&self, progress: impl FnMut(usize, usize)) -> Result<TrainingResult, Error> {
        let Self { kind, rule, recorded, past, peers, timed, options, .. } = *self;
        let seen = past.last().map_or(0, |read| read.index + 1);
        let sets = &[TrainingSet { recorded, reads: past.to_vec() }];
        let all = data_latencies(&[&recorded[..seen]]);
        let inputs = LabelInputs { sets, all: &all, peers, timed, options };
        let MadeLabel { label, cost } = label::make(rule, &inputs)?;
        let (trained, unseen) = train_and_forecast(kind, sets, &label, options, progress)?;
        let forecasts = forecasts(&trained, recorded, past);
        let score = score(kind.name(), &forecasts, recorded, past, &label);
        // Without unseen ones those of the reads trained on.
        let unseen = unseen.as_ref().unwrap_or(&forecasts.all);
        let fit = FitReference::new(&fit_blocks(unseen, past, &label));
        let latencies = latencies(past);
        let training = Provenance {
            trace: self.name.to_owned(),
            fingerprint: fingerprint(recorded),
            reads: past.len().min(options.samples),
            slow: past.iter().filter(|read| read.is_slow(&label)).count(),
            until: past.last().map_or(Nanos::ZERO, |read| recorded[read.index].request.arrival),
            inflection_percentile: inflection(&latencies, peers, 1).map(|found| found.percentile),
            false_submit_rate: score.false_submit_rate,
            cost,
            seed: options.seed,
            fit,
        };
        Ok(TrainingResult { model: Model::new(trained, rule, label, training), latencies })
    }
}

/// Trains a model again, on all reads of another recording: the same predictor, with a label by
/// the same rule and for the same cost of a failover. `name` is the recording's, for people.
///
/// # Errors
/// As [`TrainingJob::run`].
pub fn retrain(model: &Model, name: &str, recorded: &[Recorded]) -> Result<Model, Error> {
    let Provenance { seed, cost, .. } = &model.card.training;
    let plain = TrainingOptions::default();
    let failover = cost.map_or(plain.failover, |cost| cost.failover);
    let job = TrainingJob {
        kind: model.card.predictor,
        rule: model.card.rule,
        name,
        recorded,
        past: &reads(recorded),
        peers: &[],
        timed: &[],
        options: &TrainingOptions { seed: *seed, failover, ..plain },
    };
    Ok(job.run(|_, _| {})?.model)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{model_of, recording};

    #[test]
    fn retraining_on_the_same_recording_gives_the_same_model() {
        let recorded = recording();
        for kind in [PredictorKind::HeurSim, PredictorKind::Trimtab] {
            let first = model_of(kind, &recorded);
            let second = retrain(&first, "recording", &recorded).unwrap();
            assert_eq!(first.to_files().unwrap(), second.to_files().unwrap());
        }
    }

    #[test]
    fn too_few_reads_are_an_error() {
        let recorded = recording();
        let model = model_of(PredictorKind::HeurSim, &recorded);
        let error = retrain(&model, "few", &recorded[..500]).unwrap_err();
        assert!(error.to_string().contains("at least 1000 are needed"), "{error}");
    }
}
