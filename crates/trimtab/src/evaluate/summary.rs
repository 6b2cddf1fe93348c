//! The results of an evaluation, in the layout of the JSON output.

use std::path::Path;

use serde::Serialize;
use trimtab_predict::{Label, LabelRule};
use trimtab_train::{Importance, ModelOrigin, Protocol, Score};

/// The results on a recording.
#[derive(Debug, Serialize)]
pub(super) struct Summary {
    pub(super) trimtab: &'static str,
    pub(super) machine: String,
    pub(super) trace: String,
    pub(super) protocol: Protocol,
    /// Training has seen the future of the reads evaluated on.
    pub(super) leaky: bool,
    /// The seed of the training; a model's is in its card.
    pub(super) seed: Option<u64>,
    /// `null` for models of labels that differ: each is evaluated by its own.
    pub(super) label: Option<LabelSummary>,
    /// `null` for models, each of which records its own.
    pub(super) reads_trained_on: Option<usize>,
    pub(super) reads_scored: usize,
    pub(super) requests_without_latency: u64,
    pub(super) predictors: Vec<PredictorSummary>,
}

impl Summary {
    /// The share of slow reads, if all predictors are evaluated by one label.
    pub(super) fn slow_share(&self) -> Option<f64> {
        self.label.as_ref().map(|label| label.slow_share)
    }
}

/// The results of a predictor.
#[derive(Debug, Serialize)]
pub(super) struct PredictorSummary {
    #[serde(flatten)]
    pub(super) score: Score,
    /// The model that was evaluated, if one was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) model: Option<ModelOrigin>,
    /// Its own label, if that is not the label of all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) label: Option<LabelSummary>,
    /// The importance of each feature, for `trimtab` only.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) importance: Vec<Importance>,
}

impl PredictorSummary {
    /// Its name in tables and legends.
    pub(super) fn name(&self) -> String {
        let name = self.score.predictor;
        let model = |origin: &ModelOrigin| format!("{name} ({})", file_name(&origin.file));
        self.model.as_ref().map_or_else(|| name.into(), model)
    }
}

/// A file's name without its directory.
fn file_name(file: &str) -> String {
    let path = Path::new(file);
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// The label of the evaluation.
#[derive(Debug, Serialize)]
pub(super) struct LabelSummary {
    pub(super) rule: LabelRule,
    #[serde(flatten)]
    pub(super) label: Label,
    /// The share of slow reads among the reads evaluated on.
    pub(super) slow_share: f64,
    /// Whether the recording served as its own peer.
    pub(super) own_peer: bool,
}
