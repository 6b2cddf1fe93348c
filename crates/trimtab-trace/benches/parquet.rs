//! Reading and writing speed of the native format, in records per second.

use std::hint::black_box;
use std::path::Path;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use trimtab_io::{Flags, Nanos, Op};
use trimtab_trace::{
    Clock, Format, Meta, Names, OutputFormat, Record, Trace, TraceOptions, Writer,
};

const RECORDS: usize = 1_000_000;

/// A trace as recorders make it: every column has values.
fn records(names: &mut Names) -> Vec<Record> {
    let devices = ["nvme0n1", "nvme1n1", "sda"].map(|name| names.add_device(name).unwrap());
    let commands = ["fio", "postgres", "kworker"].map(|name| names.add_command(name).unwrap());
    let mut rng = Pcg64::seed_from_u64(1);
    let mut arrival = 1_700_000_000_000_000_000;
    let mut record = || {
        arrival += rng.random_range(0..20_000);
        let client = rng.random_range(0..3_usize);
        let issue = arrival + rng.random_range(500..3_000);
        Record {
            issue: Some(Nanos(issue)),
            complete: Some(Nanos(issue + rng.random_range(60_000..400_000))),
            pid: Some(1_000 + client as u32),
            command: Some(commands[client]),
            flags: if rng.random_range(0..4) == 0 { Flags::SYNC } else { Flags::empty() },
            ..Record::arriving(
                Nanos(arrival),
                devices[client],
                if rng.random_range(0..10) < 7 { Op::Read } else { Op::Write },
                rng.random_range(0..1 << 28) * 4096,
                4096 << rng.random_range(0..6),
            )
        }
    };
    (0..RECORDS).map(|_| record()).collect()
}

fn write(path: &Path, records: &[Record], names: &Names) {
    let meta =
        Meta { format: Format::Parquet, clock: Clock::Unix, has_offsets: true, notes: Vec::new() };
    let mut writer = Writer::create(path, OutputFormat::Parquet, &meta).unwrap();
    for batch in records.chunks(4096) {
        writer.write(batch, names).unwrap();
    }
    writer.finish().unwrap();
}

fn read(path: &Path, batch: &mut Vec<Record>) -> u64 {
    let mut trace = Trace::open(&[path.to_owned()], &TraceOptions::default()).unwrap();
    let mut bytes = 0;
    while trace.read(batch).unwrap() {
        bytes += batch.iter().map(|r| r.length).sum::<u64>();
    }
    bytes
}

fn parquet(criterion: &mut Criterion) {
    let dir = tempfile::tempdir().unwrap();
    let mut names = Names::default();
    let all = records(&mut names);
    let arrivals_only: Vec<_> = all
        .iter()
        .map(|r| Record::arriving(r.arrival, r.device, r.op, r.offset, r.length))
        .collect();
    let mut group = criterion.benchmark_group("parquet");
    group.throughput(Throughput::Elements(RECORDS as u64)).sample_size(20);
    for (what, records) in [("all_columns", &all), ("arrivals_only", &arrivals_only)] {
        let path = dir.path().join(what);
        group.bench_function(format!("write/{what}"), |b| {
            b.iter(|| write(&path, records, &names));
        });
        group.bench_function(format!("read/{what}"), |b| {
            b.iter_batched_ref(
                Vec::new,
                |batch| black_box(read(&path, batch)),
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, parquet);
criterion_main!(benches);
