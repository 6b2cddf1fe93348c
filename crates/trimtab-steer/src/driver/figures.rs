//! The figures of a run.

use trimtab_io::{LatencyHistogram, Nanos, Outcome};

use super::ArrayIo;
use crate::steering::Counts;

/// The figures of a run.
#[derive(Clone, Debug, Default)]
pub struct ArrayFigures {
    /// Latency of the application's reads, from arrival to completion, with the cost of
    /// decisions; of user requests of several reads, that of the slowest.
    pub reads: LatencyHistogram,
    /// The same by replica.
    pub replicas: Vec<ReplicaFigures>,
    /// Reads that no replica could serve; user requests with such a read.
    pub errors: u64,
    /// Requests sent to the replicas.
    pub counts: Counts,
    /// The score of the predictions.
    pub score: DecisionScore,
    /// The latency of each read, by the number of its request; [`Nanos::MAX`] for one without
    /// data, [`Nanos::ZERO`] for other requests. Empty unless
    /// [`RunOptions::each_read`](super::RunOptions::each_read) is set.
    pub each_read: Vec<Nanos>,
    /// User requests of several reads, by number; empty if each read is one.
    pub(super) user_requests: Vec<UserRequest>,
}

impl ArrayFigures {
    /// Empty figures of an array of `replicas` replicas.
    #[must_use]
    pub fn new(replicas: usize) -> Self {
        Self { replicas: vec![ReplicaFigures::default(); replicas], ..Self::default() }
    }

    /// The read with this number has completed, with data or without.
    pub fn read_completed(&mut self, now: Nanos, number: u64, io: &ArrayIo, outcome: Outcome) {
        let (latency, has_data) = (now.since(io.at), outcome == Outcome::Done);
        if let Some(read) = self.each_read.get_mut(number as usize) {
            *read = if has_data { latency } else { Nanos::MAX };
        }
        let latency_or_none = has_data.then_some(latency);
        match self.user_requests.get_mut(io.user_request as usize) {
            None => self.answered(latency_or_none),
            Some(user_request) => {
                if let Some(answer) = user_request.read_ended(latency_or_none) {
                    self.answered(answer);
                }
            }
        }
        if has_data {
            self.replicas[io.primary.index()].reads.record(latency);
        }
    }

    /// A user's request is answered, with data after this time, or without.
    fn answered(&mut self, latency: Option<Nanos>) {
        match latency {
            Some(latency) => self.reads.record(latency),
            None => self.errors += 1,
        }
    }
}

/// A user's request that is made of several reads.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct UserRequest {
    /// Reads that have not ended.
    pub(super) left: u32,
    slowest: Nanos,
    failed: bool,
}

impl UserRequest {
    /// One of its reads has ended, with data or without. Returns the answer with the last one.
    fn read_ended(&mut self, latency: Option<Nanos>) -> Option<Option<Nanos>> {
        self.left = self.left.saturating_sub(1);
        match latency {
            Some(latency) => self.slowest = self.slowest.max(latency),
            None => self.failed = true,
        }
        (self.left == 0).then_some((!self.failed).then_some(self.slowest))
    }
}

/// The figures of one replica.
#[derive(Clone, Debug, Default)]
pub struct ReplicaFigures {
    /// Latency of the reads whose primary replica it is, wherever they were served.
    pub reads: LatencyHistogram,
    /// Latency of the attempts that were sent to it, from submission.
    pub served: LatencyHistogram,
}

/// How often predictions were right. A read is slow if it took its replica longer than the
/// threshold with which the predictor was trained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DecisionScore {
    /// Reads sent because they were predicted to be fast.
    pub submitted: u64,
    /// Those of them that were slow.
    pub false_submits: u64,
    /// Times that a replica was refused.
    pub refused: u64,
    /// Refused reads that were served nevertheless, as forced samples.
    pub sampled: u64,
    /// Those of the samples that were fast.
    pub false_revokes: u64,
}

impl DecisionScore {
    /// The share of the submitted reads that were slow (LinnOS, §4.4).
    #[must_use]
    pub fn false_submit_rate(&self) -> Option<f64> {
        share(self.false_submits, self.submitted)
    }

    /// The share of the refused reads that would have been fast, estimated from the
    /// samples; none with too few samples.
    #[must_use]
    pub fn false_revoke_rate(&self) -> Option<f64> {
        share(self.false_revokes, self.sampled).filter(|_| self.sampled >= FEWEST_SAMPLES)
    }
}

/// Fewer samples are not significant.
const FEWEST_SAMPLES: u64 = 10;

fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}
