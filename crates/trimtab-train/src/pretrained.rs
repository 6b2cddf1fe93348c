//! Models that are evaluated instead of training any.

use serde::Serialize;
use trimtab_io::Nanos;
use trimtab_predict::{Label, LabelRule, Model, Recorded, fingerprint};

use crate::error::Error;
use crate::label::{self, LabelInputs, data_latencies};
use crate::options::TrainingOptions;
use crate::reads::{Read, reads};
use crate::recording::Recording;

/// A model under the name of its file.
#[derive(Clone, Debug)]
pub struct PretrainedModel {
    /// The file's name, for people.
    pub file: String,
    /// The model.
    pub model: Model,
}

/// A model's training, relative to the recording that it is evaluated on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ModelOrigin {
    /// The model's file.
    pub file: String,
    /// The name that the recording trained on had then.
    pub trained_on: String,
    /// Reads trained on.
    pub reads_trained_on: usize,
    /// Whether it was trained on the same recording. Then it is evaluated only on reads that
    /// were sent after the last one trained on.
    pub same_recording: bool,
}

impl PretrainedModel {
    /// Its training, relative to a recording with this fingerprint.
    #[must_use]
    pub fn origin(&self, fingerprint: &str) -> ModelOrigin {
        let training = &self.model.card.training;
        ModelOrigin {
            file: self.file.clone(),
            trained_on: training.trace.clone(),
            reads_trained_on: training.reads,
            same_recording: self.trained_until(fingerprint).is_some(),
        }
    }

    /// When the last read trained on was sent, if it is in this recording.
    fn trained_until(&self, fingerprint: &str) -> Option<Nanos> {
        let training = &self.model.card.training;
        (training.fingerprint == fingerprint).then_some(training.until)
    }
}

/// The reads of a recording that none of the models was trained on.
pub(crate) fn unseen(
    models: &[PretrainedModel],
    recording: &Recording,
) -> Result<Vec<Read>, Error> {
    let recorded = &recording.recorded;
    let print = fingerprint(recorded);
    let mut left = reads(recorded);
    for pretrained in models {
        let Some(until) = pretrained.trained_until(&print) else { continue };
        left.retain(|read| recorded[read.index].request.arrival > until);
        if left.is_empty() {
            let (model, recording) = (pretrained.file.clone(), recording.name.clone());
            return Err(Error::AllSeen { model, recording });
        }
    }
    Ok(left)
}

/// The label to evaluate each model by: its own, or that of a rule.
pub(crate) fn labels(
    models: &[PretrainedModel],
    rule: Option<LabelRule>,
    recorded: &[Recorded],
) -> Result<Vec<Label>, Error> {
    if rule == Some(LabelRule::Knee) {
        let (all, options) = (data_latencies(&[recorded]), TrainingOptions::default());
        let inputs =
            LabelInputs { sets: &[], all: &all, peers: &[], timed: &[], options: &options };
        return Ok(vec![label::make(LabelRule::Knee, &inputs)?.label; models.len()]);
    }
    for PretrainedModel { file, model } in models {
        if let Some(rule) = rule.filter(|&rule| model.card.rule != rule) {
            let (trained, asked) = (model.card.rule.name(), rule.name());
            return Err(Error::OtherRule { model: file.clone(), trained, asked });
        }
    }
    let labels: Vec<Label> = models.iter().map(|one| one.model.card.label.clone()).collect();
    // By a rule all are compared with each other, which takes one label.
    let other = labels.iter().position(|label| *label != labels[0]);
    if let Some(other) = other.filter(|_| rule.is_some()) {
        let (model, other) = (models[0].file.clone(), models[other].file.clone());
        return Err(Error::OtherLabel { model, other });
    }
    Ok(labels)
}
