//! Counters of a running device: sums and histograms, of constant size.

use trimtab_device::{LatencyBreakdown, Served};
use trimtab_io::{LatencyHistogram, Nanos, Outcome};

use crate::host::Sent;
use crate::source::NEVER;

/// The figures of one device.
#[derive(Clone, Debug)]
pub(crate) struct Figures {
    /// The measured time. It has started once its start is known.
    pub(crate) start: Nanos,
    pub(crate) stop: Nanos,
    /// By workload and op.
    pub(crate) workloads: Box<[[OpFigures; 4]]>,
    /// Of reads, and of writes.
    pub(crate) times: [OpTimes; 2],
    /// Completions, including the warm-up's.
    pub(crate) completions: u64,
    /// The time of the last one.
    pub(crate) last: Nanos,
}

/// The figures of one op of one workload.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpFigures {
    /// Of requests that arrived in the measured time, from arrival on.
    pub(crate) latency: Option<Box<LatencyHistogram>>,
    /// Requests completed within the measured time, and their bytes: throughput.
    pub(crate) done: u64,
    pub(crate) bytes: u64,
    pub(crate) refused: u64,
    pub(crate) errors: u64,
}

/// The components of the latency of one op, summed, ns.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OpTimes {
    pub(crate) count: u64,
    pub(crate) waited_for_cleaning: u64,
    pub(crate) all: u128,
    pub(crate) host: u64,
    pub(crate) stalled: u64,
    pub(crate) die: u64,
    pub(crate) cleaning: u64,
    pub(crate) channel: u64,
    pub(crate) buffer: u64,
    pub(crate) retries: u64,
}

impl OpTimes {
    #[inline]
    fn add(&mut self, all: Nanos, host: Nanos, breakdown: &LatencyBreakdown) {
        self.count += 1;
        self.waited_for_cleaning += u64::from(breakdown.cleaning > Nanos::ZERO);
        self.all += u128::from(all.0);
        self.host += host.0;
        self.stalled += breakdown.stalled.0;
        self.die += breakdown.die.0;
        self.cleaning += breakdown.cleaning.0;
        self.channel += breakdown.channel.0;
        self.buffer += breakdown.buffer.0;
        self.retries += breakdown.retries.0;
    }
}

impl Figures {
    pub(crate) fn new(workloads: usize) -> Self {
        Self {
            start: NEVER,
            stop: NEVER,
            workloads: vec![Default::default(); workloads].into(),
            times: Default::default(),
            completions: 0,
            last: Nanos::ZERO,
        }
    }

    #[inline]
    pub(crate) fn add(&mut self, sent: &Sent, served: &Served) {
        let completion = &served.completion;
        let at = completion.complete;
        self.completions += 1;
        self.last = at;
        let op = &mut self.workloads[sent.workload as usize][sent.op as usize];
        match completion.outcome {
            Outcome::Done => {}
            Outcome::Refused { .. } => {
                op.refused += u64::from(sent.measured);
                return;
            }
            Outcome::Error => {
                op.errors += u64::from(sent.measured);
                return;
            }
        }
        if at >= self.start && at < self.stop {
            op.done += 1;
            op.bytes += sent.length;
        }
        if sent.measured {
            let latency = at.since(sent.arrived);
            op.latency.get_or_insert_default().record(latency);
            // Reads and writes come first among the ops.
            if let Some(times) = self.times.get_mut(sent.op as usize) {
                times.add(latency, completion.issue.since(sent.arrived), &served.breakdown);
            }
        }
    }
}
