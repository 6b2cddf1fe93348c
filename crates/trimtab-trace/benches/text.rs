//! Reading speed of text formats, in records per second on one core, from memory and including
//! sorting: `cargo bench -p trimtab-trace --bench text`.

use std::fmt::Write;
use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use trimtab_trace::{Format, Trace, TraceOptions};

const RECORDS: u64 = 100_000;

/// Pseudo-random numbers, as hard for the branch predictor as a real trace.
struct Mix(u64);

impl Mix {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// One line of a format: its number, and where numbers come from.
type Line = fn(&mut String, u64, &mut Mix) -> std::fmt::Result;

const FORMATS: [(Format, Line); 5] = [
    (Format::Msr, |out, i, mix| {
        let kind = if mix.below(3) == 0 { "Read" } else { "Write" };
        let (disk, offset) = (mix.below(2), mix.below(1 << 28) * 512);
        let (size, response) = (mix.below(128) * 512, mix.below(100_000));
        let ticks = 128_166_372_003_061_629 + i * 1_234;
        writeln!(out, "{ticks},usr,{disk},{kind},{offset},{size},{response}")
    }),
    (Format::Alibaba, |out, i, mix| {
        let kind = if mix.below(3) == 0 { "R" } else { "W" };
        let (device, offset) = (mix.below(4), mix.below(1 << 28) * 512);
        let (length, time) = (mix.below(128) * 512, 1_577_808_000_000_000 + i * 97);
        writeln!(out, "{device},{kind},{offset},{length},{time}")
    }),
    (Format::Tencent, |out, i, mix| {
        let (time, offset, size) = (1_538_323_200 + i / 500, mix.below(1 << 28), mix.below(256));
        writeln!(out, "{time},{offset},{size},{},{}", mix.below(2), 1_100 + mix.below(4))
    }),
    (Format::Spc, |out, i, mix| {
        let kind = if mix.below(3) == 0 { "r" } else { "W" };
        let (unit, address, size) = (mix.below(3), mix.below(1 << 24), mix.below(64) * 512);
        writeln!(out, "{unit},{address},{size},{kind},{}.{:06}", i / 300, i % 300 * 3_333)
    }),
    (Format::Replay, |out, i, mix| {
        let (latency, op, bytes) = (60 + mix.below(2_000), mix.below(2), 512 + mix.below(64) * 512);
        let (offset, us) = (mix.below(1 << 28) * 512, i * 211 + mix.below(200));
        let submitted = format!("{}.{:03}", us / 1_000, us % 1_000);
        writeln!(out, "{}.000,{latency},{op},{bytes},{offset},{submitted},{bytes}", i / 100)
    }),
];

fn read(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("read");
    group.throughput(Throughput::Elements(RECORDS));
    for (format, line) in FORMATS {
        let (mut text, mut mix) = (String::new(), Mix(1));
        for i in 0..RECORDS {
            line(&mut text, i, &mut mix).expect("a string takes everything");
        }
        let options = TraceOptions { format: Some(format), ..TraceOptions::default() };
        group.bench_function(format.name(), |bencher| {
            let mut batch = Vec::new();
            bencher.iter(|| {
                let mut trace = Trace::from_bytes(text.as_bytes(), &options).expect("is a trace");
                let mut count = 0;
                while trace.read(&mut batch).expect("is in the format") {
                    count += batch.len() as u64;
                    black_box(&batch);
                }
                assert_eq!(count, RECORDS);
            });
        });
    }
    group.finish();
}

criterion_group!(benches, read);
criterion_main!(benches);
