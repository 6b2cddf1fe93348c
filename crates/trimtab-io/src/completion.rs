//! Completion of a request.

use crate::{DeviceId, Nanos, RequestId};

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The drive completed it.
    Done,
    /// Refused before submission, because it would have been late. No I/O was issued; the submitter
    /// may use another replica.
    Refused {
        /// Predicted waiting time.
        expected_wait: Nanos,
    },
    /// The drive returned an error.
    Error,
}

/// The completion of one request. Every request has exactly one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The request's number.
    pub request: RequestId,
    /// The device.
    pub device: DeviceId,
    /// When the request was sent to the drive, or refused.
    pub issue: Nanos,
    /// When it was completed.
    pub complete: Nanos,
    /// Its outcome.
    pub outcome: Outcome,
}

impl Completion {
    /// Issue to completion.
    #[must_use]
    pub const fn service_time(&self) -> Nanos {
        self.complete.since(self.issue)
    }
}
