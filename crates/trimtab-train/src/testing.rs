//! Models for unit tests, and the recordings that they share with other crates' tests.

#[path = "../tests/recording/mod.rs"]
mod recordings;

use trimtab_predict::{LabelRule, Model, PredictorKind, Recorded};

pub(crate) use recordings::{recorded, recording, request};

use crate::job::TrainingJob;
use crate::options::TrainingOptions;
use crate::reads::reads;

/// A model of a recording, with the knee as its label.
pub(crate) fn model_of(kind: PredictorKind, recorded: &[Recorded]) -> Model {
    let job = TrainingJob {
        kind,
        rule: LabelRule::Knee,
        name: "recording",
        recorded,
        past: &reads(recorded),
        peers: &[],
        timed: &[],
        options: &TrainingOptions::default(),
    };
    job.run(|_, _| {}).unwrap().model
}
