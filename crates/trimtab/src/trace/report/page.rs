//! The page's text: provenance, tables, and their order.

use trimtab_io::{LatencyHistogram, Nanos};
use trimtab_report::{Align, Facts, Page, Section, Table, bytes, chart, count, utc};
use trimtab_trace::{OpPlots, Plots};

use super::verdict::{self, Stretch, TOLD_PERCENT, stretches};
use super::{Report, TraceReport, draw};
use crate::units;

/// The percentiles in tables.
const SHOWN: [&str; 4] = ["p50", "p90", "p99", "p99.9"];
const NONE: &str = "–";
/// The most names that are listed.
const MOST_NAMES: usize = 12;

pub(super) fn page(report: &Report) -> Page {
    match &report.traces[..] {
        [trace] => {
            let mut facts = trace_facts(trace);
            add_maker(&mut facts, report);
            let mut page = Page::new(&trace.name, facts);
            let stretches = stretches(&trace.plots);
            for sentence in verdict_of(trace, &stretches) {
                page.verdict(sentence);
            }
            let mut section = Section::new("Requests");
            fill(&mut section, trace, &stretches);
            page.section(section);
            page
        }
        traces => {
            let mut facts = Facts::new();
            facts.add("traces", count(traces.len() as u64));
            let requests = traces.iter().map(|trace| trace.plots.requests).sum();
            facts.add("requests", count(requests));
            add_maker(&mut facts, report);
            let mut page = Page::new(format!("{} traces compared", traces.len()), facts);
            for trace in traces {
                let told = verdict_of(trace, &stretches(&trace.plots));
                page.verdict(format!("{}: {}", trace.name, told.join(" ")));
            }
            page.table(comparison(traces));
            compare_latency(&mut page, traces);
            for trace in traces {
                let mut section = Section::new(&trace.name);
                let stretches = stretches(&trace.plots);
                section.verdict(&verdict_of(trace, &stretches));
                section.facts(trace_facts(trace));
                fill(&mut section, trace, &stretches);
                page.section(section);
            }
            page
        }
    }
}

fn verdict_of(trace: &TraceReport, stretches: &[Stretch]) -> Vec<String> {
    if trace.plots.requests == 0 {
        return vec!["There are no requests in this trace.".to_owned()];
    }
    verdict::verdict(trace, stretches)
}

fn add_maker(facts: &mut Facts, report: &Report) {
    facts.add("made by", format!("trimtab {}", report.trimtab));
    facts.add("made on", &report.machine);
}

/// A trace's origin and properties.
fn trace_facts(trace: &TraceReport) -> Facts {
    let plots = &trace.plots;
    let mut facts = Facts::new();
    let files: Vec<_> = trace.files.iter().map(|path| path.display().to_string()).collect();
    facts.add("source", shortened(&files));
    facts.add("format", trace.format);
    facts.add("requests", count(plots.requests));
    let measured: u64 = plots.ops.iter().map(|op| op.response.count()).sum();
    facts.add("with measured latency", count(measured));
    if trace.skipped > 0 {
        facts.add("malformed, skipped", count(trace.skipped));
    }
    if let Some(first) = trace.began() {
        facts.add("first arrival", utc(first));
    }
    facts.add("first to last arrival", plots.duration.to_string());
    // A recording's notes already list its devices.
    if !trace.devices.is_empty() && trace.notes.iter().all(|(key, _)| key != "devices") {
        facts.add("devices", shortened(&trace.devices));
    }
    for (key, value) in &trace.notes {
        facts.add(key, value);
    }
    facts
}

fn shortened(names: &[String]) -> String {
    let listed = names[..names.len().min(MOST_NAMES)].join(", ");
    match names.len().saturating_sub(MOST_NAMES) {
        0 => listed,
        more => format!("{listed} and {} more", count(more as u64)),
    }
}

/// Tables and plots of one trace.
fn fill(section: &mut Section, trace: &TraceReport, stretches: &[Stretch]) {
    let plots = &trace.plots;
    if plots.requests == 0 {
        section.note("There are no requests in this trace.");
        return;
    }
    section.table(by_op(plots));
    if !stretches.is_empty() {
        section.table(by_stretch(plots, stretches));
    }
    let (charts, missing) = draw::charts(trace, stretches);
    for reason in missing {
        section.note(reason);
    }
    for chart in charts {
        section.chart(chart);
    }
}

/// One row per op, and one for the total if there are several.
fn by_op(plots: &Plots) -> Table {
    let mut columns = vec![
        ("op".to_owned(), Align::Left),
        ("requests".to_owned(), Align::Right),
        ("share".to_owned(), Align::Right),
        ("data".to_owned(), Align::Right),
        ("mean size".to_owned(), Align::Right),
    ];
    let measured = total_response(plots).count() > 0;
    if measured {
        columns.extend(latency_columns());
    }
    let mut table = Table::new(&columns);
    let mut row = |name: &str, requests: u64, data: u64, response: &LatencyHistogram| {
        let share = 100.0 * requests as f64 / plots.requests.max(1) as f64;
        let mean = bytes(data.checked_div(requests).unwrap_or(0));
        let mut cells =
            vec![name.to_owned(), count(requests), format!("{share:.1}%"), bytes(data), mean];
        if measured {
            cells.extend(latency_cells(response));
        }
        table.row(cells);
    };
    for op in &plots.ops {
        row(op.op.name(), op.requests, op.bytes, &op.response);
    }
    if plots.ops.len() > 1 {
        row("all", plots.requests, total_bytes(plots), &total_response(plots));
    }
    if measured {
        table.with_caption(
            "Response times, from arrival to completion. A percentile p is given where at least \
             10 / (1 − p) samples support it.",
        )
    } else {
        table
    }
}

/// One row for each stretch with many slow reads, and the rate of writes in it.
fn by_stretch(plots: &Plots, stretches: &[Stretch]) -> Table {
    let columns = [
        ("from", Align::Right),
        ("to", Align::Right),
        ("slow reads", Align::Right),
        ("of all slow reads", Align::Right),
        ("writes, MB/s", Align::Right),
    ];
    let read = plots.ops.iter().find(|op| op.op == trimtab_io::Op::Read);
    let all = read.and_then(|read| read.slow.as_ref()).map_or(0, |slow| slow.total);
    let mut table = Table::new(&columns).with_caption(format!(
        "When {TOLD_PERCENT}% of the slow reads came, since the first arrival"
    ));
    for stretch in stretches {
        table.row([
            units::long(stretch.from),
            units::long(stretch.to),
            count(stretch.slow),
            units::percent(stretch.slow as f64 / all.max(1) as f64),
            format!("{:.1}", stretch.written_mb_s),
        ]);
    }
    table
}

/// One row per trace.
fn comparison(traces: &[TraceReport]) -> Table {
    let mut columns: Vec<_> = [("trace".to_owned(), Align::Left)].into();
    let right = ["requests", "reads", "data", "lasts", "mean IOPS", "mean MB/s"];
    columns.extend(right.map(|name| (name.to_owned(), Align::Right)));
    columns.extend(latency_columns());
    let mut table = Table::new(&columns)
        .with_caption("All requests of each trace; response times from arrival to completion");
    for trace in traces {
        let plots = &trace.plots;
        let is_read = |op: &&OpPlots| op.op == trimtab_io::Op::Read;
        let reads: u64 = plots.ops.iter().filter(is_read).map(|op| op.requests).sum();
        let per_second = |amount: f64, decimals: usize| match plots.duration {
            Nanos::ZERO => NONE.to_owned(),
            time => format!("{:.decimals$}", amount / time.as_secs_f64()),
        };
        let mut cells = vec![
            trace.name.clone(),
            count(plots.requests),
            format!("{:.1}%", 100.0 * reads as f64 / plots.requests.max(1) as f64),
            bytes(total_bytes(plots)),
            plots.duration.to_string(),
            per_second(plots.requests as f64, 0),
            per_second(total_bytes(plots) as f64 / 1e6, 1),
        ];
        cells.extend(latency_cells(&total_response(plots)));
        table.row(cells);
    }
    table
}

/// The traces' response times in one chart, if more than one has them.
fn compare_latency(page: &mut Page, traces: &[TraceReport]) {
    let totals: Vec<_> =
        traces.iter().map(|trace| (trace.name.clone(), total_response(&trace.plots))).collect();
    let measured: Vec<_> = totals
        .iter()
        .filter(|(_, response)| response.count() >= draw::FEWEST_FOR_CDF)
        .map(|(name, response)| (name.as_str(), response))
        .collect();
    if measured.len() > 1 {
        page.chart(chart::cdf("Response time of all requests", "response time", &measured));
    }
}

fn total_bytes(plots: &Plots) -> u64 {
    plots.ops.iter().fold(0, |sum, op| sum.saturating_add(op.bytes))
}

fn total_response(plots: &Plots) -> LatencyHistogram {
    let mut total = LatencyHistogram::new();
    for op in &plots.ops {
        total.merge(&op.response);
    }
    total
}

fn latency_columns() -> impl Iterator<Item = (String, Align)> {
    let names = ["mean"].into_iter().chain(SHOWN).chain(["max"]);
    names.map(|name| (name.to_owned(), Align::Right))
}

fn latency_cells(response: &LatencyHistogram) -> impl Iterator<Item = String> {
    let summary = response.summary();
    let percentiles = SHOWN.map(|name| summary.percentile(name));
    [summary.mean]
        .into_iter()
        .chain(percentiles)
        .chain([summary.max])
        .map(|value| value.map_or_else(|| NONE.to_owned(), |value| value.to_string()))
}
