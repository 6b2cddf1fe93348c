//! Speed of the statistics, in records per second.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use trimtab_io::{DeviceId, Nanos, Op};
use trimtab_trace::{Record, Stats, Synth};

/// A million requests, uniform and bursty, with completions as a drive with 16
/// in flight would give them.
fn random(bytes: u64) -> Vec<Record> {
    let text = format!(
        "seed = 1
         requests = 1_000_000
         capacity_gb = 1000
         read_share = 0.7
         arrivals = {{ kind = 'bursty', on_iops = 200000, off_iops = 1000, on_ms = 10, off_ms = 10 }}
         offsets = {{ kind = 'uniform' }}
         sizes = [{{ bytes = {bytes}, weight = 1 }}]"
    );
    let mut synth = Synth::from_toml(&text, None).expect("valid");
    let (mut batch, mut records) = (Vec::new(), Vec::new());
    while synth.read(&mut batch) {
        records.append(&mut batch);
    }
    for (i, record) in (0..).zip(&mut records) {
        let scattered = 40_000 + (i * 7919) % 80_000;
        record.issue = Some(record.arrival + Nanos(1_000));
        record.complete = Some(record.arrival + Nanos(scattered));
    }
    records
}

fn sequential() -> Vec<Record> {
    (0..1_000_000)
        .map(|i| {
            let arrival = Nanos::from_micros(10 * i);
            Record::arriving(arrival, DeviceId(0), Op::Write, i << 16, 1 << 16)
        })
        .collect()
}

fn stats(c: &mut Criterion) {
    let mut group = c.benchmark_group("stats");
    group.sample_size(10);
    for (name, records) in [
        ("random 4 KiB", random(4096)),
        ("random 256 KiB", random(256 << 10)),
        ("sequential 64 KiB", sequential()),
    ] {
        group.throughput(Throughput::Elements(records.len() as u64));
        group.bench_function(name, |b| {
            b.iter(|| {
                let mut stats = Stats::new();
                records.iter().for_each(|r| stats.add(r));
                black_box(stats)
            });
        });
    }
    group.finish();
}

criterion_group!(benches, stats);
criterion_main!(benches);
