//! What several tests need.

use trimtab_io::{DeviceId, Flags, Nanos, Op, Request, RequestId};

/// A request of which only the place matters.
pub(crate) fn request(op: Op, offset: u64, length: u64) -> Request {
    Request {
        id: RequestId(0),
        device: DeviceId(0),
        arrival: Nanos::ZERO,
        op,
        offset,
        length,
        flags: Flags::empty(),
        deadline: None,
    }
}
