//! Training: the source of predictors.

mod builtin;

pub use builtin::BuiltinTrainer;

use trimtab_io::Nanos;
use trimtab_predict::Predictor;
use trimtab_trace::Record;

use crate::error::TrainError;

/// Trains predictors on recordings. It sees phase one and nothing else.
///
/// A recording is the requests to one drive, in the order in which they were sent, each with
/// the times at which the drive took and completed it. Recordings are in the order of the
/// drives.
pub trait Trainer: Sync {
    /// For each drive, the latency from which on reads are slow (LinnOS, §4.2.1).
    ///
    /// # Errors
    /// The recordings do not determine it, for instance because too little is slow.
    fn inflections(
        &self,
        recordings: &[Vec<Record>],
        seed: u64,
    ) -> Result<Vec<SlowThreshold>, TrainError>;

    /// The predictor of this name for one of the drives.
    ///
    /// # Errors
    /// There is none of this name, or it cannot be trained on this recording.
    fn train(
        &self,
        predictor: &str,
        drive: usize,
        recordings: &[Vec<Record>],
        inflections: &[Nanos],
        seed: u64,
    ) -> Result<TrainedPredictor, TrainError>;
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
    /// The latency above which it was trained to call a request late.
    pub threshold: Nanos,
    /// The share of what it would have submitted in training that was late.
    pub false_submit_rate: f64,
    /// The charge for a decision, unless the scenario sets another one.
    pub inference: Nanos,
}
