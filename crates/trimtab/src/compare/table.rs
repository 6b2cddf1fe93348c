//! The table of a comparison.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use trimtab_compare::{DriveFacts, GroupFigures, MEASURES, Measure, Report, StrategyReport};
use trimtab_io::Nanos;
use trimtab_report::{Align, Facts, Table, count, machine};

use crate::units::{self, NONE};

/// Columns whose spread over the seeds is shown; all would not fit.
const SPREAD_SHOWN: [&str; 3] = ["mean_ns", "p99_ns", "p99.9_ns"];

/// The whole output.
pub(super) fn text(path: &Path, report: &Report) -> String {
    let facts = facts(path, report);
    let (table, drives) = (strategies(report), drives(report));
    let (failed, never) = (failed(report).concat(), never_refusing(report).concat());
    let groups: String = groups(report).iter().map(|table| format!("{table}\n")).collect();
    format!("{facts}\n{table}\n{groups}{failed}{drives}{never}")
}

/// A line for each row of which reads failed: they are in none of its figures.
pub(super) fn failed(report: &Report) -> Vec<String> {
    let errors = |row: &StrategyReport| row.seeds.iter().map(|seed| seed.errors).sum::<u64>();
    let rows = report.strategies.iter().map(|row| (row, errors(row)));
    rows.filter(|(_, errors)| *errors > 0)
        .map(|(row, errors)| {
            let errors = count(errors);
            format!("{}: {errors} reads failed on every drive, and are not counted\n", row.name)
        })
        .collect()
}

/// The seeds and the predictors for which a drive's reads are never refused.
type SeedsAndPredictors<'a> = (BTreeSet<u64>, BTreeSet<&'a str>);

/// A line for each drive on which predictors never refuse a read, and each reason.
pub(super) fn never_refusing(report: &Report) -> Vec<String> {
    // By drive and reason: the seeds and the predictors.
    let mut all: BTreeMap<(usize, &str), SeedsAndPredictors<'_>> = BTreeMap::new();
    for (&seed, drives) in report.seeds.iter().zip(&report.drives) {
        for (number, drive) in drives.iter().enumerate() {
            for (&predictor, reason) in &drive.never_refuses {
                let (seeds, predictors) = all.entry((number, reason)).or_default();
                seeds.insert(seed);
                predictors.insert(predictor);
            }
        }
    }
    let line = |((number, reason), (seeds, predictors)): ((usize, &str), (BTreeSet<u64>, _))| {
        let name = &report.drives[0][number].device;
        let predictors = Vec::from_iter::<BTreeSet<&str>>(predictors);
        let (never, predictors) = (
            if predictors.len() > 1 { "never refuse" } else { "never refuses" },
            predictors.join(", "),
        );
        let several = if seeds.len() > 1 { "s" } else { "" };
        let seeds = seeds.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
        format!("{name}, seed{several} {seeds}: {predictors} {never}: {reason}\n")
    };
    all.into_iter().map(line).collect()
}

/// How the figures were obtained.
pub(super) fn facts(path: &Path, report: &Report) -> Facts {
    let mut facts = Facts::new();
    facts.add("scenario", path.display().to_string());
    let seeds: Vec<_> = report.seeds.iter().map(u64::to_string).collect();
    facts.add("seeds", seeds.join(", "));
    let reads = report.strategies[0].seeds.iter().map(|seed| seed.reads).min().unwrap_or_default();
    match report.parallel {
        1 => facts.add("reads", format!("{} for each seed, at least", count(reads))),
        parallel => {
            let requests = format!("{} of {parallel} reads for each seed", count(reads));
            facts.add("user requests", requests);
        }
    }
    facts.add("failover charged", report.failover_ns.to_string());
    facts.add("machine", machine());
    facts
}

/// A row for each strategy: medians, and below them the lowest and the highest if there are
/// several seeds.
pub(super) fn strategies(report: &Report) -> Table {
    let right = |name: &str| (name.to_owned(), Align::Right);
    let columns: Vec<_> = [("strategy".to_owned(), Align::Left)]
        .into_iter()
        .chain(MEASURES.iter().map(|measure| right(measure.name)))
        .chain([right("inference")])
        .collect();
    let several = report.strategies.iter().any(|row| row.seeds.len() > 1);
    let caption = if several {
        "latency of reads, medians over the seeds; in parentheses the lowest and the highest"
    } else {
        "latency of reads"
    };
    let mut table = Table::new(&columns).with_caption(caption);
    report.strategies.iter().for_each(|row| table.row(cells(row, several)));
    table
}

/// For each group of drives, its users' reads under each strategy.
pub(super) fn groups(report: &Report) -> Vec<Table> {
    let times = || MEASURES.iter().filter(|measure| measure.is_time);
    let of_first = report.strategies.first().map_or(&[][..], |row| &row.groups[..]);
    let table = |(number, group): (usize, &GroupFigures)| {
        let columns: Vec<_> = [("strategy".to_owned(), Align::Left)]
            .into_iter()
            .chain(times().map(|measure| (measure.name.to_owned(), Align::Right)))
            .collect();
        let caption = format!("latency of the reads of group {}, medians", group.group);
        let mut table = Table::new(&columns).with_caption(&caption);
        for row in &report.strategies {
            let median = row.groups[number].median;
            let times = times().map(|measure| shown(measure, median.get(measure.key)));
            table.row([row.name.clone()].into_iter().chain(times).collect::<Vec<_>>());
        }
        table
    };
    of_first.iter().enumerate().map(table).collect()
}

fn cells(row: &StrategyReport, several: bool) -> Vec<String> {
    let value = |measure: &Measure| row.median.get(measure.key);
    let mut cells = vec![row.name.clone()];
    cells.extend(MEASURES.iter().map(|measure| shown(measure, value(measure))));
    if several {
        for (number, measure) in MEASURES.iter().enumerate() {
            if !SPREAD_SHOWN.contains(&measure.key) {
                continue;
            }
            let ends = [&row.lowest, &row.highest].map(|end| shown(measure, end.get(measure.key)));
            cells[1 + number] = format!("{} ({}–{})", cells[1 + number], ends[0], ends[1]);
        }
    }
    let inference = row.seeds.iter().map(|seed| seed.inference_ns).max().unwrap_or_default();
    cells.push(if inference == Nanos::ZERO { NONE.to_owned() } else { inference.to_string() });
    cells
}

fn shown(measure: &Measure, value: Option<f64>) -> String {
    let Some(value) = value else { return NONE.to_owned() };
    if measure.is_time {
        // Without the space before the unit, so that the columns stay narrow.
        units::long(Nanos(value as u64)).replace(' ', "")
    } else {
        format!("{value:.1}%")
    }
}

/// The drives' figures from phase one.
pub(super) fn drives(report: &Report) -> Table {
    let mut columns = vec![
        ("device", Align::Left),
        ("reads, phase one", Align::Right),
        ("phase two", Align::Right),
        ("inflection point", Align::Right),
        ("percentile", Align::Right),
    ];
    if report.drives.iter().flatten().any(|drive| drive.changed.is_some()) {
        columns.extend([("after the change", Align::Right), ("percentile then", Align::Right)]);
    }
    let mut table = Table::new(&columns);
    let is_alone = |drive: &DriveFacts| {
        drive.inflection_alone || drive.changed.is_some_and(|changed| changed.inflection_alone)
    };
    if report.drives.iter().flatten().any(is_alone) {
        let caption =
            "* among drives like it: no latency makes failing over to the others worthwhile";
        table = table.with_caption(caption);
    }
    for (seed, drives) in report.seeds.iter().zip(&report.drives) {
        table.group(format!("seed {seed}"));
        for drive in drives {
            let mut cells = vec![
                drive.device.clone(),
                count(drive.reads),
                count(drive.reads_phase_two),
                marked(latency(drive.inflection_ns), drive.inflection_alone),
                percentile(drive.inflection_percentile),
            ];
            cells.extend(drive.changed.iter().flat_map(|changed| {
                let latency = latency(changed.inflection_ns);
                let percentile = percentile(changed.inflection_percentile);
                [marked(latency, changed.inflection_alone), percentile]
            }));
            table.row(cells);
        }
    }
    table
}

fn latency(latency: Option<Nanos>) -> String {
    latency.map_or_else(|| NONE.to_owned(), units::long)
}

fn percentile(percentile: Option<f64>) -> String {
    percentile.map_or_else(|| NONE.to_owned(), |percentile| format!("p{percentile:.1}"))
}

fn marked(cell: String, is: bool) -> String {
    if is { cell + "*" } else { cell }
}
