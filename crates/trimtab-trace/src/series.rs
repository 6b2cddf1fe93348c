//! Data for a report's plots, gathered in one pass.
//!
//! The range of a trace's times and offsets is known only at its end, so bins widen on the way
//! ([`bins`]). Memory does not depend on the trace's length: most of it is the latency histograms
//! per time bin, 34 KiB each.

mod bins;
mod depth;
mod plots;

use trimtab_io::{LatencyHistogram, Nanos, Op, PERCENTILES};

use self::bins::{AdaptiveBins, AdaptiveGrid, Merge};
use self::depth::DepthMeter;
pub use self::plots::{
    DepthOverTime, HeatMap, LatencyOverTime, OpPlots, Plots, SIZE_CLASSES, SizeClass, SlowOverTime,
    TimeBins,
};
use crate::record::Record;

/// Time bins of rates and depth: about the resolution of a chart.
const TIME_BINS: usize = 512;
/// Time bins of latency. Fewer, because each has a histogram, and a p99 needs 1000 samples: 9 MiB
/// per op.
const LATENCY_BINS: usize = 256;
/// Latency bins are merged until they support a p99, but not below this number; half as many may
/// remain.
const MIN_LATENCY_BINS: usize = 32;
const MAP_COLUMNS: usize = 128;
const MAP_ROWS: usize = 96;

/// Gathers what a report plots, from records in arrival order.
///
/// Memory is bounded (under 60 MB with all four ops in the trace) except that
/// it grows with the number of requests in flight at one time, 32 bytes each.
///
/// ```
/// use trimtab_io::{DeviceId, Nanos, Op};
/// use trimtab_trace::{Record, Series};
///
/// let mut series = Series::new();
/// for i in 0..100 {
///     let arrival = Nanos::from_millis(i);
///     series.add(&Record {
///         complete: Some(arrival + Nanos::from_micros(1_500)),
///         ..Record::arriving(arrival, DeviceId(0), Op::Read, i * 4096, 4096)
///     });
/// }
/// let plots = series.finish();
/// assert_eq!(plots.duration, Nanos::from_millis(99));
/// assert_eq!(plots.ops[0].response.count(), 100);
/// // Each takes 1.5 ms and one comes each 1 ms.
/// assert_eq!(plots.depth.unwrap().max.iter().max(), Some(&2));
/// ```
#[derive(Clone, Debug)]
pub struct Series {
    /// First and last arrival.
    arrivals: Option<(Nanos, Nanos)>,
    ops: [PerOp; Op::ALL.len()],
    rates: AdaptiveBins<Rates>,
    depth: DepthMeter,
    offsets: AdaptiveGrid,
}

#[derive(Clone, Debug)]
struct PerOp {
    requests: u64,
    bytes: u64,
    sizes: [u64; SIZE_CLASSES.len()],
    response: LatencyHistogram,
    service: LatencyHistogram,
    over_time: AdaptiveBins<Latencies>,
}

/// Requests and bytes that arrived during one time bin, by op.
#[derive(Clone, Copy, Debug, Default)]
struct Rates {
    requests: [u64; Op::ALL.len()],
    bytes: [u64; Op::ALL.len()],
}

impl Merge for Rates {
    fn merge(&mut self, other: Self) {
        for op in 0..Op::ALL.len() {
            self.requests[op] += other.requests[op];
            self.bytes[op] = self.bytes[op].saturating_add(other.bytes[op]);
        }
    }
}

/// The latencies of one time bin. Empty bins take no memory.
#[derive(Clone, Debug, Default)]
struct Latencies(Option<Box<LatencyHistogram>>);

impl Latencies {
    fn count(&self) -> u64 {
        self.0.as_ref().map_or(0, |latencies| latencies.count())
    }
}

impl Merge for Latencies {
    fn merge(&mut self, other: Self) {
        match (&mut self.0, other.0) {
            (Some(mine), Some(other)) => mine.merge(&other),
            (None, other) => self.0 = other,
            (Some(_), None) => {}
        }
    }
}

impl PerOp {
    fn new() -> Self {
        Self {
            requests: 0,
            bytes: 0,
            sizes: [0; SIZE_CLASSES.len()],
            response: LatencyHistogram::new(),
            service: LatencyHistogram::new(),
            over_time: AdaptiveBins::new(LATENCY_BINS),
        }
    }

    fn add(&mut self, record: &Record, at: u64) {
        self.requests += 1;
        self.bytes = self.bytes.saturating_add(record.length);
        self.sizes[SizeClass::index_of(record.length)] += 1;
        if let Some(response) = record.response_time() {
            self.response.record(response);
            self.over_time.at(at).0.get_or_insert_default().record(response);
        }
        if let Some(service) = record.service_time() {
            self.service.record(service);
        }
    }
}

impl Series {
    /// An empty series.
    #[must_use]
    pub fn new() -> Self {
        Self {
            arrivals: None,
            ops: std::array::from_fn(|_| PerOp::new()),
            rates: AdaptiveBins::new(TIME_BINS),
            depth: DepthMeter::new(TIME_BINS),
            offsets: AdaptiveGrid::new(MAP_COLUMNS, MAP_ROWS),
        }
    }

    /// Adds the next record. Records must come in arrival order, as
    /// [`Trace::read`](crate::Trace::read) gives them.
    pub fn add(&mut self, record: &Record) {
        let (first, _) = *self.arrivals.get_or_insert((record.arrival, record.arrival));
        self.arrivals = Some((first, record.arrival));
        // The clock may count from 1970: bins must start where the trace does.
        let at = record.arrival.since(first).0;
        let op = record.op as usize;

        self.ops[op].add(record, at);
        let rates = self.rates.at(at);
        rates.requests[op] += 1;
        rates.bytes[op] = rates.bytes[op].saturating_add(record.length);
        if let Some(complete) = record.complete {
            self.depth.add(at, complete.since(first).0);
        }
        if record.op != Op::Flush {
            self.offsets.add(at, record.offset);
        }
    }

    /// The plots.
    #[must_use]
    pub fn finish(self) -> Plots {
        self.finish_marking(|_| None)
    }

    /// As [`finish`](Self::finish), with slow responses marked: `threshold` gets the response times
    /// of reads and writes together, and returns the limit beyond which a response is slow.
    #[must_use]
    pub fn finish_marking(
        self,
        threshold: impl FnOnce(&LatencyHistogram) -> Option<Nanos>,
    ) -> Plots {
        let mut data = LatencyHistogram::new();
        for op in [Op::Read, Op::Write] {
            data.merge(&self.ops[op as usize].response);
        }
        let slow_beyond = threshold(&data);
        let Self { arrivals, ops, rates, depth, offsets } = self;
        let (first, last) = arrivals.unzip();
        let duration = last.unwrap_or_default().since(first.unwrap_or_default());
        let measured = ops.iter().any(|op| op.response.count() > 0);
        let seen = Op::ALL.into_iter().zip(ops).filter(|(_, of)| of.requests > 0);
        Plots {
            requests: rates.bins().iter().flat_map(|r| r.requests).sum(),
            first_arrival: first,
            duration,
            slow_beyond,
            ops: seen.map(|(op, of)| of.finish(op, &rates, duration, slow_beyond)).collect(),
            rate_bins: time_bins(&rates),
            depth: measured.then(|| depth_over_time(depth)).flatten(),
            offsets: heat_map(&offsets),
        }
    }
}

impl Default for Series {
    fn default() -> Self {
        Self::new()
    }
}

fn time_bins<T: Merge>(bins: &AdaptiveBins<T>) -> TimeBins {
    TimeBins { start: Nanos(bins.start()), width: Nanos(bins.width()) }
}

impl PerOp {
    fn finish(
        self,
        op: Op,
        rates: &AdaptiveBins<Rates>,
        duration: Nanos,
        slow_beyond: Option<Nanos>,
    ) -> OpPlots {
        let per_second = |amount: fn(&Rates, usize) -> u64| {
            let covered = covered(rates, duration.0);
            let bins = rates.bins().iter().zip(covered);
            bins.map(|(bin, seconds)| Some(amount(bin, op as usize) as f64 / seconds?)).collect()
        };
        OpPlots {
            op,
            requests: self.requests,
            bytes: self.bytes,
            sizes: self.sizes,
            response: self.response,
            service: self.service,
            iops: per_second(|bin, op| bin.requests[op]),
            mb_s: per_second(|bin, op| bin.bytes[op])
                .into_iter()
                .map(|bytes: Option<f64>| bytes.map(|b| b / 1e6))
                .collect(),
            // Before bins are merged for percentiles.
            slow: slow_beyond.and_then(|beyond| slow_over_time(&self.over_time, beyond)),
            over_time: latency_over_time(self.over_time),
        }
    }
}

/// Seconds of each bin before `end`. The trace ends within its last bin; a short rest gives no
/// rate, unless it is the only bin.
fn covered<T: Merge>(bins: &AdaptiveBins<T>, end: u64) -> impl Iterator<Item = Option<f64>> {
    let (start, width, count) = (bins.start(), bins.width(), bins.bins().len());
    (0..count).map(move |i| {
        let begin = start + width * i as u64;
        let covered = width.min(end.saturating_sub(begin));
        let enough = covered > 0 && (covered >= width / 2 || count == 1);
        enough.then_some(covered as f64 / 1e9)
    })
}

fn slow_over_time(bins: &AdaptiveBins<Latencies>, beyond: Nanos) -> Option<SlowOverTime> {
    let mut all = LatencyHistogram::new();
    let slow_in = |bin: &Latencies| {
        let buckets = bin.0.iter().flat_map(|latencies| latencies.buckets());
        buckets.filter(|&(latency, _)| latency > beyond).map(|(_, count)| count).sum()
    };
    for latencies in bins.bins().iter().filter_map(|bin| bin.0.as_ref()) {
        all.merge(latencies);
    }
    let counts: Vec<u64> = bins.bins().iter().map(slow_in).collect();
    let total: u64 = counts.iter().sum();
    // Slow responses are the highest: their median is this far from the end.
    let middle = 1.0 - total as f64 / 2.0 / all.count().max(1) as f64;
    let median = if total > 0 { all.quantile(middle)? } else { Nanos::ZERO };
    (!counts.is_empty()).then(|| SlowOverTime { bins: time_bins(bins), counts, total, median })
}

fn latency_over_time(mut bins: AdaptiveBins<Latencies>) -> Option<LatencyOverTime> {
    let [p50, p99] = ["p50", "p99"].map(|name| {
        PERCENTILES.iter().find(|kind| kind.name == name).expect("every report has these")
    });
    while bins.bins().len() > MIN_LATENCY_BINS && !p99.supported_by(typical_count(&bins)) {
        bins.coarsen();
    }
    if bins.bins().is_empty() {
        return None;
    }
    let percentile = |kind: &trimtab_io::PercentileKind| {
        let of = |bin: &Latencies| {
            let latencies = bin.0.as_ref().filter(|l| kind.supported_by(l.count()))?;
            latencies.quantile(kind.share())
        };
        bins.bins().iter().map(of).collect()
    };
    Some(LatencyOverTime {
        bins: time_bins(&bins),
        p50: percentile(p50),
        p99: percentile(p99),
        max: bins.bins().iter().map(|bin| bin.0.as_ref()?.max()).collect(),
    })
}

/// The median count of the non-empty bins.
fn typical_count(bins: &AdaptiveBins<Latencies>) -> u64 {
    let mut counts: Vec<_> = bins.bins().iter().map(Latencies::count).filter(|&n| n > 0).collect();
    let middle = counts.len() / 2;
    if counts.is_empty() { 0 } else { *counts.select_nth_unstable(middle).1 }
}

fn depth_over_time(meter: DepthMeter) -> Option<DepthOverTime> {
    let (bins, end) = meter.finish();
    let (start, width) = (bins.start(), bins.width());
    let mean = bins.bins().iter().zip(0_u64..).map(|(bin, i)| {
        let begin = start + width * i;
        bin.sum as f64 / width.min(end.saturating_sub(begin)).max(1) as f64
    });
    (!bins.bins().is_empty()).then(|| DepthOverTime {
        bins: time_bins(&bins),
        mean: mean.collect(),
        max: bins.bins().iter().map(|bin| bin.max).collect(),
    })
}

fn heat_map(grid: &AdaptiveGrid) -> Option<HeatMap> {
    let ((time, offset), (width, height)) = (grid.start(), grid.widths());
    let cells = grid.cells();
    (!cells.is_empty()).then_some(HeatMap {
        time: TimeBins { start: Nanos(time), width: Nanos(width) },
        first_offset: offset,
        row_bytes: height,
        cells,
    })
}

#[cfg(test)]
mod tests;
