//! Where predictors come from.

use trimtab_io::Nanos;
use trimtab_predict::Predictor;
use trimtab_trace::Record;

/// Makes predictors from recordings. It sees phase one and nothing else.
///
/// A recording is what one drive was sent, in the order in which it was sent,
/// each request with the times at which the drive took it and answered.
/// Recordings stand in the order of the drives.
pub trait Trainer: Sync {
    /// For each drive, the latency at which slow begins (LinnOS, §4.2.1).
    ///
    /// # Errors
    /// The recordings do not say, for instance because too little is slow.
    fn inflections(&self, recordings: &[Vec<Record>], seed: u64) -> Result<Vec<SlowFrom>, String>;

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
    ) -> Result<Trained, String>;
}

/// Where slow begins on a drive.
#[derive(Clone, Copy, Debug)]
pub struct SlowFrom {
    /// The latency.
    pub latency: Nanos,
    /// Whether it is what it would be if the others were like the drive itself: as they are,
    /// no latency makes failing over to them worth while.
    pub alone: bool,
}

/// A predictor, trained.
pub struct Trained {
    /// The predictor, which has seen nothing yet.
    pub predictor: Box<dyn Predictor>,
    /// What it was taught to call late: a request that takes longer than that.
    pub threshold: Nanos,
    /// Of what it would have sent in training, the share that was late.
    pub false_submit_rate: f64,
    /// What a decision costs, if the scenario says nothing else.
    pub inference: Nanos,
}
