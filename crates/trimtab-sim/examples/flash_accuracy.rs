//! Accuracy of `mitt-ssd` by the measure of MittOS, §4.5.6: reads refused that would have been in
//! time, and reads admitted that are late, with the deadline at the p95. Nothing is refused during
//! the measurement.
//!
//! Usage: `cargo run --release -p trimtab-sim --example flash_accuracy -- [SEED [RATE [FILE]]]`,
//! with `TRIMTAB_TRACES` naming the folder of recorded workloads; RATE: how many times faster than
//! recorded they are replayed.

#![expect(clippy::print_stdout, reason = "an example prints its result")]

use std::collections::HashMap;
use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use trimtab_device::{Profile, Ssd};
use trimtab_io::{DeviceId, Nanos, Op, Request, RequestId};
use trimtab_predict::mitt::{FlashPrecision, Limit, MittSsd};
use trimtab_predict::{Predictor, Ticket};
use trimtab_sim::mitt::flash_model;
use trimtab_trace::{Trace, TraceOptions};

/// File and format.
const WORKLOADS: [(&str, &str); 5] = [
    ("tpcc-small.trace", "disksim-ns"),
    ("wsrch-small.trace", "disksim-ns"),
    ("msr-rand-iops.trace", "cut"),
    ("msr-rw20-80.trace", "cut"),
    ("cloudphysics.csv", "cloudphysics"),
];

/// As in the paper: traces of disks, on 128 chips.
const RATE: u64 = 128;

/// The profile has 128 dies, so that a smaller drive would have no room for cleaning.
const CAPACITY: u64 = 32 << 30;

/// The distance of two disks of a trace on the drive.
const DISK: u64 = 5 << 30;

const PRECISIONS: [(&str, FlashPrecision); 6] = {
    let all = FlashPrecision { feedback: true, channel: true, page_table: true, erase: true };
    [
        ("all", all),
        ("no feedback", FlashPrecision { feedback: false, ..all }),
        ("no channel", FlashPrecision { channel: false, ..all }),
        ("no page table", FlashPrecision { page_table: false, ..all }),
        ("no erase", FlashPrecision { erase: false, ..all }),
        ("none", FlashPrecision::NONE),
    ]
};

/// One read: its latency, and what each variant expected.
struct Outcome {
    actual: Nanos,
    expected: [Nanos; PRECISIONS.len()],
}

/// The trace's requests, on a drive of this size. Its disks follow each other on the drive, and
/// wrap around. Requests at the same time of a coarse clock are spread over its tick.
fn requests(
    path: &Path,
    format: &str,
    rate: u64,
    capacity: u64,
) -> Result<Vec<Request>, Box<dyn Error>> {
    let options = TraceOptions { format: Some(format.parse()?), ..TraceOptions::default() };
    let mut trace = Trace::open(&[path.to_owned()], &options)?;
    let (mut batch, mut records) = (Vec::new(), Vec::new());
    while trace.read(&mut batch)? {
        records.append(&mut batch);
    }
    records.sort_by_key(|record| record.arrival);
    let first = records.first().ok_or("an empty trace")?.arrival;
    let tick = if format == "cloudphysics" { 1_000_000_000 } else { 0 };
    let mut requests = Vec::new();
    for group in records.chunk_by(|one, other| one.arrival == other.arrival) {
        for (number, record) in (0_u64..).zip(group) {
            let within = number * tick / group.len() as u64;
            let at = Nanos((record.arrival.since(first).0 + within) / rate);
            let shifted = record.offset + u64::from(record.device.0) * DISK;
            let length = record.length.min(capacity);
            let offset = (shifted % (capacity - length + 1)) / 512 * 512;
            let id = RequestId(requests.len() as u64);
            requests.push(Request::new(id, DeviceId(0), at, record.op, offset, length));
        }
    }
    Ok(requests)
}

/// A drive with its predictors.
struct Bench {
    ssd: Ssd,
    predictors: Vec<MittSsd>,
    tickets: HashMap<u64, (Nanos, Vec<Ticket>, Option<usize>)>,
    outcomes: Vec<Outcome>,
}

impl Bench {
    fn settle(&mut self) {
        let predictors = &mut self.predictors;
        self.ssd.take_flash_events(|event| {
            predictors.iter_mut().for_each(|predictor| predictor.observe(&event.into()));
        });
        for served in self.ssd.served() {
            let completion = served.completion;
            let Some((sent, tickets, read)) = self.tickets.remove(&completion.request.0) else {
                continue;
            };
            for (predictor, ticket) in predictors.iter_mut().zip(tickets) {
                predictor.completed(completion.complete, ticket, true);
            }
            if let Some(read) = read {
                self.outcomes[read].actual = completion.complete.since(sent);
            }
        }
    }

    /// All events up to a time, each told when it happens.
    fn advance(&mut self, until: Nanos) {
        while let Some(at) = self.ssd.next_event().filter(|&at| at <= until) {
            self.ssd.advance(at);
            self.settle();
        }
        self.ssd.advance(until);
    }

    fn send(&mut self, request: &Request) -> Result<(), Box<dyn Error>> {
        let now = request.arrival;
        self.advance(now);
        let read = (request.op == Op::Read).then_some(self.outcomes.len());
        if read.is_some() {
            let mut expected = [Nanos::ZERO; PRECISIONS.len()];
            for (expected, predictor) in expected.iter_mut().zip(&self.predictors) {
                *expected = predictor.predict(now, request).wait.unwrap_or_default();
            }
            self.outcomes.push(Outcome { actual: Nanos::ZERO, expected });
        }
        let tickets = self.predictors.iter_mut().map(|p| p.sent(now, request)).collect();
        self.tickets.insert(request.id.0, (now, tickets, read));
        self.ssd.submit(now, request)?;
        self.settle();
        Ok(())
    }
}

fn measure(
    name: &str,
    format: &str,
    rate: u64,
    path: &Path,
    seed: u64,
) -> Result<(), Box<dyn Error>> {
    let profile = Profile::builtin("openchannel").ok_or("no such profile")?;
    let profile = profile.with_capacity(CAPACITY)?;
    let mut ssd = Ssd::new(&profile, DeviceId(0), seed);
    ssd.age(&profile, 1.0, 1.0);
    let map = ssd.open_channel();
    let model = Arc::new(flash_model(&profile)?);
    let requests = requests(path, format, rate, ssd.capacity())?;
    let start = ssd.now();
    let one = |(_, precision): (&str, FlashPrecision)| {
        MittSsd::new(Arc::clone(&model), Arc::clone(&map), Limit::default(), precision)
    };
    let predictors = PRECISIONS.map(one).into();
    let mut bench = Bench { ssd, predictors, tickets: HashMap::new(), outcomes: Vec::new() };
    for request in &requests {
        bench.send(&Request { arrival: request.arrival + start, ..*request })?;
    }
    while let Some(at) = bench.ssd.next_event() {
        bench.advance(at);
    }
    let outcomes = &bench.outcomes;
    let mut sorted: Vec<_> = outcomes.iter().map(|outcome| outcome.actual).collect();
    sorted.sort_unstable();
    let at = |share: f64| sorted[((sorted.len() - 1) as f64 * share) as usize];
    let deadline = at(0.95);
    println!(
        "{name} x{rate}: {} requests, {} reads; p50 {}, p95 {}, p99 {}; {} erases, {} stalls",
        requests.len(),
        outcomes.len(),
        at(0.5),
        deadline,
        at(0.99),
        bench.ssd.stats().erases,
        bench.ssd.stats().stalls,
    );
    let [unknowable, knowable] = by_copy(&requests, &profile, seed, outcomes, deadline)?;
    println!(
        "  of those wrong with all features, a copy of the drive errs on {unknowable} too, and not on {knowable}"
    );
    for (number, (name, _)) in PRECISIONS.iter().enumerate() {
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
            "  {name:14} wrong {:6.3}% of reads ({:6.3}% of all): false positive {:6.3}%, false \
             negative {:6.3}%; off by {} on average, {} at most",
            percent(wrong, outcomes.len()),
            percent(wrong, requests.len()),
            percent(refused, outcomes.len()),
            percent(admitted, outcomes.len()),
            Nanos(error / wrong.max(1)),
            Nanos(most),
        );
    }
    Ok(())
}

/// How many of the reads that are foretold wrongly with all features a copy of the drive, which
/// serves the read with nothing after it, would foretell wrongly as well, and how many not.
fn by_copy(
    requests: &[Request],
    profile: &Profile,
    seed: u64,
    outcomes: &[Outcome],
    deadline: Nanos,
) -> Result<[u32; 2], Box<dyn Error>> {
    let mut ssd = Ssd::new(profile, DeviceId(0), seed);
    ssd.age(profile, 1.0, 1.0);
    let (start, mut outcomes, mut counts) = (ssd.now(), outcomes.iter(), [0, 0]);
    for request in requests {
        let now = request.arrival + start;
        ssd.advance(now);
        ssd.served();
        let request = Request { arrival: now, ..*request };
        if request.op == Op::Read {
            let outcome = outcomes.next().ok_or("as many reads as outcomes")?;
            let is_late = outcome.actual > deadline;
            if (outcome.expected[0] > deadline) != is_late {
                let took = alone(&ssd, now, &request)?.ok_or("a read that never completes")?;
                counts[usize::from((took > deadline) == is_late)] += 1;
            }
        }
        ssd.submit(now, &request)?;
    }
    Ok(counts)
}

/// The latency of a read that a copy of the drive serves, with nothing after it.
fn alone(ssd: &Ssd, now: Nanos, read: &Request) -> Result<Option<Nanos>, Box<dyn Error>> {
    let mut copy = ssd.clone();
    copy.submit(now, read)?;
    loop {
        let found = copy.served().find(|served| served.completion.request == read.id);
        if let Some(served) = found {
            return Ok(Some(served.completion.complete.since(now)));
        }
        let Some(next) = copy.next_event() else { return Ok(None) };
        copy.advance(next);
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let Ok(traces) = std::env::var("TRIMTAB_TRACES") else {
        return Err("TRIMTAB_TRACES must name the folder of recorded workloads".into());
    };
    let arguments: Vec<String> = std::env::args().collect();
    let number = |at: usize, default: u64| arguments.get(at).map_or(Ok(default), |n| n.parse());
    let (seed, rate) = (number(1, 1)?, number(2, RATE)?);
    let only = arguments.get(3);
    let wanted = |(name, _): &(&str, &str)| only.is_none_or(|only| only == name);
    for (name, format) in WORKLOADS.into_iter().filter(wanted) {
        measure(name, format, rate, &Path::new(&traces).join("workload").join(name), seed)?;
    }
    Ok(())
}
