//! Training sets.

use trimtab_predict::Recorded;

use crate::reads::{Read, mask, reads};

/// A recording, and those of its reads to train on.
#[derive(Clone, Debug)]
pub struct TrainingSet<'a> {
    /// The recording, in order of arrival.
    pub recorded: &'a [Recorded],
    /// The reads to train on, of those that [`reads`](crate::reads()) gives.
    pub reads: Vec<Read>,
}

impl<'a> TrainingSet<'a> {
    /// All reads of a recording.
    #[must_use]
    pub fn whole(recorded: &'a [Recorded]) -> Self {
        Self { recorded, reads: reads(recorded) }
    }

    /// A mask over the recording's requests that selects the reads to train on.
    pub(crate) fn mask(&self) -> Vec<bool> {
        mask(self.recorded, &self.reads)
    }

    /// The recording up to the last of these reads: nothing later may be used.
    pub(crate) fn past(&self) -> &'a [Recorded] {
        &self.recorded[..self.reads.last().map_or(0, |read| read.index + 1)]
    }
}
