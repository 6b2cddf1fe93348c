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

/// Counters of a member.
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

/// Counters of an array since its start.
#[derive(Debug)]
pub(crate) struct Figures {
    pub(crate) begun: Nanos,
    pub(crate) reads: Requests,
    pub(crate) writes: Requests,
    pub(crate) flushes: Requests,
    pub(crate) read_latency: LatencyHistogram,
    pub(crate) write_latency: LatencyHistogram,
    pub(crate) members: Vec<OfMember>,
    /// Stripes that were made to fit by resynchronising.
    pub(crate) resynced: u64,
}

impl Figures {
    pub(crate) fn new(members: usize) -> Self {
        Self {
            begun: trimtab_io::monotonic(),
            reads: Requests::default(),
            writes: Requests::default(),
            flushes: Requests::default(),
            read_latency: LatencyHistogram::default(),
            write_latency: LatencyHistogram::default(),
            members: vec![OfMember::default(); members],
            resynced: 0,
        }
    }

    /// A request of the user is complete.
    pub(crate) fn completed(&mut self, op: Op, bytes: u64, took: Nanos, is_done: bool) {
        let kind = match op {
            Op::Read => &mut self.reads,
            Op::Write => &mut self.writes,
            Op::Flush | Op::Discard => &mut self.flushes,
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

    /// A member has answered.
    pub(crate) fn member(&mut self, role: usize, op: Op, took: Nanos, is_done: bool) {
        let member = &mut self.members[role];
        match (op, is_done) {
            (Op::Read, true) => member.reads.record(took),
            (Op::Read, false) => member.read_errors += 1,
            (Op::Write, true) => member.writes.record(took),
            (_, true) => {}
            (_, false) => member.write_errors += 1,
        }
    }

    /// Something that a member could not read was written again.
    pub(crate) fn corrected(&mut self, role: usize, now: Nanos) {
        let member = &mut self.members[role];
        member.corrected += 1;
        member.corrections.push(now);
    }

    /// How often that was within so much time.
    pub(crate) fn corrections(&mut self, role: usize, now: Nanos, within: Nanos) -> usize {
        let all = &mut self.members[role].corrections;
        all.retain(|&at| now.since(at) < within);
        all.len()
    }

    /// Stripes did not fit, and were made to.
    pub(crate) fn resynced(&mut self, stripes: u64) {
        self.resynced += stripes;
    }
}
