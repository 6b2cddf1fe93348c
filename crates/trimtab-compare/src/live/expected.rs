//! What a simulation foretells of a row that is run live.

use trimtab_io::{LatencyHistogram, PercentileKind};
use trimtab_sim::compare::{StrategyReport, median};

/// The latencies of a row as simulated, with what the path to the drives takes on top.
///
/// Means of sums are sums of means, whatever the one has to do with the other. Percentiles are
/// those of the convolution: what a read takes on the path is as if it had nothing to do with
/// what it takes in the drive. Both are right of strategies that send a read once, and too much
/// of those that take the first of two answers.
pub(super) struct Foretold {
    /// Of each turn: with the path's.
    turns: Vec<LatencyHistogram>,
    /// Samples that each percentile rests on: those of the lesser of the two distributions.
    samples: u64,
    pub(super) mean: f64,
}

impl Foretold {
    /// With nothing on top if nothing is known of the path. None of a row without figures.
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
