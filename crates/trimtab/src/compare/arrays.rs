//! `trimtab compare` on an array.

mod notes;
mod page;

use std::io::Write as _;
use std::path::Path;
use std::sync::Mutex;

use anyhow::{Result, bail};
use serde::Serialize;
use trimtab_compare::arrays::{
    ArrayComparison, ArrayFigures, ArrayReport, ArrayRow, PartFigures, compare_arrays,
};
use trimtab_io::{Nanos, WholeFile};
use trimtab_report::{Align, Facts, Table, bytes, count, machine};

use super::{Args, line, threads};
use crate::console;
use crate::json::Json;
use crate::output::Report;
use crate::progress::{Progress, during};
use crate::units::{self, NONE};

/// The report as JSON.
#[derive(Serialize)]
struct Summary<'a> {
    trimtab: &'static str,
    /// The scenario's text.
    scenario: &'a str,
    machine: String,
    #[serde(flatten)]
    report: &'a ArrayReport,
}

/// Whether a scenario is one of an array; what cannot be read is not.
pub(super) fn is_one(path: &Path) -> bool {
    let text = WholeFile::toml("a comparison").read_text(path);
    text.is_ok_and(|text| ArrayComparison::is_one(&text))
}

pub(super) fn run(args: &Args, path: &Path) -> Result<()> {
    let mut comparison = ArrayComparison::load_with(path, &super::settings(args))?;
    if args.live {
        bail!("{}: arrays are simulated so far; leave out --live", path.display());
    }
    if !args.seeds.is_empty() {
        comparison.set_seeds(args.seeds.clone())?;
    }
    let json = args.json.as_deref().map(|out| Json::create(out, &[path])).transpose()?;
    let page = args.report.as_deref().map(|out| Report::create(out, &[path])).transpose()?;
    let progress = if args.quiet { Progress::hidden() } else { Progress::new() };
    let progress = Mutex::new(progress);
    let show = |at: &trimtab_compare::Progress<'_>| {
        if let Ok(mut progress) = progress.lock() {
            progress.show(|elapsed| line(at, elapsed));
        }
    };
    let work = || compare_arrays(&comparison, threads(args), &show);
    let report = if args.quiet { work() } else { during("comparing", work) }?;
    drop(progress);
    if let Some(page) = page {
        page.write(&page::page(path, &comparison, &report))?;
    }
    let to_standard_output = matches!(json, Some(Json::StandardOutput));
    if let Some(json) = json {
        let (trimtab, scenario) = (env!("CARGO_PKG_VERSION"), comparison.text());
        json.write(&Summary { trimtab, scenario, machine: machine(), report: &report })?;
    }
    if !args.quiet && !to_standard_output {
        let mut out = console::out(false);
        out.write_all(text(path, &comparison, &report).as_bytes())?;
        out.flush()?;
    }
    Ok(())
}

fn text(path: &Path, comparison: &ArrayComparison, report: &ArrayReport) -> String {
    let notes = notes::notes(comparison, report).concat();
    let facts = facts(path, comparison, report);
    let parts = parts(report).map_or(String::new(), |parts| format!("\n{parts}"));
    format!("{facts}\n{}\n{}{parts}{notes}", latencies(report), work(report))
}

/// How the figures were obtained.
pub(super) fn facts(path: &Path, comparison: &ArrayComparison, report: &ArrayReport) -> Facts {
    let mut facts = Facts::new();
    let layout = comparison.layout();
    facts.add("scenario", path.display().to_string());
    let array = format!(
        "{}, {} members, chunks of {} KiB",
        layout.level(),
        layout.members(),
        layout.chunk() >> 10
    );
    facts.add("array", array);
    let seeds: Vec<_> = report.seeds.iter().map(u64::to_string).collect();
    facts.add("seeds", seeds.join(", "));
    let figures = || report.strategies.iter().flat_map(|row| &row.seeds);
    let reads = figures().map(|figures| figures.reads).min().unwrap_or_default();
    facts.add("reads", format!("at least {} for each seed", count(reads)));
    let dwpd = report.strategies.first().and_then(|row| row.median(|f| Some(f.dwpd)));
    let dwpd = dwpd.map_or(NONE.to_owned(), |dwpd| format!("{dwpd:.1} in eight hours"));
    facts.add("drive writes per day", dwpd);
    facts.add("machine", machine());
    facts
}

const PERCENTILES: [&str; 6] = ["p50", "p95", "p99", "p99.9", "p99.99", "p99.999"];

/// A row for each strategy: how long reads take.
pub(super) fn latencies(report: &ArrayReport) -> Table {
    let right = |name: &str| (name.to_owned(), Align::Right);
    let ideal = report.strategies.iter().find(|row| row.name == "ideal");
    let base = possible(report).next();
    // Without drives to compare with: slowdowns, beside the median of the first row.
    let (ratios, beside): (&[&str], _) = match ideal {
        Some(_) => (&["p99.9", "p99.99"], "ideal".to_owned()),
        None => {
            let base = base.map_or("", |row| row.name.as_str());
            (&["p99", "p99.9", "p99.99"], format!("p50 of {base}"))
        }
    };
    let of_ideal = ratios.iter().map(|name| right(&format!("{name} / {beside}")));
    let columns: Vec<_> = [("strategy".to_owned(), Align::Left), right("mean")]
        .into_iter()
        .chain(PERCENTILES.map(right))
        .chain(of_ideal)
        .collect();
    let caption = match report.seeds.len() {
        1 => "latency of reads",
        _ => "latency of reads, medians over the seeds",
    };
    let mut table = Table::new(&columns).with_caption(caption);
    for row in possible(report) {
        let percentile = |row: &ArrayRow, name: &str| row.median(|f| f.percentile(name));
        let mean = |f: &ArrayFigures| (f.reads > 0).then_some(f.mean_ns);
        let mut cells = vec![row.name.clone(), time(row.median(mean))];
        cells.extend(PERCENTILES.map(|name| time(percentile(row, name))));
        for name in ratios {
            let of = match ideal {
                Some(ideal) => percentile(ideal, name),
                None => base.and_then(|base| percentile(base, "p50")),
            };
            let ratio = percentile(row, name).zip(of).map(|(own, ideal)| own / ideal);
            cells.push(ratio.map_or(NONE.to_owned(), |ratio| format!("{ratio:.2}")));
        }
        table.row(cells);
    }
    table
}

/// A row for each strategy: what it costs, and what the drives do.
pub(super) fn work(report: &ArrayReport) -> Table {
    let buffered = possible(report).any(|row| row.seeds.iter().any(|f| f.buffer.is_some()));
    let mut columns = vec![
        ("strategy", Align::Left),
        ("extra reads", Align::Right),
        ("extra I/O", Align::Right),
        ("1 busy", Align::Right),
        ("2 busy", Align::Right),
        ("more", Align::Right),
        ("write p99", Align::Right),
        ("reads/s", Align::Right),
        ("writes/s", Align::Right),
        ("write amplification", Align::Right),
        ("out of turn", Align::Right),
    ];
    let mut caption =
        "stripes' reads of which one, two or more members were busy with themselves; \
                       cleanings out of turn"
            .to_owned();
    if buffered {
        columns.push(("buffer", Align::Right));
        caption += "; the most that the host's write buffer held";
    }
    let mut table = Table::new(&columns).with_caption(caption);
    let percent = |value: Option<f64>, places: usize| {
        value.map_or(NONE.to_owned(), |value| format!("{value:.places$}%"))
    };
    for row in possible(report) {
        let busy = |class: usize| row.median(|f| Some(f.busy_percent[class]));
        let more = row.median(|f| Some(f.busy_percent[3..].iter().sum()));
        let write = |figures: &ArrayFigures| {
            let found = figures.write_percentiles.iter().find(|(name, _)| *name == "p99");
            found.map(|(_, value)| *value as f64)
        };
        let whole = |value: Option<f64>| value.map_or(NONE.to_owned(), |v| count(v.round() as u64));
        let mut cells = vec![
            row.name.clone(),
            percent(row.median(|f| Some(f.extra_reads_percent)), 1),
            percent(row.median(|f| Some(f.extra_requests_percent)), 1),
            percent(busy(1), 3),
            percent(busy(2), 3),
            percent(more, 3),
            time(row.median(write)),
            whole(row.median(|f| Some(f.reads_per_s))),
            whole(row.median(|f| Some(f.writes_per_s))),
            amplification(row.median(|f| f.write_amplification)),
            whole(row.median(|f| Some(f.forced_outside_window as f64))),
        ];
        if buffered {
            let held = row.median(|f| f.buffer.map(|buffer| buffer.high_water_bytes as f64));
            cells.push(held.map_or(NONE.to_owned(), |held| bytes(held as u64)));
        }
        table.row(cells);
    }
    table
}

/// A row for each strategy: before its windows were changed, and after. None: no run came to that.
pub(super) fn parts(report: &ArrayReport) -> Option<Table> {
    if !possible(report).flat_map(|row| &row.seeds).any(|figures| figures.parts.len() > 1) {
        return None;
    }
    let right = |name: String| (name, Align::Right);
    let names = ["p99", "p99.9", "p99.99", "write amplification", "out of turn"];
    let columns: Vec<_> = [("strategy".to_owned(), Align::Left)]
        .into_iter()
        .chain(
            names.iter().flat_map(|name| [format!("{name} before"), "after".to_owned()].map(right)),
        )
        .collect();
    let caption = "before the windows were changed, and after";
    let mut table = Table::new(&columns).with_caption(caption);
    for row in possible(report) {
        let part = |of: fn(&PartFigures) -> Option<f64>, number: usize| {
            row.median(|figures| figures.parts.get(number).and_then(of))
        };
        let mut cells = vec![row.name.clone()];
        let times: [fn(&PartFigures) -> Option<f64>; 3] = [
            |part| part.percentile("p99"),
            |part| part.percentile("p99.9"),
            |part| part.percentile("p99.99"),
        ];
        cells.extend(times.iter().flat_map(|&of| [0, 1].map(|number| time(part(of, number)))));
        cells.extend([0, 1].map(|number| amplification(part(|p| p.write_amplification, number))));
        cells.extend([0, 1].map(|number| {
            let forced = part(|p| Some(p.forced_outside_window as f64), number);
            forced.map_or(NONE.to_owned(), |forced| count(forced.round() as u64))
        }));
        table.row(cells);
    }
    Some(table)
}

fn possible(report: &ArrayReport) -> impl Iterator<Item = &ArrayRow> {
    report.strategies.iter().filter(|row| row.impossible.is_none())
}

fn amplification(value: Option<f64>) -> String {
    value.map_or(NONE.to_owned(), |value| format!("{value:.2}"))
}

fn time(value: Option<f64>) -> String {
    value.map_or(NONE.to_owned(), |ns| units::long(Nanos(ns as u64)).replace(' ', ""))
}
