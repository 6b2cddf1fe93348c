//! Recordings in the format of published replays.

use trimtab_io::{DeviceId, Flags, Issuer, Nanos, Op, Request, RequestId};
use trimtab_predict::Recorded;

/// The requests of a recording by arrival; `None` if a line is not in the format.
pub(crate) fn recording(text: &str) -> Option<Vec<Recorded>> {
    let line = |line: &str| {
        let columns: Vec<&str> = line.split(',').collect();
        let [_, latency_us, op, length, offset, submit_ms, moved] = columns[..] else {
            return None;
        };
        let arrival = Nanos((submit_ms.parse::<f64>().ok()? * 1e6).round() as u64);
        let request = Request {
            id: RequestId(0),
            device: DeviceId(0),
            arrival,
            op: if op == "1" { Op::Read } else { Op::Write },
            offset: offset.parse().ok()?,
            length: length.parse().ok()?,
            flags: Flags::empty(),
            deadline: None,
            issuer: Issuer::of_process(0),
        };
        let complete = arrival + Nanos::from_micros(latency_us.parse().ok()?);
        Some(Recorded { request, complete, data: moved.parse::<i64>().ok()? >= 0 })
    };
    let mut all = text.lines().map(line).collect::<Option<Vec<_>>>()?;
    all.sort_by_key(|recorded| recorded.request.arrival);
    Some(all)
}
