//! The tables of latencies and devices.

use trimtab_io::{Nanos, PERCENTILES, Summary};
use trimtab_trace::stats::{OpFigures, Report};

use super::units;

/// A table with its header in the first row.
pub(super) struct Table {
    pub(super) title: &'static str,
    pub(super) rows: Vec<Vec<String>>,
}

/// The tables that a trace has something for.
pub(super) fn tables(report: &Report) -> Vec<Table> {
    let response = ("Response time (arrival to completion)", times(report, |op| &op.response));
    let service = ("Service time (issue to completion)", times(report, |op| &op.service));
    let devices = ("Busiest devices", devices(report));
    [response, service, devices]
        .into_iter()
        .filter(|(_, rows)| rows.len() > 1)
        .map(|(title, rows)| Table { title, rows })
        .collect()
}

fn times(report: &Report, of: impl Fn(&OpFigures) -> &Option<Summary>) -> Vec<Vec<String>> {
    let percentiles = PERCENTILES.iter().map(|p| p.name);
    let header = ["op", "count", "mean"].into_iter().chain(percentiles).chain(["max"]);
    let mut rows = vec![header.map(str::to_owned).collect()];
    for op in &report.ops {
        let Some(summary) = of(op) else { continue };
        let mut row =
            vec![op.op.to_string(), units::short_count(summary.count), compact(summary.mean)];
        row.extend(PERCENTILES.iter().map(|p| compact(summary.percentile(p.name))));
        row.push(compact(summary.max));
        rows.push(row);
    }
    rows
}

/// Without the space before the unit: eleven columns must fit into 80.
fn compact(time: Option<Nanos>) -> String {
    time.map_or_else(|| units::NONE.to_owned(), |t| units::long(t).replace(' ', ""))
}

/// Empty for a single device: its requests are all there are.
fn devices(report: &Report) -> Vec<Vec<String>> {
    if report.devices.count < 2 {
        return Vec::new();
    }
    let mut rows = vec![["device", "requests", "share", "moved"].map(str::to_owned).to_vec()];
    for device in &report.devices.top {
        rows.push(vec![
            device.name.clone(),
            units::count(device.requests),
            units::percent(device.share),
            units::bytes(device.bytes as f64),
        ]);
    }
    rows
}
