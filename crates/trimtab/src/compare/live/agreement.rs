//! How far a simulation foretold what came.

use serde::Serialize;
use trimtab_io::Nanos;
use trimtab_report::{Align, Table};
use trimtab_sim::compare::Report;

use super::notes::Notes;
use crate::units;

/// Strategies that are this far apart in simulation should keep their order live.
const APART: f64 = 1.1;

/// A comparison live and in simulation.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Agreement {
    /// What is added to simulated means: the mean of what the way to the drives took in
    /// phase one. Means of sums are sums of means, whatever the one has to do with the
    /// other; so much is right of strategies that send a read once, and too much of those
    /// that take the first of two answers. (Reads that came before their drive said count as
    /// 0 there: a microsecond or two.) Nothing if no read of phase one was found in what the
    /// drives noted.
    added_mean_ns: Option<f64>,
    /// What is added to simulated p99s: its p50. Slow reads of a drive are seldom those
    /// that were slow on the way.
    added_p50_ns: Option<f64>,
    /// Its p99: a machine that is disturbed often has a long one.
    added_p99_ns: Option<f64>,
    rows: Vec<Row>,
    /// Pairs of strategies whose means are more than 10% apart in simulation,
    pairs: usize,
    /// and those of them that are in the same order live.
    in_order: usize,
}

/// One strategy's figures, ns.
#[derive(Clone, Debug, Serialize)]
struct Row {
    strategy: String,
    mean_live: f64,
    /// As simulated.
    mean_bare: f64,
    /// With what is added.
    mean_simulated: f64,
    p99_live: Option<f64>,
    p99_simulated: Option<f64>,
}

impl Agreement {
    pub(super) fn new(live: &Report, simulated: &Report, notes: &Notes) -> Self {
        let added = |share| notes.added.quantile(share).map(|added| added.0 as f64);
        let (added_p50_ns, added_p99_ns) = (added(0.5), added(0.99));
        let added_mean_ns = notes.added.mean().map(|added| added.0 as f64);
        let (mean, usual) = (added_mean_ns.unwrap_or_default(), added_p50_ns.unwrap_or_default());
        let row = |live: &trimtab_sim::compare::StrategyReport| {
            let same = simulated.strategies.iter().find(|row| row.name == live.name)?;
            let mean_bare = same.median.get("mean_ns")?;
            Some(Row {
                strategy: live.name.clone(),
                mean_live: live.median.get("mean_ns")?,
                mean_bare,
                mean_simulated: mean_bare + mean,
                p99_live: live.median.get("p99_ns"),
                p99_simulated: same.median.get("p99_ns").map(|p99| p99 + usual),
            })
        };
        let rows: Vec<Row> = live.strategies.iter().filter_map(row).collect();
        let (mut pairs, mut in_order) = (0, 0);
        for (number, a) in rows.iter().enumerate() {
            for b in &rows[number + 1..] {
                let (low, high) = if a.mean_bare < b.mean_bare { (a, b) } else { (b, a) };
                if high.mean_bare > APART * low.mean_bare {
                    pairs += 1;
                    in_order += usize::from(high.mean_live > low.mean_live);
                }
            }
        }
        Self { added_mean_ns, added_p50_ns, added_p99_ns, rows, pairs, in_order }
    }

    pub(super) fn table(&self) -> Table {
        let columns = [
            ("strategy", Align::Left),
            ("mean live", Align::Right),
            ("simulated", Align::Right),
            ("live is", Align::Right),
            ("p99 live", Align::Right),
            ("simulated", Align::Right),
            ("live is", Align::Right),
        ];
        let time = |time: f64| units::long(Nanos(time as u64));
        let added = match (self.added_mean_ns, self.added_p50_ns, self.added_p99_ns) {
            (Some(mean), Some(p50), Some(p99)) => format!(
                "where {} are added to\nmeans and {} to p99s: mean and p50 of what the way to the \
                 drives took in phase\none (p99 {})",
                time(mean),
                time(p50),
                time(p99)
            ),
            _ => "where nothing is added: what the way to the drives\ntook is not known".to_owned(),
        };
        let mut table =
            Table::new(&columns).with_caption(format!("live beside simulated, {added}"));
        let more = |live: f64, simulated: f64| format!("{:+.1}%", 100.0 * (live / simulated - 1.0));
        for row in &self.rows {
            let mut cells = vec![
                row.strategy.clone(),
                time(row.mean_live),
                time(row.mean_simulated),
                more(row.mean_live, row.mean_simulated),
            ];
            if let (Some(live), Some(simulated)) = (row.p99_live, row.p99_simulated) {
                cells.extend([time(live), time(simulated), more(live, simulated)]);
            }
            table.row(cells);
        }
        table
    }

    /// One line: do strategies keep their order?
    pub(super) fn verdict(&self) -> String {
        format!(
            "Of {} pairs of strategies whose means are more than 10% apart in simulation, {} are in \
             the same order live.",
            self.pairs, self.in_order
        )
    }
}
