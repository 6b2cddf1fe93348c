//! How long a decision takes: `cargo bench -p trimtab-learn --bench decide`. One
//! core; features are there already.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use trimtab_learn::Simd;
use trimtab_learn::integer::LinnOs;

/// Numbers that look random.
struct Mix(u64);

impl Mix {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    fn many<T>(&mut self, count: usize, number: impl Fn(u64) -> T, limit: u64) -> Vec<T> {
        (0..count).map(|_| number(self.below(limit))).collect()
    }
}

/// How many different samples are decided about, so that none is learned by
/// heart by a branch predictor.
const SAMPLES: usize = 4_096;

fn network(criterion: &mut Criterion) {
    let mut mix = Mix(1);
    let signed = |x: u64| x as i16 - 1_000;
    let first = mix.many(31 * 256, signed, 2_001);
    let bias = mix.many(256, |x| x as i32 - 10_000, 20_001);
    let second = mix.many(512, signed, 2_001);
    let network = LinnOs::new(31, &first, &bias, &second, [0, 0]).unwrap();
    let samples = mix.many(SAMPLES * 31, |x| x as u8, 10);
    let mut group = criterion.benchmark_group("network 31-256-2");
    for simd in Simd::all() {
        let mut samples = samples.chunks_exact(31).cycle();
        group.bench_function(BenchmarkId::from_parameter(simd), |bencher| {
            bencher.iter(|| network.logits_with(simd, black_box(samples.next().unwrap())));
        });
    }
}

criterion_group!(benches, network);
criterion_main!(benches);
