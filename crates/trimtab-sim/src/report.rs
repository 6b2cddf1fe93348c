//! The result of a simulation.
//!
//! It does not depend on the machine or the wall clock, so the same simulation gives the same
//! report.

use serde::Serialize;
use trimtab_io::{LatencyHistogram, Nanos, Op, Summary};

use crate::figures::{OpFigures, OpTimes};
use crate::lane::Lane;
use crate::server::Server;

/// The result of a simulation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The scenario's seed.
    pub seed: u64,
    /// Each device, in the scenario's order.
    pub devices: Vec<DeviceReport>,
}

/// The figures of one device in the measured time, after the warm-up.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DeviceReport {
    /// Its name.
    pub name: String,
    /// The user's capacity, bytes.
    pub capacity_bytes: u64,
    /// Whether it reached its end; otherwise these are the figures so far.
    pub complete: bool,
    /// Requests before the measured time.
    pub warm_up_requests: u64,
    /// Requests that arrived in the measured time.
    pub requests: u64,
    /// Requests among them that are incomplete, because the simulation was ended.
    pub unanswered: u64,
    /// The measured time: to its end, or to the last completion if a number of requests or a
    /// trace ended it.
    pub measured_ns: Nanos,
    /// Each op that occurred.
    pub ops: Vec<OpReport>,
    /// Each workload, if there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub workloads: Vec<WorkloadReport>,
    /// The components of the latency of reads; `None` without reads.
    pub reads: Option<TimeReport>,
    /// The same for writes.
    pub writes: Option<TimeReport>,
    /// Pages programmed per page written; `None` without writes.
    pub write_amplification: Option<f64>,
    /// Blocks erased.
    pub erases: u64,
    /// How often free blocks ran out, so that all requests had to wait.
    pub stalls: u64,
    /// The time during which they had to.
    pub stalled_ns: Nanos,
    /// Time that dies spent on cleaning, summed over dies.
    pub cleaning_ns: Nanos,
    /// Programs and erases that reads interrupted.
    pub suspended: u64,
    /// The most requests that the device had at a time, including the warm-up.
    pub most_in_flight: usize,
    /// The most requests in submission queues.
    pub most_waiting: usize,
}

/// The requests of one op.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OpReport {
    /// The op.
    pub op: Op,
    /// Requests completed per second of measured time.
    pub iops: Option<f64>,
    /// 10⁶ bytes per second.
    pub mb_s: Option<f64>,
    /// From arrival to completion, for requests that arrived in the measured time.
    pub latency: Summary,
    /// Requests that were refused, excluded from the latencies.
    pub refused: u64,
    /// Requests that failed, likewise.
    pub errors: u64,
}

/// The requests of one workload.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WorkloadReport {
    /// Its name.
    pub name: String,
    /// Each op that occurred.
    pub ops: Vec<OpReport>,
}

/// The components of the latency of one op's requests: means over all of them. A request that
/// is split counts with its last part.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TimeReport {
    /// Share of requests that waited for garbage collection.
    pub waited_for_cleaning: f64,
    /// In a submission queue.
    pub submission_queue_ns: Nanos,
    /// While the drive took no requests.
    pub stalled_ns: Nanos,
    /// For the die, because of other requests.
    pub die_ns: Nanos,
    /// For the die, because of garbage collection.
    pub cleaning_ns: Nanos,
    /// For the channel.
    pub channel_ns: Nanos,
    /// Waiting for space in the write buffer.
    pub buffer_ns: Nanos,
    /// Read retries.
    pub retries_ns: Nanos,
    /// The rest: reading or programming, and the transfer.
    pub service_ns: Nanos,
}

impl DeviceReport {
    pub(crate) fn of<S: Server>(lane: &Lane<S>) -> Self {
        let (figures, study) = (&lane.figures, lane.study());
        let time = lane.measured_time();
        let each = figures.workloads.iter();
        let all = each.clone().fold(<[OpFigures; 4]>::default(), |mut sum, ops| {
            sum.iter_mut().zip(ops).for_each(|(sum, op)| sum.add(op));
            sum
        });
        let ended = |op: &OpFigures| op.samples() + op.refused + op.errors;
        let workloads = match lane.workload_names().count() {
            1 => Vec::new(),
            _ => lane
                .workload_names()
                .zip(each)
                .map(|(name, ops)| WorkloadReport { name: name.to_owned(), ops: of_ops(ops, time) })
                .collect(),
        };
        Self {
            name: lane.name.clone(),
            capacity_bytes: lane.capacity(),
            complete: lane.finished,
            warm_up_requests: lane.arrived - lane.measured,
            requests: lane.measured,
            unanswered: lane.measured - all.iter().map(ended).sum::<u64>(),
            measured_ns: time,
            ops: of_ops(&all, time),
            workloads,
            reads: TimeReport::of(&figures.times[0]),
            writes: TimeReport::of(&figures.times[1]),
            write_amplification: study.write_amplification(),
            erases: study.erases,
            stalls: study.stalls,
            stalled_ns: study.stalled,
            cleaning_ns: study.cleaning,
            suspended: study.suspended,
            most_in_flight: lane.most_in_flight,
            most_waiting: lane.most_waiting,
        }
    }

    /// Requests of all ops done per second.
    #[must_use]
    pub fn iops(&self) -> f64 {
        self.ops.iter().filter_map(|op| op.iops).sum()
    }
}

impl OpFigures {
    fn samples(&self) -> u64 {
        self.latency.as_ref().map_or(0, |latency| latency.count())
    }

    fn add(&mut self, other: &Self) {
        if let Some(latency) = &other.latency {
            self.latency.get_or_insert_default().merge(latency);
        }
        self.done += other.done;
        self.bytes += other.bytes;
        self.refused += other.refused;
        self.errors += other.errors;
    }
}

fn of_ops(ops: &[OpFigures; 4], time: Nanos) -> Vec<OpReport> {
    let per_second = |n: u64| (time > Nanos::ZERO).then(|| n as f64 / time.as_secs_f64());
    let report = |(op, figures): (Op, &OpFigures)| OpReport {
        op,
        iops: per_second(figures.done),
        mb_s: per_second(figures.bytes).map(|bytes| bytes / 1e6),
        latency: match &figures.latency {
            Some(latency) => latency.summary(),
            None => LatencyHistogram::new().summary(),
        },
        refused: figures.refused,
        errors: figures.errors,
    };
    let occurred = |(_, op): &(Op, &OpFigures)| op.samples() + op.done + op.refused + op.errors > 0;
    Op::ALL.into_iter().zip(ops).filter(occurred).map(report).collect()
}

impl TimeReport {
    fn of(times: &OpTimes) -> Option<Self> {
        let count = times.count;
        if count == 0 {
            return None;
        }
        let waits = [
            times.host,
            times.stalled,
            times.die,
            times.cleaning,
            times.channel,
            times.buffer,
            times.retries,
        ];
        let all_waits = waits.iter().map(|&wait| u128::from(wait)).sum();
        let mean = |sum: u128| {
            let count = u128::from(count);
            Nanos(((sum + count / 2) / count) as u64)
        };
        let [host, stalled, die, cleaning, channel, buffer, retries] =
            waits.map(|wait| mean(wait.into()));
        Some(Self {
            waited_for_cleaning: times.waited_for_cleaning as f64 / count as f64,
            submission_queue_ns: host,
            stalled_ns: stalled,
            die_ns: die,
            cleaning_ns: cleaning,
            channel_ns: channel,
            buffer_ns: buffer,
            retries_ns: retries,
            service_ns: mean(times.all.saturating_sub(all_waits)),
        })
    }
}
