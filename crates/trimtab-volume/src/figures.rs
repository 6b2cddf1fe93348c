//! What is counted.

use serde::{Deserialize, Serialize};
use trimtab_io::{LatencyHistogram, Nanos, Op};

/// Requests of a kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requests {
    /// How many.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// How many failed.
    pub errors: u64,
}

/// Latencies, in µs; none where there are too few samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latencies {
    /// Samples.
    pub count: u64,
    /// Median.
    pub p50_us: Option<f64>,
    /// 99th percentile.
    pub p99_us: Option<f64>,
    /// 99.9th percentile.
    pub p999_us: Option<f64>,
    /// Maximum.
    pub max_us: Option<f64>,
}

impl From<&LatencyHistogram> for Latencies {
    fn from(all: &LatencyHistogram) -> Self {
        let summary = all.summary();
        let percentile = |name| summary.percentile(name).map(Nanos::as_micros_f64);
        Self {
            count: summary.count,
            p50_us: percentile("p50"),
            p99_us: percentile("p99"),
            p999_us: percentile("p99.9"),
            max_us: summary.max.map(Nanos::as_micros_f64),
        }
    }
}

/// Counters of a device.
#[derive(Clone, Debug, Default)]
pub(crate) struct OfMember {
    pub(crate) reads: LatencyHistogram,
    pub(crate) writes: LatencyHistogram,
    /// Reads that it refused.
    pub(crate) refused: u64,
    pub(crate) read_errors: u64,
    pub(crate) write_errors: u64,
    pub(crate) corrected: u64,
    /// When reads were corrected lately.
    corrections: Vec<Nanos>,
}

impl OfMember {
    /// A request has ended.
    pub(crate) fn ended(&mut self, op: Op, took: Nanos, is_done: bool) {
        match (op, is_done) {
            (Op::Read, true) => self.reads.record(took),
            (Op::Read, false) => self.read_errors += 1,
            (Op::Write, true) => self.writes.record(took),
            (_, true) => {}
            (_, false) => self.write_errors += 1,
        }
    }

    /// Something that it could not read was written again.
    pub(crate) fn corrected(&mut self, now: Nanos) {
        self.corrected += 1;
        self.corrections.push(now);
    }

    /// How often that was within so much time.
    pub(crate) fn corrections(&mut self, now: Nanos, within: Nanos) -> usize {
        self.corrections.retain(|&at| now.since(at) < within);
        self.corrections.len()
    }
}

/// Counters of an array since its start.
#[derive(Debug)]
pub(crate) struct Figures {
    pub(crate) begun: Nanos,
    pub(crate) reads: Requests,
    pub(crate) writes: Requests,
    pub(crate) flushes: Requests,
    pub(crate) discards: Requests,
    pub(crate) read_latency: LatencyHistogram,
    pub(crate) write_latency: LatencyHistogram,
    /// Stripes that were made to fit by resynchronising.
    pub(crate) resynced: u64,
}

impl Figures {
    pub(crate) fn new() -> Self {
        Self {
            begun: trimtab_io::monotonic(),
            reads: Requests::default(),
            writes: Requests::default(),
            flushes: Requests::default(),
            discards: Requests::default(),
            read_latency: LatencyHistogram::default(),
            write_latency: LatencyHistogram::default(),
            resynced: 0,
        }
    }

    /// A request of the user is complete.
    pub(crate) fn completed(&mut self, op: Op, bytes: u64, took: Nanos, is_done: bool) {
        let kind = match op {
            Op::Read => &mut self.reads,
            Op::Write => &mut self.writes,
            Op::Flush => &mut self.flushes,
            Op::Discard => &mut self.discards,
        };
        kind.requests += 1;
        kind.bytes += bytes;
        kind.errors += u64::from(!is_done);
        match op {
            Op::Read => self.read_latency.record(took),
            Op::Write => self.write_latency.record(took),
            Op::Flush | Op::Discard => {}
        }
    }

    /// Stripes did not fit, and were made to.
    pub(crate) fn resynced(&mut self, stripes: u64) {
        self.resynced += stripes;
    }
}
