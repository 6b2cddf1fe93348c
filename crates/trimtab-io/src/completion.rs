//! What became of a request.

use crate::{DeviceId, Nanos, RequestId};

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The drive did what was asked.
    Done,
    /// Not attempted, because it would have been late. Nothing was changed;
    /// the submitter is free to ask elsewhere.
    Refused {
        /// How long it would have waited, as far as the refuser could tell.
        expected_wait: Nanos,
    },
    /// The drive failed.
    Error,
}

/// The end of one request. Every request gets exactly one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Which request.
    pub request: RequestId,
    /// The device that answered.
    pub device: DeviceId,
    /// When the request was sent to the drive; for a refused one, when it was
    /// refused.
    pub issue: Nanos,
    /// When the answer came.
    pub complete: Nanos,
    /// How it ended.
    pub outcome: Outcome,
}

impl Completion {
    /// The time the drive took: from issue to completion.
    #[must_use]
    pub const fn service_time(&self) -> Nanos {
        self.complete.since(self.issue)
    }
}
