//! The figures of a run.

use trimtab_io::{LatencyHistogram, Nanos};

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
}

impl ArrayFigures {
    /// Empty figures of an array of `replicas` replicas.
    #[must_use]
    pub fn new(replicas: usize) -> Self {
        Self { replicas: vec![ReplicaFigures::default(); replicas], ..Self::default() }
    }

    /// The read with this number has completed, with data after this time or without.
    pub(super) fn read_completed(&mut self, number: u64, io: &ArrayIo, latency: Option<Nanos>) {
        if let Some(read) = self.each_read.get_mut(number as usize) {
            *read = latency.unwrap_or(Nanos::MAX);
        }
        if let Some(latency) = latency {
            self.replicas[io.primary.index()].reads.record(latency);
        }
    }

    /// A user's request is answered, with data after this time, or without.
    pub(super) fn answered(&mut self, latency: Option<Nanos>) {
        match latency {
            Some(latency) => self.reads.record(latency),
            None => self.errors += 1,
        }
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
