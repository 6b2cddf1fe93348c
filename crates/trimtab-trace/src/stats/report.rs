//! A trace's statistics, as data.

use serde::Serialize;
use trimtab_io::{Nanos, Op, Summary};

/// Output of [`Stats`](super::Stats). As JSON, names carry units; figures that the trace does not
/// support are `null`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The file format, as `--format` calls it.
    pub format: &'static str,
    /// Origin of times: `unix`, or the trace's `own`.
    pub clock: &'static str,
    /// Notes of the trace's writer.
    pub notes: Vec<Note>,
    /// All requests.
    pub requests: u64,
    /// Bytes that reads and writes moved.
    pub bytes: u64,
    /// The first arrival, on the trace's clock.
    pub first_arrival_ns: Option<Nanos>,
    /// From the first arrival to the last.
    pub duration_ns: Nanos,
    /// Share of reads among reads and writes.
    pub read_share: Option<f64>,
    /// Reads per write.
    pub read_write_ratio: Option<f64>,
    /// The ops in the trace, in the order of [`Op::ALL`].
    pub ops: Vec<OpFigures>,
    /// The devices.
    pub devices: Devices,
    /// Requests and bytes per second.
    pub rates: Rates,
    /// Inter-arrival times over all devices; `None` for fewer than two requests.
    pub inter_arrival: Option<InterArrival>,
    /// Sequential share; `None` without offsets, or without reads and writes.
    pub sequential: Option<Sequential>,
    /// Bytes touched; `None` without offsets.
    pub footprint: Option<FootprintSize>,
    /// Requests in flight; `None` if no completion was measured.
    pub queue_depth: Option<QueueDepth>,
    /// Outcome of requests.
    pub completions: Completions,
}

/// A note of a trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Note {
    /// Its key.
    pub key: String,
    /// Its text.
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
    /// Number of requests.
    pub requests: u64,
    /// Share of all requests, 0 to 1.
    pub share: f64,
    /// The sum of their lengths.
    pub bytes: u64,
    /// Their mean length.
    pub mean_bytes: f64,
    /// The maximum.
    pub max_bytes: u64,
    /// Arrival to completion; `None` if not measured.
    pub response: Option<Summary>,
    /// Issue to completion; `None` if not measured.
    pub service: Option<Summary>,
}

/// The devices of a trace.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Devices {
    /// Devices with requests.
    pub count: u64,
    /// Those with the most requests, at most ten.
    pub top: Vec<DeviceShare>,
}

/// One device's share of a trace.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DeviceShare {
    /// Its name in the trace.
    pub name: String,
    /// Its requests.
    pub requests: u64,
    /// Share of all requests, 0 to 1.
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
    /// The busiest window of each length that fits into the duration. The two peaks of one length
    /// may be in different windows.
    pub peaks: Vec<PeakRate>,
}

/// The highest rates over windows of one length.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PeakRate {
    /// Length of the windows.
    pub window_s: u64,
    /// Requests per second.
    pub iops: f64,
    /// 10⁶ bytes moved per second.
    pub mb_s: f64,
}

/// Inter-arrival times.
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
    /// Begin where any of the device's last 32 ended: detects interleaved streams.
    pub share_of_last_32: f64,
}

/// Distinct bytes that reads and writes touch, in sectors of 512 bytes, per device. Discards and
/// flushes are not counted.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct FootprintSize {
    /// Their number.
    pub bytes: u64,
    /// Whether it is exact, or an estimate.
    pub exact: bool,
    /// The estimate's standard error, relative; 0 if exact.
    pub standard_error: f64,
}

/// Queue depth at arrival: other requests of the same device that had arrived before (or precede it
/// at the same instant), and were not complete. Waiting for issue counts, so this is the
/// application's queue.
///
/// A request without a measured completion does not count for others.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct QueueDepth {
    /// The mean.
    pub mean: f64,
    /// The median. Exact below 256, then within 1%. As the next two, `None` with too few requests.
    pub p50: Option<u64>,
    /// The 90th percentile.
    pub p90: Option<u64>,
    /// The 99th percentile.
    pub p99: Option<u64>,
    /// The maximum.
    pub max: u64,
    /// Shares of the arrivals by power of two: 0, 1, 2–3, 4–7, …
    pub classes: Vec<DepthClass>,
    /// Requests not tracked because over a million were in flight; if any, the depths are lower
    /// bounds.
    pub untracked: u64,
}

/// Arrivals at a depth from `from` to `to`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct DepthClass {
    /// Smallest depth.
    pub from: u64,
    /// Largest depth.
    pub to: u64,
    /// Share of all arrivals, 0 to 1.
    pub share: f64,
}

/// Outcome of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Completions {
    /// Requests with a measured completion.
    pub measured: u64,
    /// Requests without.
    pub missing: u64,
    /// Completed with an error.
    pub errors: u64,
    /// Grew by merging before they were issued.
    pub merged: u64,
    /// Requeued by the driver, and issued again.
    pub requeued: u64,
    /// Completed in several parts.
    pub partial: u64,
}
