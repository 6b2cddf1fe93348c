//! What a series says of the strategy that it judges.

use serde::Serialize;
use trimtab_steer::StrategyKind;

use super::{ArrayResult, FIGURES, LEVEL, TIE, holm};
use crate::figures::{Figures, median};
use crate::spec::Entry;

/// What a series says of the strategy that it judges, and of the others.
#[derive(Clone, Debug, Serialize)]
pub struct SeriesSummary {
    /// Arrays that were run.
    pub arrays: usize,
    /// Arrays on which the judged strategy is worse than `base` in at least one figure, with
    /// confidence, and their numbers.
    pub worse: Vec<u64>,
    /// The same without regard to confidence.
    pub exceeds: Vec<u64>,
    /// For each of [`FIGURES`], against the published strategies of like cost.
    pub like_cost: [Standing; FIGURES.len()],
    /// The same against all published strategies.
    pub all: [Standing; FIGURES.len()],
    /// Share of the arrays on which it is within [`TIE`] of the best one of like cost in all
    /// figures.
    pub within_in_all: f64,
    /// Share of the arrays on which it is ahead of all of like cost in all figures.
    pub ahead_in_all: f64,
    /// By strategy.
    pub strategies: Vec<StrategySummary>,
}

/// How a strategy stands against the best of others, in one figure.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Standing {
    /// Share of the arrays on which it is at most [`TIE`] behind.
    pub within: f64,
    /// Share of the arrays on which it is ahead.
    pub ahead: f64,
    /// Median over the arrays of the share by which it is behind; negative: ahead.
    pub median_regret: f64,
    /// The highest.
    pub most_regret: f64,
}

/// A strategy over all arrays.
#[derive(Clone, Debug, Serialize)]
pub struct StrategySummary {
    /// The row's name.
    pub strategy: String,
    /// For each of [`FIGURES`], the median over the arrays of its ratio to `base`.
    pub ratio: [f64; FIGURES.len()],
    /// For each of [`FIGURES`], the share of arrays on which it exceeds `base` by more than the
    /// margin.
    pub worse: [f64; FIGURES.len()],
    /// Median of its extra I/Os, percent.
    pub extra_io_percent: f64,
}

/// Strategies that were published, or are used in practice. `ideal` is none.
const fn is_published(kind: StrategyKind) -> bool {
    !matches!(kind, StrategyKind::Ideal | StrategyKind::Trimtab)
}

impl SeriesSummary {
    /// Summarises the results of a series with these strategies.
    #[must_use]
    pub fn new(rows: &[Entry], results: &[ArrayResult]) -> Self {
        let p: Vec<f64> =
            results.iter().flat_map(|array| array.against_base.iter().map(|test| test.p)).collect();
        let significant = holm(&p, LEVEL);
        let tests = FIGURES.len();
        let is_worse = |at: usize| significant[at * tests..(at + 1) * tests].contains(&true);
        let numbers = |which: &dyn Fn(usize) -> bool| -> Vec<u64> {
            (0..results.len()).filter(|&at| which(at)).map(|at| results[at].number).collect()
        };
        let exceeds = |at: usize| results[at].against_base.iter().any(super::Paired::exceeds);
        let regrets = |like_cost: bool| -> Vec<[Option<f64>; FIGURES.len()]> {
            results.iter().map(|array| regret(rows, &array.figures, like_cost)).collect()
        };
        let (like, all) = (regrets(true), regrets(false));
        let in_all = |most: f64| {
            let of = |array: &&[Option<f64>; FIGURES.len()]| {
                array.iter().all(|regret| regret.is_some_and(|regret| regret <= most))
            };
            share(like.iter().filter(of).count(), like.len())
        };
        Self {
            arrays: results.len(),
            worse: numbers(&is_worse),
            exceeds: numbers(&exceeds),
            like_cost: standings(&like),
            all: standings(&all),
            within_in_all: in_all(TIE),
            ahead_in_all: in_all(-1e-9),
            strategies: rows
                .iter()
                .zip(0..)
                .map(|(entry, row)| StrategySummary::new(entry, row, results))
                .collect(),
        }
    }
}

/// The share by which the last strategy is behind the best published one, for each figure.
/// Of like cost is a strategy that sends no more extra I/Os than it does, or than `hedge`.
pub(super) fn regret(
    rows: &[Entry],
    figures: &[Figures],
    like_cost: bool,
) -> [Option<f64>; FIGURES.len()] {
    let extra = |figures: &Figures| figures.get("extra_io_percent").unwrap_or_default();
    let Some(ours) = figures.last() else { return [None; FIGURES.len()] };
    let hedge = rows.iter().position(|row| row.kind == StrategyKind::Hedge);
    let most = hedge.map_or(0.0, |row| extra(&figures[row])).max(extra(ours));
    let others = || {
        let rows = rows.iter().zip(figures);
        rows.filter(|(entry, row)| is_published(entry.kind) && (!like_cost || extra(row) <= most))
    };
    FIGURES.map(|key| {
        let best = others().filter_map(|(_, row)| row.get(key)).min_by(f64::total_cmp)?;
        Some(ours.get(key)? / best - 1.0)
    })
}

fn standings(regrets: &[[Option<f64>; FIGURES.len()]]) -> [Standing; FIGURES.len()] {
    std::array::from_fn(|figure| {
        let mut of: Vec<f64> = regrets.iter().filter_map(|array| array[figure]).collect();
        of.sort_by(f64::total_cmp);
        let count =
            |most: f64| share(of.iter().filter(|&&regret| regret <= most).count(), of.len());
        Standing {
            within: count(TIE),
            ahead: count(-1e-9),
            median_regret: if of.is_empty() { 0.0 } else { median(&of) },
            most_regret: of.last().copied().unwrap_or_default(),
        }
    })
}

fn share(part: usize, whole: usize) -> f64 {
    part as f64 / whole.max(1) as f64
}

impl StrategySummary {
    fn new(entry: &Entry, row: usize, results: &[ArrayResult]) -> Self {
        let pairs = |key: &str| -> Vec<(f64, f64)> {
            let of = |array: &ArrayResult| {
                Some((array.figures.first()?.get(key)?, array.figures.get(row)?.get(key)?))
            };
            results.iter().filter_map(of).collect()
        };
        let middle = |mut values: Vec<f64>| {
            values.sort_by(f64::total_cmp);
            if values.is_empty() { 0.0 } else { median(&values) }
        };
        Self {
            strategy: entry.name.clone(),
            ratio: FIGURES.map(|key| middle(pairs(key).iter().map(|(b, o)| o / b).collect())),
            worse: FIGURES.map(|key| {
                let pairs = pairs(key);
                let worse = pairs.iter().filter(|(base, ours)| super::exceeds(*base, *ours));
                share(worse.count(), pairs.len())
            }),
            extra_io_percent: middle(
                results
                    .iter()
                    .filter_map(|array| array.figures.get(row)?.get("extra_io_percent"))
                    .collect(),
            ),
        }
    }
}
