//! The reads of a driver: where they come from, and what becomes of them.

use trimtab_io::{Nanos, Outcome, Request, RequestId};

use crate::action::Reason;
use crate::replica::Replica;

/// Receives what becomes of the reads that a driver was given.
pub trait Reads {
    /// A read that was given to the driver, by its number.
    fn request(&self, read: RequestId) -> Request;

    /// A read is complete, with data or without. Called once for each read.
    fn completed(&mut self, now: Nanos, read: RequestId, outcome: Outcome);

    /// A request to a replica, sent for a read, has ended. Called before
    /// [`completed`](Self::completed) of a read that is complete with it, and also for requests
    /// that end after their read.
    fn request_ended(&mut self, now: Nanos, end: &RequestEnd);
}

/// The end of a request that was sent to a replica for a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestEnd {
    /// The read.
    pub read: RequestId,
    /// The replica.
    pub replica: Replica,
    /// Why it was sent; `None`: a refused read, sent as a forced sample.
    pub reason: Option<Reason>,
    /// When it was sent.
    pub sent: Nanos,
    /// How it ended.
    pub outcome: Outcome,
}
