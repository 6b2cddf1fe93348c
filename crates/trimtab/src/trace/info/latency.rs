//! The tables of latencies and devices.

use trimtab_io::{Nanos, PERCENTILES, Summary};
use trimtab_report::{Align, Table, bytes, count, escaped};
use trimtab_trace::stats::{OpFigures, Report};

use crate::units;

/// The tables for which the trace has data; `of` names the trace if there are several.
pub(super) fn tables(report: &Report, of: &str) -> Vec<Table> {
    let response = times(report, "Response time (arrival to completion)", of, |op| &op.response);
    let service = times(report, "Service time (issue to completion)", of, |op| &op.service);
    [response, service, devices(report, of)].into_iter().flatten().collect()
}

fn times(
    report: &Report,
    title: &str,
    of: &str,
    figures: impl Fn(&OpFigures) -> &Option<Summary>,
) -> Option<Table> {
    let percentiles = PERCENTILES.iter().map(|p| (p.name, Align::Right));
    let columns: Vec<_> = [("op", Align::Left), ("count", Align::Right), ("mean", Align::Right)]
        .into_iter()
        .chain(percentiles)
        .chain([("max", Align::Right)])
        .collect();
    let mut table = Table::new(&columns).with_caption(format!("{title}{}", escaped(of)));
    let mut any = false;
    for op in &report.ops {
        let Some(summary) = figures(op) else { continue };
        let mut row =
            vec![op.op.to_string(), units::short_count(summary.count), compact(summary.mean)];
        row.extend(PERCENTILES.iter().map(|p| compact(summary.percentile(p.name))));
        row.push(compact(summary.max));
        table.row(row);
        any = true;
    }
    any.then_some(table)
}

/// Without the space before the unit: eleven columns must fit into 80.
fn compact(time: Option<Nanos>) -> String {
    time.map_or_else(|| units::NONE.to_owned(), |t| units::long(t).replace(' ', ""))
}

/// `None` for a single device, whose requests are all requests.
fn devices(report: &Report, of: &str) -> Option<Table> {
    let columns = [
        ("device", Align::Left),
        ("requests", Align::Right),
        ("share", Align::Right),
        ("moved", Align::Right),
    ];
    let mut table = Table::new(&columns).with_caption(format!("Busiest devices{}", escaped(of)));
    for device in &report.devices.top {
        table.row([
            device.name.clone(),
            count(device.requests),
            units::percent(device.share),
            bytes(device.bytes),
        ]);
    }
    (report.devices.count > 1).then_some(table)
}
