//! What several tests need.

use crate::{Kind, Model, Options, Recorded, Rule, Teaching, reads};
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
pub(crate) fn recorded(at: u64, latency: u64) -> Recorded {
    let request = Request { arrival: Nanos(at), ..request(Op::Read, 0, 4096) };
    Recorded { request, complete: Nanos(at + latency), data: true }
}

/// Reads on a drive that serves one at a time, now and then a slow one.
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

/// A model of a recording, by the knee.
pub(crate) fn data_model(kind: Kind, recorded: &[Recorded]) -> Model {
    let teaching = Teaching {
        kind,
        rule: Rule::Knee,
        name: "recording",
        recorded,
        past: &reads(recorded),
        peers: &[],
        options: &Options::default(),
    };
    teaching.run(|_, _| {}).unwrap().model
}
