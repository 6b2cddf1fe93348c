//! What a simulation predicts of a row that is run live.

use trimtab_io::{LatencyHistogram, PercentileKind};

use crate::figures::{StrategyReport, median};

/// The simulated latencies of a row, plus the latency of the path to the drives.
///
/// Means of sums are sums of means, for any dependence. Percentiles are those of the
/// convolution, as if a read's latency on the path were independent of its latency in the
/// drive. Both hold for strategies that send a read once, and are too high for those that take
/// the first of two completions.
pub(super) struct Expected {
    /// The latencies of each turn, with the path's.
    turns: Vec<LatencyHistogram>,
    /// The samples behind each percentile: those of the smaller distribution.
    samples: u64,
    pub(super) mean: f64,
}

impl Expected {
    /// The simulated row, unchanged if the path is unknown; `None` without figures.
    pub(super) fn of(row: &StrategyReport, path: &LatencyHistogram) -> Option<Self> {
        let bare = row.median.get("mean_ns")?;
        let least = row.turns.iter().map(LatencyHistogram::count).min()?;
        let Some(mean) = path.mean() else {
            return Some(Self { turns: row.turns.clone(), samples: least, mean: bare });
        };
        let turns = row.turns.iter().map(|turn| turn.convolved(path)).collect();
        Some(Self { turns, samples: least.min(path.count()), mean: bare + mean.0 as f64 })
    }

    /// A percentile: the median over the turns, if the samples support it.
    pub(super) fn percentile(&self, kind: PercentileKind) -> Option<f64> {
        if !kind.supported_by(self.samples) {
            return None;
        }
        let of = |turn: &LatencyHistogram| turn.quantile(kind.share()).map(|time| time.0 as f64);
        let mut all = self.turns.iter().map(of).collect::<Option<Vec<f64>>>()?;
        all.sort_unstable_by(f64::total_cmp);
        (!all.is_empty()).then(|| median(&all))
    }
}
