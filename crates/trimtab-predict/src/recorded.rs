//! A completed request.

use trimtab_io::{Completion, Nanos, Op, Outcome, Request};

/// A request and its completion, as a recording holds them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// The request. It was sent to the drive when it arrived.
    pub request: Request,
    /// When it completed.
    pub complete: Nanos,
    /// Whether the completion brought data: no error, no refusal, and the request is a read or
    /// a write. Other completions are no measure of the drive's speed.
    pub data: bool,
}

impl Recorded {
    /// Joins a request and its completion.
    #[must_use]
    pub fn new(request: Request, completion: &Completion) -> Self {
        let data =
            completion.outcome == Outcome::Done && matches!(request.op, Op::Read | Op::Write);
        Self { request, complete: completion.complete, data }
    }

    /// Its latency: from arrival to completion.
    #[must_use]
    pub const fn latency(&self) -> Nanos {
        self.complete.since(self.request.arrival)
    }

    /// Whether it is a read that brought its data: the requests that predictors are
    /// trained on and evaluated on.
    #[must_use]
    pub fn is_read(&self) -> bool {
        self.request.op == Op::Read && self.data
    }
}
