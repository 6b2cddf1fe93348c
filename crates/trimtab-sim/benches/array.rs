//! The speed of the driver of several drives under a strategy, in requests per
//! second of wall time. `trimtab` has predictors that cost nothing: what is measured is the
//! strategy, with its control group and without.

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use trimtab_device::{Profile, Ssd};
use trimtab_io::{DeviceId, LatencyHistogram, Nanos, Op, Request, SplitMix64};
use trimtab_predict::{Forecast, Predictor, Ticket, Verdict};
use trimtab_sim::array::{ArrayDrive, ArrayIo, ArrayOptions, run};
use trimtab_steer::{
    Costs, PredictorSet, Replica, ReplicaHistory, StrategyInputs, StrategyKind, Tuning,
};

const DRIVES: usize = 3;
const REQUESTS: usize = 1_000_000;
/// Requests per second of each drive: a third of its maximum.
const IOPS: u64 = 60_000;

/// Three drives of the configuration that public simulators are compared on, in their steady
/// state.
fn drives(profile: &Profile) -> Vec<ArrayDrive> {
    let drive = |number: usize| {
        let mut ssd = Ssd::new(profile, DeviceId(number as u32), number as u64);
        ssd.age(profile, 1.0, 3.0);
        ArrayDrive::new(ssd, 1024)
    };
    (0..DRIVES).map(drive).collect()
}

/// Random requests of 4 KiB, 70% reads.
fn requests(capacity: u64) -> Vec<ArrayIo> {
    let mut random = SplitMix64::new(1);
    let mut at = 0;
    let io = |number: usize| {
        at += random.next() % (2_000_000_000 / (IOPS * DRIVES as u64));
        let op = if random.unit() < 0.7 { Op::Read } else { Op::Write };
        let offset = random.next() % (capacity / 4096) * 4096;
        let primary = Replica((number % DRIVES) as u8);
        ArrayIo::new(Nanos(at), op, offset, 4096, primary)
    };
    (0..REQUESTS).map(io).collect()
}

/// Expects the same of each read.
#[derive(Clone, Copy)]
struct Constant;

impl Predictor for Constant {
    fn name(&self) -> &'static str {
        "constant"
    }

    fn predict(&self, _: Nanos, _: &Request) -> Forecast {
        let wait = Some(Nanos::from_micros(100));
        Forecast { verdict: Verdict::Fast, probability: 0.0, wait, fast: wait }
    }

    fn sent(&mut self, _: Nanos, _: &Request) -> Ticket {
        Ticket(0)
    }

    fn completed(&mut self, _: Nanos, _: Ticket, _: bool) {}

    fn boxed_clone(&self) -> Box<dyn Predictor> {
        Box::new(*self)
    }
}

fn array(c: &mut Criterion) {
    let mut profile = Profile::builtin("reference").expect("built in");
    profile.geometry.blocks_per_plane = 256;
    let profile = Profile::parse(&profile.to_toml()).expect("valid");
    let (drives, requests) = (drives(&profile), requests(profile.capacity_bytes()));
    let mut reads = LatencyHistogram::new();
    reads.extend((40..=600).map(Nanos::from_micros));
    let inflection = Nanos::from_micros(500);
    let history = vec![ReplicaHistory { reads, inflection, false_submit_rate: 0.1 }; DRIVES];
    let mut group = c.benchmark_group("array");
    group.sample_size(10);
    group.throughput(Throughput::Elements(REQUESTS as u64));
    let usual = Tuning::default();
    for (name, kind, tuning) in [
        ("base", StrategyKind::Base, usual),
        ("clone", StrategyKind::Clone, usual),
        ("hedge", StrategyKind::Hedge, usual),
        ("snitch", StrategyKind::Snitch, usual),
        ("c3", StrategyKind::C3, usual),
        ("trimtab", StrategyKind::Trimtab, usual),
        ("trimtab without control", StrategyKind::Trimtab, Tuning { control: false, ..usual }),
    ] {
        group.bench_function(name, |b| {
            // Copying the drives is excluded from the measurement.
            b.iter_batched(
                || {
                    let predictors = kind
                        .predictor()
                        .map(|_| PredictorSet::new((0..DRIVES).map(|_| Constant.boxed_clone())));
                    let costs = Costs::default();
                    let inputs = StrategyInputs { predictors, costs, tuning, seed: 1 };
                    (drives.clone(), kind.build(&history, inputs))
                },
                |(drives, strategy)| {
                    let run = run(drives, strategy, &requests, &ArrayOptions::default());
                    black_box(run.expect("valid"))
                },
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, array);
criterion_main!(benches);
