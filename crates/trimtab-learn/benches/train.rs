//! Training speed: `cargo bench -p trimtab-learn --bench train`. Two threads.

use std::hint::black_box;
use std::ops::ControlFlow;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use trimtab_learn::dense::{Activation, Initialisation, Network, TrainingOptions};
use trimtab_learn::{Rows, boost, dense};

/// Pseudo-random numbers.
fn numbers(count: usize, limit: u64) -> Vec<u8> {
    let mut state = 1_u64;
    let number = |_| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) % limit) as u8
    };
    (0..count).map(number).collect()
}

/// One epoch of the LinnOS network over a million samples of 31 digits.
fn epoch(criterion: &mut Criterion) {
    const SAMPLES: usize = 1_000_000;
    let digits = numbers(SAMPLES * 31, 10);
    let rows = Rows::new(&digits, 31).unwrap();
    let classes: Vec<u8> = rows.iter().map(|row| u8::from(row[0] + row[1] > 12)).collect();
    let layers = [(256, Activation::Relu), (2, Activation::Softmax)];
    let mut network = Network::random(31, &layers, Initialisation::Glorot, 1).unwrap();
    let training = TrainingOptions { epochs: 1, ..TrainingOptions::default() };
    let mut group = criterion.benchmark_group("train");
    group.throughput(Throughput::Elements(SAMPLES as u64)).sample_size(10);
    group.bench_function("31-256-2, a million samples", |bencher| {
        bencher.iter(|| {
            let go_on = |_| ControlFlow::Continue(());
            dense::train(black_box(&mut network), rows, &classes, &training, go_on).unwrap()
        });
    });
}

/// 100 trees of 15 leaves on 200,000 samples of 64 features.
fn boosting(criterion: &mut Criterion) {
    const SAMPLES: usize = 200_000;
    let features = numbers(SAMPLES * 64, 250);
    let rows = Rows::new(&features, 64).unwrap();
    let slow = |row: &[u8]| u16::from(row[0]) + u16::from(row[1] / 2) + u16::from(row[2] / 4) > 200;
    let targets: Vec<f32> = rows.iter().map(|row| f32::from(u8::from(slow(row)))).collect();
    let options = boost::BoostOptions::default();
    let mut group = criterion.benchmark_group("boost");
    group.sample_size(10);
    group.bench_function("bins", |bencher| {
        bencher.iter(|| boost::Data::new(rows, &targets, &[], &options).unwrap());
    });
    let data = boost::Data::new(rows, &targets, &[], &options).unwrap();
    group.bench_function("100 trees", |bencher| {
        bencher.iter(|| {
            boost::train(black_box(&data), None, &options, |_| ControlFlow::Continue(())).unwrap()
        });
    });
}

criterion_group!(benches, epoch, boosting);
criterion_main!(benches);
