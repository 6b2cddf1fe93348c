//! Accuracy of `mitt-noop` and `mitt-cfq` by the measure of MittOS, §4.5.6: reads refused that
//! would have been in time, and reads admitted that are late, with the deadline at the p95. Nothing
//! is refused during the measurement.
//!
//! Usage: `cargo run --release -p trimtab-sim --example disk_accuracy -- [SEED [LOAD [PROFILE]]]`,
//! with `TRIMTAB_TRACES` naming the folder of recorded workloads. They are of arrays of disks, so
//! each is replayed on one disk at the speed at which all requests, alone, would keep it busy for
//! the share LOAD of the time. PROFILE: a built-in disk.

#![expect(clippy::print_stdout, reason = "an example prints its result")]

use std::collections::HashMap;
use std::error::Error;
use std::path::Path;

use trimtab_device::scheduler::SchedulerKind;
use trimtab_device::{Disk, DiskProfile, DiskTiming};
use trimtab_io::{DeviceId, Issuer, Nanos, Op, Request, RequestId};
use trimtab_predict::mitt::{DiskPrecision, Limit};
use trimtab_sim::mitt::{Ended, PredictedDevice, disk_predictor};
use trimtab_sim::{MaybeScheduled, Scheduled, Server as _};
use trimtab_trace::{Trace, TraceOptions};

/// File and format.
const WORKLOADS: [(&str, &str); 5] = [
    ("tpcc-small.trace", "disksim-ns"),
    ("wsrch-small.trace", "disksim-ns"),
    ("msr-rand-iops.trace", "cut"),
    ("msr-rw20-80.trace", "cut"),
    ("cloudphysics.csv", "cloudphysics"),
];

/// Requests of a workload that are replayed at most.
const MOST: usize = 25_000;

/// Reads of a part of this size are of one process.
const PART: u64 = 8 << 30;

/// Scheduler, and requests that the disk has at a time.
const STACKS: [(&str, &str, u32); 4] = [
    ("noop, depth 1", "kind = 'none'", 1),
    ("noop, depth 8", "kind = 'none'", 8),
    ("cfq, depth 1", "kind = 'cfq'", 1),
    ("cfq, depth 8", "kind = 'cfq'", 8),
];

const PRECISIONS: [(&str, DiskPrecision); 4] = {
    let all = DiskPrecision { feedback: true, sizes: true };
    [
        ("all", all),
        ("no feedback", DiskPrecision { feedback: false, ..all }),
        ("no sizes", DiskPrecision { sizes: false, ..all }),
        ("none", DiskPrecision { feedback: false, sizes: false }),
    ]
};

/// One read: its latency, what each variant expected, and what it would be if nothing followed.
struct Outcome {
    actual: Nanos,
    expected: Vec<Nanos>,
}

/// The trace's requests on a disk of this size. Its disks follow each other, and wrap around.
/// Requests at the same time of a coarse clock are spread over its tick.
fn requests(
    path: &Path,
    format: &str,
    load: f64,
    profile: &DiskProfile,
) -> Result<Vec<Request>, Box<dyn Error>> {
    let options = TraceOptions { format: Some(format.parse()?), ..TraceOptions::default() };
    let mut trace = Trace::open(&[path.to_owned()], &options)?;
    let (mut batch, mut records) = (Vec::new(), Vec::new());
    while trace.read(&mut batch)? {
        records.append(&mut batch);
    }
    records.sort_by_key(|record| record.arrival);
    records.truncate(MOST);
    let first = records.first().ok_or("an empty trace")?.arrival;
    let capacity = profile.capacity_bytes();
    let tick = if format == "cloudphysics" { 1_000_000_000 } else { 0 };
    let mut requests = Vec::new();
    for group in records.chunk_by(|one, other| one.arrival == other.arrival) {
        for (number, record) in (0_u64..).zip(group) {
            let within = number * tick / group.len() as u64;
            let at = record.arrival.since(first) + Nanos(within);
            let shifted = record.offset + u64::from(record.device.0) * (5 << 30);
            let length = record.length.min(capacity);
            let offset = (shifted % (capacity - length + 1)) / 512 * 512;
            let issuer = Issuer::of_process((offset / PART) as u32);
            let id = RequestId(requests.len() as u64);
            let plain = Request::new(id, DeviceId(0), at, record.op, offset, length);
            requests.push(Request { issuer, ..plain });
        }
    }
    let (times, mut end, mut busy) = (DiskTiming::new(profile), 0, 0);
    for request in &requests {
        busy += times.expected_service(end, request.op, request.offset, request.length).0;
        end = request.end();
    }
    let last = requests.last().map_or(0, |request| request.arrival.0).max(1);
    // Never faster than recorded: those were bursts of an array.
    let slower = (busy as f64 / load / last as f64).max(1.0);
    for request in &mut requests {
        request.arrival = Nanos((request.arrival.0 as f64 * slower) as u64);
    }
    println!("replayed {slower:.1} times slower than recorded");
    Ok(requests)
}

/// The latency of a read if nothing follows it: a copy of the disk serves it.
fn alone(device: &PredictedDevice<Disk>, now: Nanos, read: &Request) -> Option<Nanos> {
    let mut copy = device.device().clone();
    copy.submit(now, read).ok()?;
    while let Some(at) = copy.next_event() {
        copy.advance(at);
        let mut end = None;
        copy.drain(|served| {
            if served.completion.request == read.id {
                end = Some(served.completion.complete);
            }
        });
        if let Some(end) = end {
            return Some(end.since(now));
        }
    }
    None
}

fn replay(
    profile: &DiskProfile,
    (scheduler, depth): (&str, u32),
    requests: &[Request],
    seed: u64,
) -> Result<Vec<Outcome>, Box<dyn Error>> {
    let kind = SchedulerKind::parse(scheduler)?;
    let disk = Disk::new(profile, DeviceId(0), seed);
    let device = MaybeScheduled::Scheduled(Box::new(Scheduled::new(disk, &kind, depth)));
    let limit = Limit::default();
    let one = |(_, precision): &(&str, DiskPrecision)| {
        disk_predictor(profile, Some((&kind, depth)), limit, *precision)
    };
    let predictors: Option<Vec<_>> = PRECISIONS.iter().map(one).collect();
    let mut device = PredictedDevice::new(device, predictors.ok_or("no model of this")?);
    let mut outcomes: HashMap<RequestId, Outcome> = HashMap::new();
    let take = |device: &mut PredictedDevice<Disk>, outcomes: &mut HashMap<_, Outcome>| {
        for ended in device.ended() {
            if let Ended::Completed(done) = ended
                && let Some(outcome) = outcomes.get_mut(&done.request)
            {
                let request = &requests[done.request.0 as usize];
                outcome.actual = done.complete.since(request.arrival);
            }
        }
    };
    for request in requests {
        let now = request.arrival;
        device.advance(now);
        take(&mut device, &mut outcomes);
        if request.op == Op::Read {
            let forecasts = device.forecasts(now, request);
            let mut expected: Vec<_> =
                forecasts.map(|forecast| forecast.wait.unwrap_or_default()).collect();
            expected.push(alone(&device, now, request).ok_or("a read that never completes")?);
            outcomes.insert(request.id, Outcome { actual: Nanos::ZERO, expected });
        }
        device.send(now, request)?;
    }
    device.finish();
    take(&mut device, &mut outcomes);
    Ok(outcomes.into_values().collect())
}

fn report(title: &str, all: usize, outcomes: &[Outcome]) {
    let mut sorted: Vec<_> = outcomes.iter().map(|outcome| outcome.actual).collect();
    sorted.sort_unstable();
    let at = |share: f64| sorted[((sorted.len() - 1) as f64 * share) as usize];
    let deadline = at(0.95);
    println!("{title}: {} reads; p50 {}, p95 {deadline}, p99 {}", sorted.len(), at(0.5), at(0.99));
    let names = PRECISIONS.iter().map(|(name, _)| *name).chain(["the disk itself"]);
    for (number, name) in names.enumerate() {
        let (mut refused, mut admitted, mut error, mut most) = (0_u64, 0_u64, 0, 0);
        for outcome in outcomes {
            let (expected, actual) = (outcome.expected[number], outcome.actual);
            match (expected > deadline, actual > deadline) {
                (true, false) => refused += 1,
                (false, true) => admitted += 1,
                _ => continue,
            }
            let off = expected.0.abs_diff(actual.0);
            error += off;
            most = most.max(off);
        }
        let wrong = refused + admitted;
        let percent = |count: u64, of: usize| 100.0 * count as f64 / of.max(1) as f64;
        println!(
            "  {name:15} wrong {:6.3}% of reads ({:6.3}% of all): false positive {:6.3}%, false \
             negative {:6.3}%; off by {} on average, {} at most",
            percent(wrong, outcomes.len()),
            percent(wrong, all),
            percent(refused, outcomes.len()),
            percent(admitted, outcomes.len()),
            Nanos(error / wrong.max(1)),
            Nanos(most),
        );
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let Ok(traces) = std::env::var("TRIMTAB_TRACES") else {
        return Err("TRIMTAB_TRACES must name the folder of recorded workloads".into());
    };
    let arguments: Vec<String> = std::env::args().collect();
    let argument = |at: usize, default: &str| {
        arguments.get(at).map_or_else(|| default.to_owned(), String::clone)
    };
    let (seed, load) = (argument(1, "1").parse()?, argument(2, "0.5").parse()?);
    let name = argument(3, "disk-7200");
    let profile = DiskProfile::builtin(&name).ok_or("no such built-in disk")?;
    for (file, format) in WORKLOADS {
        let path = Path::new(&traces).join("workload").join(file);
        let requests = requests(&path, format, load, &profile)?;
        for (title, scheduler, depth) in STACKS {
            let outcomes = replay(&profile, (scheduler, depth), &requests, seed)?;
            report(&format!("{file}, load {load}, {title}"), requests.len(), &outcomes);
        }
    }
    Ok(())
}
