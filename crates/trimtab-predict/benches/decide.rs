//! The cost of a decision, with its features, and of tracking the drive: on a simulated drive
//! whose eight units serve one read at a time.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use trimtab_io::{DeviceId, Flags, Issuer, Nanos, Op, Request, RequestId};
use trimtab_predict::{DriveTracker, Label, Predictor, PredictorKind, Recorded, Ticket};
use trimtab_train::{Event, TrainingOptions, TrainingSet, events, replay, train, units};

const REQUESTS: usize = 60_000;

/// Reads and some writes, in bursts, on a drive with units that are queues.
fn recording() -> Vec<Recorded> {
    let (mut now, mut free, mut state) = (0, [0; 8], 1_u64);
    let mut random = move |below: u64| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) % below
    };
    let one = |i| {
        now += random(if i % 1000 < 900 { 20_000 } else { 100_000 });
        let (page, write) = (random(1 << 16), random(4) == 0);
        let free = &mut free[(page >> 1) as usize % 8];
        *free = now.max(*free) + 70_000 + if random(400) == 0 { 2_000_000 } else { 0 };
        let request = Request {
            id: RequestId(i),
            device: DeviceId(0),
            arrival: Nanos(now),
            op: if write { Op::Write } else { Op::Read },
            offset: page << 12,
            length: 4096,
            flags: Flags::empty(),
            deadline: None,
            issuer: Issuer::of_process(0),
        };
        let complete = if write { Nanos(now + 30_000) } else { Nanos(*free) };
        Recorded { request, complete, data: true }
    };
    (0..REQUESTS as u64).map(one).collect()
}

/// A predictor in the middle of the recording, and requests to ask it about.
fn midway(mut predictor: Box<dyn Predictor>, recorded: &[Recorded]) -> Box<dyn Predictor> {
    let mut tickets = vec![Ticket(0); recorded.len()];
    for event in events(recorded) {
        match event {
            Event::Sent(i) if i == recorded.len() / 2 => break,
            Event::Sent(i) => {
                let request = &recorded[i].request;
                tickets[i] = predictor.sent(request.arrival, request);
            }
            Event::Completed(i) => predictor.completed(recorded[i].complete, tickets[i], true),
        }
    }
    predictor
}

fn decide(c: &mut Criterion) {
    let recorded = recording();
    let label = Label::Threshold { latency: Nanos::from_micros(400) };
    let asked = &recorded[REQUESTS / 2..REQUESTS / 2 + 1024];
    let now = asked[0].request.arrival;
    let mut group = c.benchmark_group("decide");
    group.throughput(Throughput::Elements(asked.len() as u64));
    for kind in PredictorKind::ALL {
        let set = TrainingSet::whole(&recorded);
        let options = TrainingOptions { samples: 20_000, ..TrainingOptions::default() };
        let trained = train(kind, &[set], &label, &options, |_, _| {}).expect("enough");
        let predictor = midway(trained.predictor(), &recorded);
        group.bench_function(kind.name(), |b| {
            b.iter(|| {
                for recorded in asked {
                    black_box(predictor.predict(now, &recorded.request));
                }
            });
        });
    }
    let functions = units::find(&[&recorded]).functions;
    let mut tracker = DriveTracker::new(&functions);
    replay(&recorded[..REQUESTS / 2], &mut tracker, |_, _| {});
    group.bench_function("features alone", |b| {
        b.iter(|| {
            for recorded in asked {
                black_box(tracker.features(now, &recorded.request));
            }
        });
    });
    group.finish();

    let mut group = c.benchmark_group("track");
    group.throughput(Throughput::Elements(REQUESTS as u64));
    group.bench_function("sent and completed", |b| {
        b.iter(|| {
            let mut tracker = DriveTracker::new(&functions);
            replay(&recorded, &mut tracker, |_, _| {});
            tracker
        });
    });
    group.finish();
}

criterion_group!(benches, decide);
criterion_main!(benches);
