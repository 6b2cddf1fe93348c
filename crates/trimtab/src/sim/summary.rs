//! The output of `trimtab sim run` at its end.

use std::path::Path;

use trimtab_device::DriveProfile;
use trimtab_io::{Nanos, PERCENTILES};
use trimtab_report::{Align, Facts, Table, bytes, count, escaped, machine};
use trimtab_sim::{DeviceReport, OpReport, Report, Scenario, TimeReport};

use super::run::Speed;
use crate::units::{self, NONE, number, percent};

/// The whole output.
pub(super) fn text(path: &Path, scenario: &Scenario, report: &Report, speed: &Speed) -> String {
    let mut facts = Facts::new();
    facts.add("scenario", path.display().to_string());
    facts.add("seed", report.seed.to_string());
    let rate = speed.requests as f64 / 1e6 / speed.took.as_secs_f64();
    let took = Nanos(u64::try_from(speed.took.as_nanos()).unwrap_or(u64::MAX));
    facts
        .add("speed", format!("{} requests in {took}: {rate:.2} million/s", count(speed.requests)));
    facts.add("machine", machine());
    let mut text = facts.to_string();
    for (device, (_, profile)) in report.devices.iter().zip(scenario.profiles()) {
        text.push('\n');
        text += &latencies(device, profile).to_string();
        text.push('\n');
        text += &figures(device, profile).to_string();
    }
    text
}

fn latencies(device: &DeviceReport, profile: &DriveProfile) -> Table {
    let right = |name| (name, Align::Right);
    let columns: Vec<_> = [("op", Align::Left)]
        .into_iter()
        .chain(["count", "IOPS", "MB/s", "mean"].map(right))
        .chain(PERCENTILES.iter().map(|p| right(p.name)))
        .chain([right("max")])
        .collect();
    let caption = format!(
        "{} ({}, {}), {} after {} requests of warm-up{}",
        escaped(&device.name),
        escaped(profile.name()),
        bytes(device.capacity_bytes),
        units::long(device.measured_ns),
        count(device.warm_up_requests),
        if device.complete { "" } else { ", interrupted" },
    );
    let mut table = Table::new(&columns).with_caption(caption);
    device.ops.iter().for_each(|op| table.row(row(op)));
    for workload in &device.workloads {
        table.group(&workload.name);
        workload.ops.iter().for_each(|op| table.row(row(op)));
    }
    table
}

fn row(op: &OpReport) -> Vec<String> {
    let rate = |rate: Option<f64>| rate.map_or_else(|| NONE.to_owned(), number);
    let summary = &op.latency;
    let mut row = vec![
        op.op.to_string(),
        units::short_count(summary.count),
        rate(op.iops),
        rate(op.mb_s),
        compact(summary.mean),
    ];
    row.extend(PERCENTILES.iter().map(|p| compact(summary.percentile(p.name))));
    row.push(compact(summary.max));
    row
}

/// Without the space before the unit, so that the columns stay narrow.
fn compact(time: Option<Nanos>) -> String {
    time.map_or_else(|| NONE.to_owned(), |time| units::long(time).replace(' ', ""))
}

fn figures(device: &DeviceReport, profile: &DriveProfile) -> Facts {
    let mut facts = Facts::new();
    if let (Some(reads), DriveProfile::Flash(_)) = (&device.reads, profile) {
        facts.add("reads that waited for garbage collection", percent(reads.waited_for_cleaning));
    }
    for (label, times) in [
        ("mean read, where its time went", &device.reads),
        ("mean write, where its time went", &device.writes),
    ] {
        let parts = times.as_ref().map(time_components).filter(|parts| !parts.is_empty());
        parts.into_iter().for_each(|parts| facts.add(label, parts));
    }
    if let Some(amplification) = device.write_amplification {
        facts.add("write amplification", number(amplification));
        facts.add("blocks erased", count(device.erases));
        let stalls = format!("{} ({})", count(device.stalls), units::long(device.stalled_ns));
        facts.add("stalls for lack of free blocks", stalls);
    }
    if device.suspended > 0 {
        facts.add("programs and erases suspended", count(device.suspended));
    }
    let refused: u64 = device.ops.iter().map(|op| op.refused).sum();
    let errors: u64 = device.ops.iter().map(|op| op.errors).sum();
    for (label, n) in [
        ("refused", refused),
        ("errors", errors),
        ("most in submission queues", device.most_waiting as u64),
        ("unanswered", device.unanswered),
    ] {
        if n > 0 {
            facts.add(label, count(n));
        }
    }
    facts.add("most in flight", count(device.most_in_flight as u64));
    facts
}

/// The components that are not zero, the largest first.
fn time_components(op: &TimeReport) -> String {
    let mut parts = [
        ("service", op.service_ns),
        ("submission queue", op.submission_queue_ns),
        ("waiting for the die", op.die_ns),
        ("for garbage collection", op.cleaning_ns),
        ("for the channel", op.channel_ns),
        ("for the buffer", op.buffer_ns),
        ("stalled", op.stalled_ns),
        ("read retries", op.retries_ns),
    ];
    parts.sort_by_key(|&(_, time)| std::cmp::Reverse(time));
    let shown = parts.iter().filter(|(_, time)| *time > Nanos::ZERO);
    let shown: Vec<_> = shown.map(|(part, time)| format!("{part} {time}")).collect();
    shown.join(", ")
}
