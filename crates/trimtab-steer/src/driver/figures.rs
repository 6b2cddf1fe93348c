//! What came of a run.

use trimtab_io::{LatencyHistogram, Nanos, Outcome};

use super::ArrayIo;
use crate::steering::Counts;

/// What came of a run.
#[derive(Clone, Debug, Default)]
pub struct ArrayFigures {
    /// Latency of the user's reads: from arrival to answer, with what deciding
    /// cost.
    pub reads: LatencyHistogram,
    /// The same by home drive.
    pub homes: Vec<HomeFigures>,
    /// Reads that no drive could answer.
    pub errors: u64,
    /// What was asked of the drives.
    pub counts: Counts,
    /// How good the decisions were.
    pub judged: Judged,
}

impl ArrayFigures {
    /// A read was answered, or no drive could.
    pub fn answered(&mut self, now: Nanos, io: &ArrayIo, outcome: Outcome) {
        if outcome != Outcome::Done {
            self.errors += 1;
            return;
        }
        let latency = now.since(io.at);
        self.reads.record(latency);
        self.homes[io.home.index()].reads.record(latency);
    }
}

/// One drive's share.
#[derive(Clone, Debug, Default)]
pub struct HomeFigures {
    /// Latency of the reads whose home it is, wherever they were answered.
    pub reads: LatencyHistogram,
    /// How long the reads took that were sent to this drive, from then on.
    pub served: LatencyHistogram,
}

/// Decisions and what became of them. A read is slow if the drive took longer
/// than the threshold that its predictor was trained with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Judged {
    /// Reads sent because they were predicted to be fast.
    pub submitted: u64,
    /// Of these, those that were slow.
    pub false_submits: u64,
    /// Times that a drive was refused.
    pub refused: u64,
    /// Of these, those that were tried on a copy of the drive.
    pub sampled: u64,
    /// Of the sampled, those that would have been fast.
    pub false_revokes: u64,
}

impl Judged {
    /// Of what was submitted, the share that was slow (LinnOS, §4.4).
    #[must_use]
    pub fn false_submit_rate(&self) -> Option<f64> {
        share(self.false_submits, self.submitted)
    }

    /// Of what was refused, the share that would have been fast, as far as it
    /// was sampled.
    #[must_use]
    pub fn false_revoke_rate(&self) -> Option<f64> {
        share(self.false_revokes, self.sampled).filter(|_| self.sampled >= FEWEST_TRIALS)
    }
}

/// Of fewer than these a share says nothing.
const FEWEST_TRIALS: u64 = 10;

fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}
