//! Summaries of latency distributions.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::Nanos;

/// A percentile used in reports.
#[derive(Clone, Copy, Debug)]
pub struct PercentileKind {
    /// Its printed name: `p99.9`.
    pub name: &'static str,
    /// The share above it, in parts per 10,000. An integer, because the rule on sample counts must
    /// not depend on the rounding of 0.999.
    tail: u64,
}

impl PercentileKind {
    /// The share at or below it: 0.999 for p99.9.
    #[must_use]
    pub fn share(&self) -> f64 {
        (10_000 - self.tail) as f64 / 10_000.0
    }

    /// Whether this many samples support it: at least ten must lie beyond, so p99.9 needs 10 / (1 -
    /// 0.999) = 10,000.
    #[must_use]
    pub const fn supported_by(&self, samples: u64) -> bool {
        samples.saturating_mul(self.tail) >= 10 * 10_000
    }
}

/// The percentiles of a summary, if the samples suffice.
pub const PERCENTILES: [PercentileKind; 7] = [
    PercentileKind { name: "p50", tail: 5_000 },
    PercentileKind { name: "p80", tail: 2_000 },
    PercentileKind { name: "p90", tail: 1_000 },
    PercentileKind { name: "p95", tail: 500 },
    PercentileKind { name: "p99", tail: 100 },
    PercentileKind { name: "p99.9", tail: 10 },
    PercentileKind { name: "p99.99", tail: 1 },
];

/// An additional percentile of some reports.
pub const P75: PercentileKind = PercentileKind { name: "p75", tail: 2_500 };

/// One percentile of a [`Summary`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Percentile {
    /// `p50` to `p99.99`.
    pub name: &'static str,
    /// The latency, within 1%.
    pub value: Nanos,
}

/// Count, mean, percentiles and maximum of a latency distribution.
///
/// Serialises as a flat object of nanoseconds, `{"count": …, "mean_ns": …, "p50_ns": …, "max_ns":
/// …}`, without the percentiles that too few samples support.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Number of samples.
    pub count: u64,
    /// `None` without samples.
    pub mean: Option<Nanos>,
    /// Ascending; only those that the sample count supports.
    pub percentiles: Vec<Percentile>,
    /// `None` without samples.
    pub max: Option<Nanos>,
}

impl Summary {
    /// The percentile with this name, if the samples support it.
    #[must_use]
    pub fn percentile(&self, name: &str) -> Option<Nanos> {
        self.percentiles.iter().find(|p| p.name == name).map(|p| p.value)
    }
}

impl Serialize for Summary {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("count", &self.count)?;
        if let Some(mean) = self.mean {
            map.serialize_entry("mean_ns", &mean)?;
        }
        for p in &self.percentiles {
            map.serialize_entry(&format!("{}_ns", p.name), &p.value)?;
        }
        if let Some(max) = self.max {
            map.serialize_entry("max_ns", &max)?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LatencyHistogram;

    #[test]
    fn percentile_needs_ten_samples_beyond() {
        let needed = [20, 50, 100, 200, 1_000, 10_000, 100_000];
        for (kind, needed) in PERCENTILES.iter().zip(needed) {
            assert!(kind.supported_by(needed), "{} at {needed}", kind.name);
            assert!(!kind.supported_by(needed - 1), "{} below {needed}", kind.name);
        }
    }

    #[test]
    fn unsupported_percentiles_are_absent() {
        let mut histogram = LatencyHistogram::new();
        histogram.extend((0..999).map(Nanos));
        let names: Vec<_> = histogram.summary().percentiles.iter().map(|p| p.name).collect();
        assert_eq!(names, ["p50", "p80", "p90", "p95"]);
    }
}
