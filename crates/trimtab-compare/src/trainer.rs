//! Training: the source of predictors.

mod builtin;

pub use builtin::BuiltinTrainer;

use trimtab_io::Nanos;
use trimtab_predict::{LabelRule, Predictor};
use trimtab_trace::Record;

use crate::error::TrainError;

/// Trains predictors on recordings. It sees phase one and nothing else.
///
/// A recording is the requests to one drive, in the order in which they were sent, each with
/// the times at which the drive took and completed it. Recordings are in the order of the
/// drives.
pub trait Trainer: Sync {
    /// For each drive, the latency from which on reads are slow (LinnOS, §4.2.1); `None` if no
    /// latency makes failing over worthwhile.
    ///
    /// # Errors
    /// A drive has completed no read.
    fn inflections(
        &self,
        recordings: &[&[Record]],
        seed: u64,
    ) -> Result<Vec<Option<SlowThreshold>>, TrainError>;

    /// A predictor for one of the drives. Where it cannot pay, or there is too little to train
    /// on, it is one that [never refuses](TrainedPredictor::never).
    ///
    /// # Errors
    /// There is none of this name, or training failed.
    fn train(&self, inputs: &TrainingInputs<'_>) -> Result<TrainedPredictor, TrainError>;
}

/// What a predictor is trained from.
#[derive(Clone, Copy, Debug)]
pub struct TrainingInputs<'a> {
    /// The name of the predictor.
    pub predictor: &'a str,
    /// The number of its drive, from 0.
    pub drive: usize,
    /// The recordings of all drives with the same blocks.
    pub recordings: &'a [&'a [Record]],
    /// What [`Trainer::inflections`] has found in them.
    pub inflections: &'a [Option<SlowThreshold>],
    /// The rule by which `trimtab` is trained. The others are trained as they were published,
    /// by the inflection point.
    pub rule: LabelRule,
    /// What a failover costs, beside the inference.
    pub failover: Nanos,
    /// The seed of training's random numbers.
    pub seed: u64,
}

/// The latency from which on a drive's reads are slow.
#[derive(Clone, Copy, Debug)]
pub struct SlowThreshold {
    /// The latency.
    pub latency: Nanos,
    /// Whether it was found among drives like this one, because no latency makes failing over
    /// to the array's other drives worthwhile.
    pub alone: bool,
}

/// A trained predictor.
pub struct TrainedPredictor {
    /// The predictor, which has seen no requests yet.
    pub predictor: Box<dyn Predictor>,
    /// The latency above which it was trained to call a request late; [`Nanos::MAX`] if it never
    /// refuses.
    pub threshold: Nanos,
    /// Why it never refuses, if it does not.
    pub never: Option<String>,
    /// The share of what it would have submitted in training that was late.
    pub false_submit_rate: f64,
    /// The charge for a decision, unless the scenario sets another one.
    pub inference: Nanos,
}
