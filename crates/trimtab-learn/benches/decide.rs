//! Time of a decision: `cargo bench -p trimtab-learn --bench decide`. One core; features are
//! computed already.

mod models;

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use trimtab_learn::Simd;

fn network(criterion: &mut Criterion) {
    let (network, samples) = models::network();
    let mut group = criterion.benchmark_group("network 31-256-2");
    for simd in Simd::all() {
        let mut samples = samples.iter().cycle();
        group.bench_function(BenchmarkId::from_parameter(simd), |bencher| {
            bencher.iter(|| network.margin(simd, black_box(samples.next().unwrap())));
        });
    }
}

fn forest(criterion: &mut Criterion) {
    for size in models::FORESTS {
        let (forest, samples) = models::forest(size);
        let (trees, leaves, features) = size;
        let name = format!("forest {trees} x {leaves}, {features} features");
        let mut group = criterion.benchmark_group(name);
        for simd in Simd::all() {
            let mut samples = samples.chunks_exact(forest.features()).cycle();
            group.bench_function(BenchmarkId::from_parameter(simd), |bencher| {
                bencher.iter(|| forest.score_with(simd, black_box(samples.next().unwrap())));
            });
        }
    }
}

criterion_group!(benches, network, forest);
criterion_main!(benches);
