//! Models that are judged instead of training any.

use std::path::{Path, PathBuf};

use anyhow::Result;
use serde::Serialize;
use trimtab_io::Nanos;
use trimtab_predict::label::data_latencies;
use trimtab_predict::{Label, Model, Read, Recorded, Rule, fingerprint, reads};

use crate::exit::BadInput;
use crate::learning::Recording;
use crate::model_files;

/// A model, and where it lies.
pub(super) struct Judge {
    file: String,
    pub(super) model: Model,
}

/// What is told of a model.
#[derive(Debug, Serialize)]
pub(super) struct ToldModel {
    pub(super) file: String,
    /// The recording that it was trained on, by its name then.
    pub(super) trained_on: String,
    pub(super) reads_trained_on: usize,
    /// Whether that is the very recording that it is judged by. Then only what
    /// was sent after the training's last read counts.
    pub(super) same_recording: bool,
}

impl Judge {
    pub(super) fn load(paths: &[PathBuf]) -> Result<Vec<Self>> {
        let one = |path: &PathBuf| {
            Ok(Self { file: path.display().to_string(), model: model_files::load(path)? })
        };
        paths.iter().map(one).collect()
    }

    pub(super) fn file(&self) -> &str {
        &self.file
    }

    /// When the last read was sent that it was trained on, if that was in this
    /// recording.
    fn seen_until(&self, fingerprint: &str) -> Option<Nanos> {
        let training = &self.model.card.training;
        (training.fingerprint == fingerprint).then_some(training.until)
    }

    /// The reads that none of the models was trained on.
    pub(super) fn unseen(models: &[Self], recording: &Recording) -> Result<Vec<Read>> {
        let recorded = &recording.recorded;
        let print = fingerprint(recorded);
        let mut left = reads(recorded);
        for judge in models {
            let Some(until) = judge.seen_until(&print) else { continue };
            left.retain(|read| recorded[read.index].request.arrival > until);
            if left.is_empty() {
                let text = format!(
                    "{}: was trained on all reads of {}; judge it by another recording, or train \
                     it with --first 0.5",
                    judge.file, recording.file
                );
                return Err(BadInput(text).into());
            }
        }
        Ok(left)
    }

    /// What is slow: by the knee of this recording, or else what all models were
    /// taught.
    pub(super) fn label(models: &[Self], rule: Rule, recorded: &[Recorded]) -> Result<Label> {
        if rule == Rule::Knee {
            return Ok(Label::make(rule, &[], &data_latencies(&[recorded]), &[])?);
        }
        for judge in models {
            let taught = judge.model.card.rule;
            if taught != rule {
                let (file, taught, rule) = (&judge.file, taught.name(), rule.name());
                let text = format!(
                    "{file}: was taught the label {taught} and knows no {rule}; judge it by \
                     --label {taught}, or train it with --label {rule}"
                );
                return Err(BadInput(text).into());
            }
        }
        let (first, others) = models.split_first().expect("there are models");
        if let Some(other) = others.iter().find(|o| o.model.card.label != first.model.card.label) {
            let text = format!(
                "{} and {} were taught different things to be slow; judge them one by one, or by \
                 --label knee",
                first.file, other.file
            );
            return Err(BadInput(text).into());
        }
        Ok(first.model.card.label.clone())
    }

    pub(super) fn told(&self, fingerprint: &str) -> ToldModel {
        let training = &self.model.card.training;
        ToldModel {
            file: self.file.clone(),
            trained_on: training.trace.clone(),
            reads_trained_on: training.reads,
            same_recording: self.seen_until(fingerprint).is_some(),
        }
    }
}

impl ToldModel {
    /// The file's name without its folder.
    pub(super) fn name(&self) -> String {
        let path = Path::new(&self.file);
        path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
    }
}
