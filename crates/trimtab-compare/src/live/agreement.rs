//! How far a simulation foretold what came.

use serde::Serialize;
use trimtab_io::{LatencyHistogram, Nanos, PERCENTILES};
use trimtab_report::{Align, Table};
use trimtab_sim::compare::{Report, StrategyReport};

use super::foretold::Foretold;
use crate::units;

/// Strategies whose means are foretold this far apart, and farther than either repeats, should
/// keep their order live. A live run is one draw, and repeats no better.
const APART: f64 = 0.1;

/// The largest part of what is compared that the path to the drives may be.
const MOST_PATH: f64 = 0.1;

/// A comparison live and in simulation.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Agreement {
    /// What is added to simulated means: the mean of what the path to the drives took in phase
    /// one. (Reads that came before their drive said count as 0 there: a microsecond or two.)
    /// Nothing if no read of phase one was found in what the drives noted.
    added_mean_ns: Option<f64>,
    /// Percentiles of it: simulated percentiles are of the convolution with all of it.
    added_p50_ns: Option<f64>,
    /// See there. A machine that is disturbed often has a long one.
    added_p99_ns: Option<f64>,
    path: Option<PathShare>,
    rows: Vec<Row>,
    /// Pairs of strategies,
    pairs: usize,
    /// those whose order could be told, because their means are foretold farther apart than
    /// `APART` and than the simulated means of either spread over the turns (the others count
    /// as ties),
    told: usize,
    /// and those of them that are in that order live.
    in_order: usize,
}

/// How much the path to the drives is of what is compared.
#[derive(Clone, Debug, Serialize)]
struct PathShare {
    /// The row it is held against: `base`, or the first if there is no such row.
    of: String,
    /// That row's p50 as simulated, without the path.
    p50_ns: f64,
    /// The path's p50 or mean, whichever is more, as a share of that.
    share: f64,
    /// Whether this is more than a tenth: then the figures are the machine's as well as the
    /// drives'.
    too_long: bool,
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

/// One strategy's figures, ns.
#[derive(Clone, Debug, Serialize)]
struct Row {
    strategy: String,
    mean_live: f64,
    /// As simulated.
    mean_bare: f64,
    /// How far apart the simulated means of the turns are.
    mean_spread: f64,
    /// With what is added.
    mean_simulated: f64,
    percentiles: Vec<Percentile>,
}

/// One percentile of a strategy's latencies, where the samples support it.
#[derive(Clone, Debug, Serialize)]
struct Percentile {
    name: &'static str,
    live_ns: Option<f64>,
    simulated_ns: Option<f64>,
}

impl Row {
    fn new(live: &StrategyReport, simulated: &Report, path: &LatencyHistogram) -> Option<Self> {
        let same = simulated.strategies.iter().find(|row| row.name == live.name)?;
        let foretold = Foretold::of(same, path)?;
        let mean = "mean_ns";
        let percentiles = PERCENTILES.iter().map(|&kind| Percentile {
            name: kind.name,
            live_ns: live.median.get(&format!("{}_ns", kind.name)),
            simulated_ns: foretold.percentile(kind),
        });
        Some(Self {
            strategy: live.name.clone(),
            mean_live: live.median.get(mean)?,
            mean_bare: same.median.get(mean)?,
            mean_spread: same.highest.get(mean)? - same.lowest.get(mean)?,
            mean_simulated: foretold.mean,
            percentiles: percentiles.collect(),
        })
    }

    /// Live and simulated, if both are known.
    fn percentile(&self, name: &str) -> Option<(f64, f64)> {
        let found = self.percentiles.iter().find(|percentile| percentile.name == name)?;
        found.live_ns.zip(found.simulated_ns)
    }

    /// Whether the order of two rows could be told.
    fn is_told_from(&self, other: &Self) -> bool {
        let difference = (self.mean_bare - other.mean_bare).abs();
        let repeats = APART * self.mean_simulated.min(other.mean_simulated);
        difference > repeats.max(self.mean_spread).max(other.mean_spread)
    }
}

impl Agreement {
    /// `path` is what the path to the drives took.
    pub(super) fn new(live: &Report, simulated: &Report, path: &LatencyHistogram) -> Self {
        let added = |share| path.quantile(share).map(|added| added.0 as f64);
        let rows = live.strategies.iter().filter_map(|live| Row::new(live, simulated, path));
        let rows: Vec<Row> = rows.collect();
        let (mut pairs, mut told, mut in_order) = (0, 0, 0);
        for (number, a) in rows.iter().enumerate() {
            for b in &rows[number + 1..] {
                pairs += 1;
                if a.is_told_from(b) {
                    told += 1;
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
            told,
            in_order,
        }
    }

    pub(super) fn table(&self) -> Table {
        let columns = [
            ("strategy", Align::Left),
            ("mean live", Align::Right),
            ("simulated", Align::Right),
            ("live is", Align::Right),
            ("p50 live", Align::Right),
            ("simulated", Align::Right),
            ("live is", Align::Right),
            ("p99 live", Align::Right),
            ("simulated", Align::Right),
            ("live is", Align::Right),
        ];
        let mut table = Table::new(&columns).with_caption(self.caption());
        let more = |live: f64, simulated: f64| format!("{:+.1}%", 100.0 * (live / simulated - 1.0));
        for row in &self.rows {
            let mut cells = vec![row.strategy.clone()];
            let mean = Some((row.mean_live, row.mean_simulated));
            for figures in [mean, row.percentile("p50"), row.percentile("p99")] {
                cells.extend(match figures {
                    Some((live, foretold)) => [time(live), time(foretold), more(live, foretold)],
                    None => std::array::from_fn(|_| units::NONE.to_owned()),
                });
            }
            table.row(cells);
        }
        table
    }

    fn caption(&self) -> String {
        let added = match (self.added_mean_ns, self.added_p50_ns, self.added_p99_ns) {
            (Some(mean), Some(p50), Some(p99)) => format!(
                "where what the path to the\ndrives took in phase one (mean {}, p50 {}, p99 {}) is \
                 added: its mean to\nmeans, its distribution to percentiles, by convolution",
                time(mean),
                time(p50),
                time(p99)
            ),
            _ => {
                "where nothing is added: what the\npath to the drives took is not known".to_owned()
            }
        };
        let trouble =
            self.trouble().map_or_else(String::new, |trouble| format!(".\nBut {trouble}"));
        format!("live beside simulated, {added}{trouble}")
    }

    /// One line: do strategies keep their order?
    pub(super) fn verdict(&self) -> String {
        let Self { pairs, told, in_order, .. } = self;
        format!(
            "The order could be told for {told} of {pairs} pairs of strategies: their means are \
             foretold farther apart than 10% and than they spread in simulation. Of these, \
             {in_order} are in that order live. The other {} count as ties.",
            pairs - told
        )
    }

    /// What makes the result less than it should be.
    pub(super) fn trouble(&self) -> Option<String> {
        let path = self.path.as_ref().filter(|path| path.too_long)?;
        Some(format!(
            "the path to the drives is {:.0}% of the p50 of `{}` in simulation ({}), more than a \
             tenth: figures are the machine's as well as the drives'; use slower drives or larger \
             reads, or a machine with less to do",
            100.0 * path.share,
            path.of,
            time(path.p50_ns)
        ))
    }
}

fn time(time: f64) -> String {
    units::long(Nanos(time as u64))
}

#[cfg(test)]
mod tests;
