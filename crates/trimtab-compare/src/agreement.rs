//! How well a simulation predicts a live comparison.

mod expected;

use serde::Serialize;
use trimtab_io::{LatencyHistogram, PERCENTILES};

use crate::figures::{Report, StrategyReport};
use expected::Expected;

/// Strategies whose expected means are this far apart, and farther than either varies, should
/// keep their order live. A live run is one draw, and varies no less.
const APART: f64 = 0.1;

/// The largest share of the compared latency that the path to the drives may be.
const MOST_PATH: f64 = 0.1;

/// A live comparison beside a simulation of it.
#[derive(Clone, Debug, Serialize)]
pub struct Agreement {
    /// Added to simulated means: the mean latency of the path to the drives in phase one.
    /// (Reads that completed before the drive's own time count as 0 there: a microsecond or
    /// two.) `None` if no read of phase one matched the drives' logs.
    pub added_mean_ns: Option<f64>,
    /// The median of the same. Simulated percentiles are of the convolution with all of it.
    pub added_p50_ns: Option<f64>,
    /// Its p99, which is long on a machine with frequent disturbances.
    pub added_p99_ns: Option<f64>,
    /// The path's share of the compared latency.
    pub path: Option<PathShare>,
    /// The strategies.
    pub rows: Vec<RowAgreement>,
    /// Pairs of strategies.
    pub pairs: usize,
    /// Pairs whose order is predicted: their expected means are more than 10% apart, and
    /// farther than the simulated means of either vary over the turns. The others count as
    /// ties.
    #[serde(rename = "predicted")]
    pub ordered: usize,
    /// Those of them that are in the expected order live.
    pub in_order: usize,
}

/// The path's share of the compared latency.
#[derive(Clone, Debug, Serialize)]
pub struct PathShare {
    /// The row for comparison: `base`, or the first if there is no such row.
    pub of: String,
    /// That row's p50 as simulated, without the path.
    pub p50_ns: f64,
    /// The larger of the path's p50 and mean, as a share of that.
    pub share: f64,
    /// Whether this is more than a tenth: then the figures are the machine's as well as the
    /// drives'.
    pub too_long: bool,
}

impl PathShare {
    fn new(simulated: &Report, path: &LatencyHistogram) -> Option<Self> {
        let rows = &simulated.strategies;
        let row = rows.iter().find(|row| row.strategy == "base").or(rows.first())?;
        let p50_ns = row.median.get("p50_ns").filter(|&p50| p50 > 0.0)?;
        let share = path.quantile(0.5)?.max(path.mean()?).0 as f64 / p50_ns;
        Some(Self { of: row.name.clone(), p50_ns, share, too_long: share > MOST_PATH })
    }
}

/// The figures of one strategy, ns.
#[derive(Clone, Debug, Serialize)]
pub struct RowAgreement {
    /// Its name.
    pub strategy: String,
    /// The mean, live.
    pub mean_live: f64,
    /// The mean as simulated.
    pub mean_bare: f64,
    /// The range of the simulated means over the turns.
    pub mean_spread: f64,
    /// The expected mean: as simulated, with the path.
    pub mean_simulated: f64,
    /// Percentiles.
    pub percentiles: Vec<Percentile>,
}

/// One percentile of a strategy's latencies, where the samples support it.
#[derive(Clone, Debug, Serialize)]
pub struct Percentile {
    /// Its name.
    pub name: &'static str,
    /// Live.
    pub live_ns: Option<f64>,
    /// As expected from simulation.
    pub simulated_ns: Option<f64>,
}

impl RowAgreement {
    fn new(live: &StrategyReport, simulated: &Report, path: &LatencyHistogram) -> Option<Self> {
        let same = simulated.strategies.iter().find(|row| row.name == live.name)?;
        let expected = Expected::of(same, path)?;
        let mean = "mean_ns";
        let percentiles = PERCENTILES.iter().map(|&kind| Percentile {
            name: kind.name,
            live_ns: live.median.get(&format!("{}_ns", kind.name)),
            simulated_ns: expected.percentile(kind),
        });
        Some(Self {
            strategy: live.name.clone(),
            mean_live: live.median.get(mean)?,
            mean_bare: same.median.get(mean)?,
            mean_spread: same.highest.get(mean)? - same.lowest.get(mean)?,
            mean_simulated: expected.mean,
            percentiles: percentiles.collect(),
        })
    }

    /// A percentile live and as expected, if both are known.
    #[must_use]
    pub fn percentile(&self, name: &str) -> Option<(f64, f64)> {
        let found = self.percentiles.iter().find(|percentile| percentile.name == name)?;
        found.live_ns.zip(found.simulated_ns)
    }

    /// Whether the order of two rows is predicted.
    fn is_ordered_with(&self, other: &Self) -> bool {
        let difference = (self.mean_bare - other.mean_bare).abs();
        let repeats = APART * self.mean_simulated.min(other.mean_simulated);
        difference > repeats.max(self.mean_spread).max(other.mean_spread)
    }
}

impl Agreement {
    /// Compares the two; `path` is the latency of the path to the drives.
    #[must_use]
    pub fn new(live: &Report, simulated: &Report, path: &LatencyHistogram) -> Self {
        let added = |share| path.quantile(share).map(|added| added.0 as f64);
        let rows = live.strategies.iter();
        let rows = rows.filter_map(|live| RowAgreement::new(live, simulated, path));
        let rows: Vec<RowAgreement> = rows.collect();
        let (mut pairs, mut ordered, mut in_order) = (0, 0, 0);
        for (number, a) in rows.iter().enumerate() {
            for b in &rows[number + 1..] {
                pairs += 1;
                if a.is_ordered_with(b) {
                    ordered += 1;
                    let (low, high) = if a.mean_bare < b.mean_bare { (a, b) } else { (b, a) };
                    in_order += usize::from(high.mean_live > low.mean_live);
                }
            }
        }
        Self {
            added_mean_ns: path.mean().map(|added| added.0 as f64),
            added_p50_ns: added(0.5),
            added_p99_ns: added(0.99),
            path: PathShare::new(simulated, path),
            rows,
            pairs,
            ordered,
            in_order,
        }
    }

    /// The path, if its share is too large.
    #[must_use]
    pub fn long_path(&self) -> Option<&PathShare> {
        self.path.as_ref().filter(|path| path.too_long)
    }
}

#[cfg(test)]
mod tests;
