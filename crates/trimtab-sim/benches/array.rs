//! The speed of the driver of several drives under a strategy, in requests per
//! second of wall time.

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use trimtab_device::{Profile, Ssd};
use trimtab_io::{DeviceId, LatencyHistogram, Nanos, Op, SplitMix64};
use trimtab_sim::array::{ArrayDrive, ArrayIo, ArrayOptions, run};
use trimtab_steer::{Costs, Replica, ReplicaHistory, StrategyInputs, StrategyKind, Tuning};

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
        ArrayIo { at: Nanos(at), op, offset, length: 4096, primary }
    };
    (0..REQUESTS).map(io).collect()
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
    for kind in [
        StrategyKind::Base,
        StrategyKind::Clone,
        StrategyKind::Hedge,
        StrategyKind::Snitch,
        StrategyKind::C3,
    ] {
        group.bench_function(kind.name(), |b| {
            // Copying the drives is excluded from the measurement.
            b.iter_batched(
                || {
                    let (costs, tuning) = (Costs::default(), Tuning::default());
                    let inputs = StrategyInputs { predictors: None, costs, tuning, seed: 1 };
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
