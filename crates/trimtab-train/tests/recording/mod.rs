//! Recordings of simulated drives, for tests.

#![allow(dead_code, reason = "each test file uses a part of it")]

use trimtab_io::{DeviceId, Nanos, Op, Request, RequestId};
use trimtab_predict::Recorded;

/// A request of which only the extent matters.
pub(crate) fn request(op: Op, offset: u64, length: u64) -> Request {
    Request::new(RequestId(0), DeviceId(0), Nanos::ZERO, op, offset, length)
}

/// A read of the drive's first page.
pub(crate) fn recorded(at: u64, latency: u64) -> Recorded {
    let request = Request { arrival: Nanos(at), ..request(Op::Read, 0, 4096) };
    Recorded { request, complete: Nanos(at + latency), data: true }
}

/// Reads on a drive that serves one at a time; each 50th is slow.
pub(crate) fn recording() -> Vec<Recorded> {
    let (mut now, mut free, mut state) = (0, 0, 7_u64);
    let mut random = move |below: u64| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) % below
    };
    let one = |i: u64| {
        now += random(400_000);
        let service = if i.is_multiple_of(50) { 2_000_000 } else { 80_000 + random(20_000) };
        free = now.max(free) + service;
        let request =
            Request { arrival: Nanos(now), ..request(Op::Read, random(1 << 16) << 12, 4096) };
        Recorded { request, complete: Nanos(free), data: true }
    };
    (0..4000).map(one).collect()
}
