//! What a drive counts of itself.

use serde::{Deserialize, Serialize};
use trimtab_io::{LatencyHistogram, Nanos, Op, Summary};

/// One answered read, in full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// Its first byte.
    pub offset: u64,
    /// How long the model says it takes, in nanoseconds.
    pub model: Nanos,
    /// How much later than that, and than faults ask for, the server answered,
    /// counted from when it had the request; in nanoseconds.
    pub added: Nanos,
}

/// Requests of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    /// Answered, whichever way.
    pub requests: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Answered with an error by a fault.
    pub errors: u64,
}

/// A distribution of latencies, as far as the samples support it: p99 needs 1,000.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latencies {
    /// Samples.
    pub count: u64,
    /// Mean, µs.
    pub mean_us: Option<f64>,
    /// Median, µs.
    pub p50_us: Option<f64>,
    /// 99th percentile, µs.
    pub p99_us: Option<f64>,
    /// 99.9th percentile, µs.
    pub p999_us: Option<f64>,
    /// Maximum, µs.
    pub max_us: Option<f64>,
}

impl From<&Summary> for Latencies {
    fn from(summary: &Summary) -> Self {
        let us = |time: Nanos| time.as_micros_f64();
        let percentile = |name| summary.percentile(name).map(us);
        Self {
            count: summary.count,
            mean_us: summary.mean.map(us),
            p50_us: percentile("p50"),
            p99_us: percentile("p99"),
            p999_us: percentile("p99.9"),
            max_us: summary.max.map(us),
        }
    }
}

/// Counters and distributions since the drive was made.
pub(super) struct Figures {
    pub(super) since: Nanos,
    counts: [Count; Op::ALL.len()],
    pub(super) reads: LatencyHistogram,
    pub(super) added: LatencyHistogram,
    /// Writes that found no room for their data.
    pub(super) no_room: u64,
    /// Reads, one by one, while someone wants to know.
    log: Option<Vec<Sample>>,
}

/// A log is given up beyond so many: whoever asked has forgotten it.
const LONGEST_LOG: usize = 4 << 20;

impl Figures {
    pub(super) fn new(since: Nanos) -> Self {
        Self {
            since,
            counts: Default::default(),
            reads: LatencyHistogram::new(),
            added: LatencyHistogram::new(),
            no_room: 0,
            log: None,
        }
    }

    pub(super) const fn counts(&self, op: Op) -> Count {
        self.counts[op as usize]
    }

    /// Counts an answer.
    pub(super) fn count(&mut self, op: Op, bytes: u64, failed: bool, sample: &Sample) {
        let count = &mut self.counts[op as usize];
        count.requests += 1;
        count.bytes += bytes;
        count.errors += u64::from(failed);
        self.added.record(sample.added);
        if op == Op::Read {
            self.reads.record(sample.model);
            match &mut self.log {
                Some(log) if log.len() < LONGEST_LOG => log.push(*sample),
                _ => self.log = None,
            }
        }
    }

    /// Begins to note reads one by one.
    pub(super) fn begin_log(&mut self) {
        self.log = Some(Vec::new());
    }

    /// Ends that, and gives them in order of their answers.
    pub(super) fn end_log(&mut self) -> Vec<Sample> {
        self.log.take().unwrap_or_default()
    }
}
