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

/// A read of the drive's first page.
pub(crate) fn recorded(at: u64, latency: u64) -> crate::Recorded {
    let request = Request { arrival: Nanos(at), ..request(Op::Read, 0, 4096) };
    crate::Recorded { request, complete: Nanos(at + latency), data: true }
}
