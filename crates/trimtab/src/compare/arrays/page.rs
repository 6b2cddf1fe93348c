//! The page of a comparison on an array.

use std::path::Path;

use trimtab_compare::arrays::{ArrayComparison, ArrayReport, ArrayRow};
use trimtab_io::PERCENTILES;
use trimtab_report::chart::{self, Axis, BinnedSeries, LineSeries, Unit};
use trimtab_report::{Page, Section};

/// The most lines that remain distinguishable.
const LINES: usize = 7;
/// What is drawn of more: the steps of IODA between base and ideal, and its nearest rivals.
const KNOWN: [&str; LINES] = ["ioda", "base", "ideal", "iod1", "iod2", "suspension", "ttflash"];

/// The tables, percentiles, busy members and whole distributions (IODA, Figures 5 to 8).
pub(super) fn page(path: &Path, comparison: &ArrayComparison, report: &ArrayReport) -> Page {
    let mut facts = super::facts(path, comparison, report);
    facts.add("trimtab", env!("CARGO_PKG_VERSION"));
    let mut page = Page::new(format!("An array's strategies compared: {}", path.display()), facts);
    page.table(super::latencies(report));
    page.chart(percentiles(report));
    page.chart(busy(report));
    page.chart(distributions(report));
    page.table(super::work(report));
    let mut scenario = Section::new("Scenario");
    super::notes(comparison, report).into_iter().for_each(|note| scenario.note(note));
    scenario.text(comparison.text());
    page.section(scenario);
    page
}

fn drawn(report: &ArrayReport) -> Vec<&ArrayRow> {
    let rows = || super::possible(report);
    if rows().count() <= LINES {
        return rows().collect();
    }
    KNOWN.iter().filter_map(|name| rows().find(|row| row.name == *name)).collect()
}

/// Latency over percentile, with as much space for the tail as for the body.
fn percentiles(report: &ArrayReport) -> chart::Chart {
    let lines = drawn(report).into_iter().map(|row| {
        let points = PERCENTILES
            .iter()
            .map(|kind| (1.0 - kind.share(), row.median(|figures| figures.percentile(kind.name))));
        LineSeries { name: row.name.clone(), points: points.collect() }
    });
    let lines: Vec<_> = lines.collect();
    let x = Axis::new("percentile", Unit::Percentile);
    let y = Axis::new("latency", Unit::Nanos).log();
    chart::line("Percentiles of latency", &x, &y, &lines)
}

fn busy(report: &ArrayReport) -> chart::Chart {
    let rows = drawn(report);
    let names: Vec<_> = rows.iter().map(|row| row.name.as_str()).collect();
    let series = [("1 busy", 1), ("2 busy", 2), ("3 busy", 3), ("4 and more", 4)];
    let series = series.map(|(name, class)| {
        let share = |row: &&ArrayRow| row.median(|f| Some(f.busy_percent[class]));
        BinnedSeries { name: name.to_owned(), values: rows.iter().map(share).collect() }
    });
    let y = Axis::new("percent of the stripes' reads", Unit::Plain);
    chart::bars("Busy members of a stripe's read", "strategy", &y, &names, &series)
}

fn distributions(report: &ArrayReport) -> chart::Chart {
    let series: Vec<_> =
        drawn(report).into_iter().map(|row| (row.name.as_str(), &row.latencies)).collect();
    chart::cdf("Latency of reads, all seeds", "latency", &series)
}
