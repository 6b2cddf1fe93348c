//! The figures of a trace, as data.

use serde::Serialize;
use trimtab_io::{Nanos, Op, Summary};

/// What [`Stats`](super::Stats) found. As JSON, each name carries its unit;
/// figures that the trace does not support are `null`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The file format, as `--format` calls it.
    pub format: &'static str,
    /// What times count from: `unix`, or the trace's `own` origin.
    pub clock: &'static str,
    /// What the trace's writer noted.
    pub notes: Vec<Note>,
    /// All requests.
    pub requests: u64,
    /// Bytes that reads and writes moved.
    pub bytes: u64,
    /// The first arrival, on the trace's clock.
    pub first_arrival_ns: Option<Nanos>,
    /// From the first arrival to the last.
    pub duration_ns: Nanos,
    /// Reads among reads and writes.
    pub read_share: Option<f64>,
    /// Reads per write.
    pub read_write_ratio: Option<f64>,
    /// The ops that occur, in the order of [`Op::ALL`].
    pub ops: Vec<OpFigures>,
    /// The devices.
    pub devices: Devices,
    /// Requests and bytes per second.
    pub rates: Rates,
    /// Times between one arrival and the next, of any device; `None` for
    /// fewer than two requests.
    pub inter_arrival: Option<InterArrival>,
    /// How much of the trace is sequential; `None` without offsets, or
    /// without reads and writes.
    pub sequential: Option<Sequential>,
    /// How much of the devices was touched; `None` without offsets.
    pub footprint: Option<FootprintSize>,
    /// Requests in flight; `None` where no completion was measured.
    pub queue_depth: Option<QueueDepth>,
    /// How requests ended, and what happened to them on the way.
    pub completions: Completions,
}

/// Something noted beside a trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Note {
    /// What it is about.
    pub key: String,
    /// What it says.
    pub value: String,
}

impl Note {
    pub(super) fn new((key, value): &(String, String)) -> Self {
        Self { key: key.clone(), value: value.clone() }
    }
}

/// The requests of one op.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OpFigures {
    /// The op.
    pub op: Op,
    /// How many.
    pub requests: u64,
    /// Among all requests, 0 to 1.
    pub share: f64,
    /// The sum of their lengths.
    pub bytes: u64,
    /// Their mean length.
    pub mean_bytes: f64,
    /// The longest.
    pub max_bytes: u64,
    /// From arrival to completion; `None` where it was not measured.
    pub response: Option<Summary>,
    /// From issue to completion; `None` where it was not measured.
    pub service: Option<Summary>,
}

/// The devices of a trace.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Devices {
    /// How many have requests.
    pub count: u64,
    /// Those with the most requests, at most ten.
    pub top: Vec<DeviceShare>,
}

/// One device's part in a trace.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DeviceShare {
    /// Its name in the trace.
    pub name: String,
    /// Its requests.
    pub requests: u64,
    /// Among all requests, 0 to 1.
    pub share: f64,
    /// Bytes that its reads and writes moved.
    pub bytes: u64,
}

/// Requests and bytes per second.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rates {
    /// Requests per second of duration; `None` without a duration.
    pub mean_iops: Option<f64>,
    /// 10⁶ bytes moved per second of duration.
    pub mean_mb_s: Option<f64>,
    /// The fullest window of each length that fits into the duration. The two
    /// peaks of one length need not fall into the same window.
    pub peaks: Vec<PeakRate>,
}

/// The highest rates over windows of one length.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PeakRate {
    /// The windows' length.
    pub window_s: u64,
    /// Requests per second.
    pub iops: f64,
    /// 10⁶ bytes moved per second.
    pub mb_s: f64,
}

/// Times between one arrival and the next.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct InterArrival {
    /// Mean, percentiles, maximum.
    #[serde(flatten)]
    pub times: Summary,
    /// Coefficient of variation: the (population) standard deviation over the
    /// mean. 0 for a metronome, 1 for a Poisson process, more for bursts.
    /// `None` if all arrive at the same instant.
    pub coefficient_of_variation: Option<f64>,
}

/// Shares of the reads and writes, 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Sequential {
    /// Begin where the device's previous read or write ended.
    pub share: f64,
    /// Begin where any of the device's last 32 ended: this sees through
    /// streams that interleave.
    pub share_of_last_32: f64,
}

/// The distinct bytes that reads and writes touch, in sectors of 512 bytes, each
/// device for itself. Discards and flushes touch nothing.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct FootprintSize {
    /// Their number.
    pub bytes: u64,
    /// Whether that is exact, or estimated.
    pub exact: bool,
    /// The estimate's standard error, relative; 0 if exact.
    pub standard_error: f64,
}

/// How many other requests of the same device were in flight as each request
/// arrived: had arrived before it (or stand before it, at the same instant), and
/// were not complete. The time waiting for issue counts, so this is the queue
/// as the application makes it.
///
/// A request whose completion was not measured is not in flight for others.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct QueueDepth {
    /// The mean.
    pub mean: f64,
    /// The depth that half of the arrivals do not exceed. Exact below 256, then
    /// within 1%. As the next two, `None` where too few requests support it.
    pub p50: Option<u64>,
    /// Not exceeded by nine in ten.
    pub p90: Option<u64>,
    /// Not exceeded by 99 in 100.
    pub p99: Option<u64>,
    /// The deepest.
    pub max: u64,
    /// Shares of the arrivals by power of two: 0, 1, 2–3, 4–7, …
    pub classes: Vec<DepthClass>,
    /// Requests that could not be followed because over a million were in
    /// flight already; if any, the depths are lower bounds.
    pub untracked: u64,
}

/// The arrivals that saw between `from` and `to` others in flight.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct DepthClass {
    /// The least depth.
    pub from: u64,
    /// The greatest.
    pub to: u64,
    /// Among all arrivals, 0 to 1.
    pub share: f64,
}

/// How requests ended, and what happened to them on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Completions {
    /// Requests whose completion was measured.
    pub measured: u64,
    /// Requests whose completion was not.
    pub missing: u64,
    /// Ended in an error.
    pub errors: u64,
    /// Grew by merging before they were issued.
    pub merged: u64,
    /// Sent back by the driver, and issued again.
    pub requeued: u64,
    /// Completed in several parts.
    pub partial: u64,
}
