//! The output of [`Series`](crate::Series): plain data to plot or print.

use serde::{Serialize, Serializer};
use trimtab_io::{LatencyHistogram, Nanos, Op};

/// Time bins of equal width.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TimeBins {
    /// Start of the first, from the trace's first arrival.
    #[serde(rename = "start_ns")]
    pub start: Nanos,
    /// Width of each.
    #[serde(rename = "width_ns")]
    pub width: Nanos,
}

/// The plots of a trace.
#[derive(Clone, Debug, Serialize)]
pub struct Plots {
    /// Number of requests.
    pub requests: u64,
    /// The first arrival on the trace's clock; `None` for an empty trace. All other times count
    /// from here.
    #[serde(rename = "first_arrival_ns")]
    pub first_arrival: Option<Nanos>,
    /// From the first arrival to the last.
    #[serde(rename = "duration_ns")]
    pub duration: Nanos,
    /// A response is slow beyond this, if the caller of
    /// [`Series::finish_marking`](crate::Series::finish_marking) supplied a threshold.
    #[serde(rename = "slow_beyond_ns")]
    pub slow_beyond: Option<Nanos>,
    /// One per op in the trace.
    pub ops: Vec<OpPlots>,
    /// The bins of [`OpPlots::iops`] and [`OpPlots::mb_s`].
    pub rate_bins: TimeBins,
    /// `None` where no completions were measured.
    pub depth: Option<DepthOverTime>,
    /// `None` if no request has an offset.
    pub offsets: Option<HeatMap>,
}

/// Plots of one op.
#[derive(Clone, Debug, Serialize)]
pub struct OpPlots {
    /// The op.
    pub op: Op,
    /// Number of requests.
    pub requests: u64,
    /// The sum of their lengths.
    pub bytes: u64,
    /// Requests per class of [`SIZE_CLASSES`].
    pub sizes: [u64; SIZE_CLASSES.len()],
    /// Arrival to completion; empty if not measured.
    #[serde(serialize_with = "histogram")]
    pub response: LatencyHistogram,
    /// Issue to completion; empty if not measured.
    #[serde(serialize_with = "histogram")]
    pub service: LatencyHistogram,
    /// Arrivals per second, per bin. `None` if the trace ends too soon after the bin's start.
    pub iops: Vec<Option<f64>>,
    /// Megabytes (10⁶) requested per second, per bin.
    pub mb_s: Vec<Option<f64>>,
    /// `None` where no completions were measured.
    pub over_time: Option<LatencyOverTime>,
    /// `None` where no threshold was found, or no completions were measured.
    pub slow: Option<SlowOverTime>,
}

/// Response times by arrival time.
#[derive(Clone, Debug, Serialize)]
pub struct LatencyOverTime {
    /// The bins of all of the following.
    #[serde(flatten)]
    pub bins: TimeBins,
    /// The median; `None` in bins with too few samples (20).
    #[serde(rename = "p50_ns")]
    pub p50: Vec<Option<Nanos>>,
    /// The 99th percentile; `None` in bins with too few samples (1000).
    #[serde(rename = "p99_ns")]
    pub p99: Vec<Option<Nanos>>,
    /// The maximum; `None` in empty bins.
    #[serde(rename = "max_ns")]
    pub max: Vec<Option<Nanos>>,
}

/// Slow responses by arrival time.
#[derive(Clone, Debug, Serialize)]
pub struct SlowOverTime {
    /// The bins of [`counts`](Self::counts).
    #[serde(flatten)]
    pub bins: TimeBins,
    /// Slow responses per bin.
    pub counts: Vec<u64>,
    /// Total.
    pub total: u64,
    /// The median of their response times; zero without any.
    #[serde(rename = "median_ns")]
    pub median: Nanos,
}

/// Requests in flight: issued (or arrived, if the issue was not measured) and not completed.
#[derive(Clone, Debug, Serialize)]
pub struct DepthOverTime {
    /// The bins of all of the following.
    #[serde(flatten)]
    pub bins: TimeBins,
    /// Mean over the bin's time.
    pub mean: Vec<f64>,
    /// Maximum.
    pub max: Vec<u64>,
}

/// Offsets of requests over time; flushes have none.
#[derive(Clone, Debug, Serialize)]
pub struct HeatMap {
    /// The columns' bins.
    pub time: TimeBins,
    /// First byte of the first row.
    pub first_offset: u64,
    /// Bytes per row.
    pub row_bytes: u64,
    /// Column, row, and number of requests that begin there. Empty cells are omitted.
    pub cells: Vec<(u32, u32, u64)>,
}

/// A class of request sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeClass {
    /// Its smallest size, bytes. It extends to the next class.
    pub from: u64,
    /// Its label in a chart.
    pub name: &'static str,
}

/// Size classes, each from a power of two to the next.
pub const SIZE_CLASSES: [SizeClass; 12] = {
    const fn class(from: u64, name: &'static str) -> SizeClass {
        SizeClass { from, name }
    }
    [
        class(0, "none"),
        class(1, "< 4 KiB"),
        class(4 << 10, "4 KiB"),
        class(8 << 10, "8 KiB"),
        class(16 << 10, "16 KiB"),
        class(32 << 10, "32 KiB"),
        class(64 << 10, "64 KiB"),
        class(128 << 10, "128 KiB"),
        class(256 << 10, "256 KiB"),
        class(512 << 10, "512 KiB"),
        class(1 << 20, "1 MiB"),
        class(2 << 20, "≥ 2 MiB"),
    ]
};

impl SizeClass {
    /// The index in [`SIZE_CLASSES`] of a request's size.
    #[must_use]
    pub fn index_of(bytes: u64) -> usize {
        SIZE_CLASSES.partition_point(|class| class.from <= bytes) - 1
    }
}

/// A histogram as its summary and its buckets: `[highest ns, count]`.
fn histogram<S: Serializer>(of: &LatencyHistogram, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Shown {
        #[serde(flatten)]
        summary: trimtab_io::Summary,
        buckets: Vec<(Nanos, u64)>,
    }
    Shown { summary: of.summary(), buckets: of.buckets().collect() }.serialize(serializer)
}
