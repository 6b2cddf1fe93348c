//! Statistics of a trace: the figures in published tables of traces.
//!
//! One pass, in memory that does not grow with the trace: at most about 40 MB for the footprint
//! (`stats/footprint.rs`), 16 MB for requests in flight (`in_flight.rs`) and 10 MB for
//! sequentiality (`sequence.rs`), and little for a small trace.
//!
//! Definitions:
//!
//! - The *duration* is the span from the first arrival to the last. Mean rates
//!   are totals divided by it. Without a span (one request, or all at the same
//!   instant) there is no mean rate.
//! - *Peak rates* are those of the fullest window. Windows of 1 s and of 10 s
//!   stand side by side, the first beginning at the first arrival. A trace
//!   shorter than a window has no peak over it.
//! - *Bytes* of the whole trace are those that moved: of reads and writes.
//!   Discards and flushes move none, and have no part in footprint and
//!   sequentiality either.
//! - MB and GB are 10⁶ and 10⁹ bytes.

mod footprint;
mod in_flight;
mod rate;
mod report;
mod sequence;

use trimtab_io::{Flags, LatencyHistogram, Nanos, Op};

use crate::names::Names;
use crate::reader::{Clock, Meta};
use crate::record::Record;

use self::footprint::Footprint;
use self::in_flight::InFlight;
use self::rate::{Gaps, Window};
use self::sequence::Sequences;

pub use self::report::{
    Completions, DepthClass, DeviceShare, Devices, FootprintSize, InterArrival, Note, OpFigures,
    PeakRate, QueueDepth, Rates, Report, Sequential,
};

/// Windows over which peak rates are taken.
const WINDOWS_S: [u64; 2] = [1, 10];
/// Devices that a report names.
const TOP_DEVICES: usize = 10;

/// Accumulates the statistics of a trace.
///
/// ```
/// use trimtab_io::{Nanos, Op};
/// use trimtab_trace::{Clock, Format, Meta, Names, Record, Stats};
///
/// let mut names = Names::default();
/// let disk = names.add_device("sda")?;
/// let mut stats = Stats::new();
/// for i in 0..5 {
///     let arrival = Nanos::from_millis(250 * i);
///     stats.add(&Record::arriving(arrival, disk, Op::Read, 4096 * i, 4096));
/// }
/// let report = stats.finish(
///     &names,
///     &Meta { format: Format::Msr, clock: Clock::Own, has_offsets: true, notes: vec![] },
/// );
/// assert_eq!(report.rates.mean_iops, Some(5.0));
/// assert_eq!(report.footprint.unwrap().bytes, 5 * 4096);
/// # Ok::<(), trimtab_trace::Error>(())
/// ```
#[derive(Debug)]
pub struct Stats {
    first: Option<Nanos>,
    last: Nanos,
    ops: [OpCounts; 4],
    /// By device number.
    devices: Vec<DeviceCounts>,
    gaps: Gaps,
    windows: [Window; WINDOWS_S.len()],
    sequences: Sequences,
    footprint: Footprint,
    in_flight: InFlight,
    completed: u64,
    errors: u64,
    merged: u64,
    requeued: u64,
    partial: u64,
}

#[derive(Debug, Default)]
struct OpCounts {
    requests: u64,
    bytes: u64,
    largest: u64,
    // 34 KiB each, so only for ops that were measured.
    response: Option<LatencyHistogram>,
    service: Option<LatencyHistogram>,
}

#[derive(Clone, Debug, Default)]
struct DeviceCounts {
    requests: u64,
    bytes: u64,
}

/// Whether a request moves data, and so counts for footprint and sequentiality.
const fn moves_data(record: &Record) -> bool {
    matches!(record.op, Op::Read | Op::Write) && record.length > 0
}

impl Stats {
    /// Statistics of no request.
    #[must_use]
    pub fn new() -> Self {
        Self {
            first: None,
            last: Nanos::ZERO,
            ops: Default::default(),
            devices: Vec::new(),
            gaps: Gaps::default(),
            windows: WINDOWS_S.map(|s| Window::new(Nanos::from_secs(s))),
            sequences: Sequences::default(),
            footprint: Footprint::default(),
            in_flight: InFlight::default(),
            completed: 0,
            errors: 0,
            merged: 0,
            requeued: 0,
            partial: 0,
        }
    }

    /// Adds a request. Requests must be in arrival order, and device numbers those of the trace's
    /// [`Names`], because tables are indexed by them.
    pub fn add(&mut self, record: &Record) {
        let first = match self.first {
            Some(first) => {
                self.gaps.add(record.arrival.since(self.last));
                first
            }
            None => *self.first.insert(record.arrival),
        };
        self.last = self.last.max(record.arrival);
        let moved = if moves_data(record) { record.length } else { 0 };

        let at = record.arrival.since(first);
        for window in &mut self.windows {
            window.add(at, moved);
        }
        let device = record.device.0 as usize;
        if device >= self.devices.len() {
            self.devices.resize(device + 1, DeviceCounts::default());
        }
        self.devices[device].requests += 1;
        self.devices[device].bytes += moved;
        if moved > 0 {
            self.sequences.add(record.device, record.offset, record.end());
            self.footprint.add(record.device, record.offset, record.length);
        }
        self.in_flight.add(record.device, record.arrival, record.complete);
        self.add_to_op(record);
        self.add_marks(record.flags);
    }

    fn add_to_op(&mut self, record: &Record) {
        let op = &mut self.ops[record.op as usize];
        op.requests += 1;
        op.bytes = op.bytes.saturating_add(record.length);
        op.largest = op.largest.max(record.length);
        if let Some(time) = record.response_time() {
            self.completed += 1;
            op.response.get_or_insert_default().record(time);
        }
        if let Some(time) = record.service_time() {
            op.service.get_or_insert_default().record(time);
        }
    }

    fn add_marks(&mut self, flags: Flags) {
        if flags.is_empty() {
            return;
        }
        self.errors += u64::from(flags.contains(Flags::ERROR));
        self.merged += u64::from(flags.contains(Flags::MERGED));
        self.requeued += u64::from(flags.contains(Flags::REQUEUED));
        self.partial += u64::from(flags.contains(Flags::PARTIAL));
    }

    /// The report. `names` and `meta` are those of the trace, after it was read.
    #[must_use]
    pub fn finish(self, names: &Names, meta: &Meta) -> Report {
        let requests: u64 = self.ops.iter().map(|op| op.requests).sum();
        let duration = self.first.map_or(Nanos::ZERO, |first| self.last.since(first));
        let reads = self.ops[Op::Read as usize].requests;
        let writes = self.ops[Op::Write as usize].requests;
        Report {
            format: meta.format.name(),
            clock: match meta.clock {
                Clock::Unix => "unix",
                Clock::Own => "own",
            },
            notes: meta.notes.iter().map(Note::new).collect(),
            requests,
            bytes: self.devices.iter().map(|device| device.bytes).sum(),
            first_arrival_ns: self.first,
            duration_ns: duration,
            read_share: share(reads, reads + writes),
            read_write_ratio: (writes > 0).then(|| reads as f64 / writes as f64),
            devices: self.devices(names, requests),
            rates: self.rates(requests, duration),
            inter_arrival: self.gaps.figures(),
            sequential: meta.has_offsets.then(|| self.sequences.shares()).flatten(),
            footprint: meta.has_offsets.then(|| self.footprint.size()),
            queue_depth: (self.completed > 0).then(|| self.in_flight.figures()),
            completions: Completions {
                measured: self.completed,
                missing: requests - self.completed,
                errors: self.errors,
                merged: self.merged,
                requeued: self.requeued,
                partial: self.partial,
            },
            ops: op_figures(&self.ops, requests),
        }
    }

    fn rates(&self, requests: u64, duration: Nanos) -> Rates {
        let bytes: u64 = self.devices.iter().map(|device| device.bytes).sum();
        let seconds = (duration > Nanos::ZERO).then(|| duration.as_secs_f64());
        Rates {
            mean_iops: seconds.map(|s| requests as f64 / s),
            mean_mb_s: seconds.map(|s| bytes as f64 / 1e6 / s),
            peaks: self.windows.iter().filter_map(|window| window.peak(duration)).collect(),
        }
    }

    fn devices(&self, names: &Names, requests: u64) -> Devices {
        let mut used: Vec<_> =
            (0..).zip(&self.devices).filter(|(_, counts)| counts.requests > 0).collect();
        let count = used.len() as u64;
        used.sort_by_key(|&(number, counts)| (std::cmp::Reverse(counts.requests), number));
        let top = used
            .into_iter()
            .take(TOP_DEVICES)
            .map(|(number, counts)| DeviceShare {
                name: names.device(trimtab_io::DeviceId(number)).to_owned(),
                requests: counts.requests,
                share: counts.requests as f64 / requests as f64,
                bytes: counts.bytes,
            })
            .collect();
        Devices { count, top }
    }
}

impl Default for Stats {
    fn default() -> Self {
        Self::new()
    }
}

fn op_figures(ops: &[OpCounts; 4], requests: u64) -> Vec<OpFigures> {
    Op::ALL
        .iter()
        .zip(ops)
        .filter(|(_, counts)| counts.requests > 0)
        .map(|(&op, counts)| OpFigures {
            op,
            requests: counts.requests,
            share: counts.requests as f64 / requests as f64,
            bytes: counts.bytes,
            mean_bytes: counts.bytes as f64 / counts.requests as f64,
            max_bytes: counts.largest,
            response: counts.response.as_ref().map(LatencyHistogram::summary),
            service: counts.service.as_ref().map(LatencyHistogram::summary),
        })
        .collect()
}

/// `part / whole`, if `whole` is not 0.
fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

#[cfg(test)]
mod tests;
