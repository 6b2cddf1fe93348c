//! Requests for unit tests.

use trimtab_io::{DeviceId, Nanos, Op, Request, RequestId};

/// A request of which only the extent matters.
pub(crate) fn request(op: Op, offset: u64, length: u64) -> Request {
    Request::new(RequestId(0), DeviceId(0), Nanos::ZERO, op, offset, length)
}
