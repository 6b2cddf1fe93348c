//! The page of a comparison.

use std::path::Path;

use trimtab_compare::{Comparison, MEASURES, Report, StrategyReport};
use trimtab_io::Nanos;
use trimtab_report::chart::{self, Axis, BinnedSeries, LineSeries, Unit};
use trimtab_report::{Page, Section};

use super::table;
use crate::units;

/// The table, and the plots of LinnOS (Figures 8 and 9): averages, percentiles, and the whole
/// distributions.
pub(super) fn page(path: &Path, comparison: &Comparison, report: &Report) -> Page {
    let mut facts = table::facts(path, report);
    facts.add("trimtab", env!("CARGO_PKG_VERSION"));
    let mut page = Page::new(format!("Strategies compared: {}", path.display()), facts);
    if let Some(verdict) = verdict(report) {
        page.verdict(verdict);
    }
    page.table(table::strategies(report));
    table::groups(report).into_iter().for_each(|table| page.table(table));
    page.chart(averages(report));
    page.chart(percentiles(report));
    page.chart(distributions(report));
    let mut drives = Section::new("Drives");
    drives.table(table::drives(report));
    let notes = table::failed(report).into_iter().chain(table::never_refusing(report));
    notes.for_each(|line| drives.note(line));
    page.section(drives);
    let mut scenario = Section::new("Scenario");
    scenario.text(comparison.text());
    page.section(scenario);
    page
}

/// Which strategy had the shortest tail, compared with plain reads (`base`).
fn verdict(report: &Report) -> Option<String> {
    // The highest percentile that all of them have enough samples for.
    let has = |key: &str| report.strategies.iter().all(|row| row.median.get(key).is_some());
    let measure = MEASURES.iter().rev().find(|m| m.name.starts_with('p') && has(m.key))?;
    let at = |row: &StrategyReport| row.median.get(measure.key).unwrap_or(f64::INFINITY);
    // Without the ideal, which no strategy can reach.
    let real = report.strategies.iter().filter(|row| row.strategy != "ideal");
    let best = real.min_by(|a, b| at(a).total_cmp(&at(b)))?;
    let time = |row: &StrategyReport| units::long(Nanos(at(row) as u64));
    let percentile = measure.name;
    let (name, least) = (&best.name, time(best));
    let Some(base) = report.strategies.iter().find(|row| row.strategy == "base") else {
        return Some(format!("{name} has the lowest {percentile} of read latency: {least}."));
    };
    if best.name == base.name {
        return Some(format!(
            "No strategy brings the {percentile} of read latency below that of base, {least}."
        ));
    }
    let less = units::percent(1.0 - at(best) / at(base));
    let base = time(base);
    Some(format!(
        "{name} has the lowest {percentile} of read latency: {least}, {less} below base ({base})."
    ))
}

fn averages(report: &Report) -> chart::Chart {
    let names: Vec<_> = report.strategies.iter().map(|row| row.name.as_str()).collect();
    let values = report.strategies.iter().map(|row| row.median.get("mean_ns")).collect();
    let series = [BinnedSeries { name: "mean".to_owned(), values }];
    let y = Axis::new("mean latency", Unit::Nanos);
    chart::bars("Mean latency of reads", "strategy", &y, &names, &series)
}

/// The most lines that remain distinguishable.
const LINES: usize = 7;

/// The strategies drawn as lines: all if they are few, otherwise trimtab, base, and the usual
/// baselines of publications. The table has them all.
fn drawn(report: &Report) -> Vec<&StrategyReport> {
    const KNOWN: [&str; LINES] = ["trimtab", "base", "ideal", "clone", "hedge", "c3", "linnos+hl"];
    if report.strategies.len() <= LINES {
        let mut all: Vec<_> = report.strategies.iter().collect();
        // The first is drawn on top, in the most distinct colour.
        all.sort_by_key(|row| row.name != KNOWN[0]);
        return all;
    }
    let named = |name: &&str| report.strategies.iter().find(|row| row.name == **name);
    let known: Vec<_> = KNOWN.iter().filter_map(named).collect();
    if known.is_empty() { report.strategies.iter().take(LINES).collect() } else { known }
}

/// Latency over percentile, with as much space for the tail as for the body.
fn percentiles(report: &Report) -> chart::Chart {
    let at = |name: &str| -> Option<f64> { name.strip_prefix('p')?.parse().ok() };
    let lines = drawn(report).into_iter().map(|row| {
        let points = MEASURES.iter().filter_map(|measure| {
            Some((1.0 - at(measure.name)? / 100.0, row.median.get(measure.key)))
        });
        LineSeries { name: row.name.clone(), points: points.collect() }
    });
    let lines: Vec<_> = lines.collect();
    let x = Axis::new("percentile", Unit::Percentile);
    let y = Axis::new("latency", Unit::Nanos).log();
    chart::line("Percentiles of latency", &x, &y, &lines)
}

fn distributions(report: &Report) -> chart::Chart {
    let series: Vec<_> =
        drawn(report).into_iter().map(|row| (row.name.as_str(), &row.latencies)).collect();
    chart::cdf("Latency of reads, all seeds", "latency", &series)
}
