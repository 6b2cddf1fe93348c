//! How long a decision takes: `cargo bench -p trimtab-learn --bench decide`. One
//! core; features are there already.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use trimtab_learn::Simd;
use trimtab_learn::forest::IntegerForest;
use trimtab_learn::integer::LinnOs;
use trimtab_learn::tree::{Child, Forest, Missing, Split, Tree};

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
    let network = LinnOs::new(&first, &bias, &second, [0, 0]).unwrap();
    let samples = mix.many(SAMPLES * 31, |x| x as u8, 10);
    let (samples, _) = samples.as_chunks::<31>();
    let mut group = criterion.benchmark_group("network 31-256-2");
    for simd in Simd::all() {
        let mut samples = samples.iter().cycle();
        group.bench_function(BenchmarkId::from_parameter(simd), |bencher| {
            bencher.iter(|| network.margin(simd, black_box(samples.next().unwrap())));
        });
    }
}

/// A tree that splits random leaves at random thresholds; low features more often
/// than high ones. Real trees share more of their thresholds.
fn tree(mix: &mut Mix, features: u64, leaves: usize) -> Tree {
    let (mut splits, mut values) = (Vec::<Split>::new(), vec![0.5]);
    while values.len() < leaves {
        let (leaf, node) = (mix.below(values.len() as u64) as usize, splits.len());
        for child in splits.iter_mut().flat_map(|split| [&mut split.left, &mut split.right]) {
            if *child == Child::Leaf(leaf) {
                *child = Child::Split(node);
            }
        }
        splits.push(Split {
            feature: mix.below(features).min(mix.below(features)) as usize,
            threshold: mix.below(250) as f64,
            missing: Missing::Nothing,
            default_left: false,
            left: Child::Leaf(leaf),
            right: Child::Leaf(values.len()),
        });
        values.push(mix.below(1_000) as f64 / 1_000.0);
    }
    Tree::new(splits, values).unwrap()
}

fn forest(criterion: &mut Criterion) {
    for (trees, leaves, features) in [(40, 8, 64), (100, 8, 64), (100, 8, 128), (64, 16, 64)] {
        let mut mix = Mix(5);
        let grown = (0..trees).map(|_| tree(&mut mix, features, leaves)).collect();
        let width = features as usize;
        let forest = IntegerForest::new(&Forest::new(width, 0.0, grown).unwrap(), 16).unwrap();
        let samples = mix.many(SAMPLES * width, |x| x as i32, 256);
        let name = format!("forest {trees} x {leaves}, {features} features");
        let mut group = criterion.benchmark_group(name);
        for simd in Simd::all() {
            let mut samples = samples.chunks_exact(width).cycle();
            group.bench_function(BenchmarkId::from_parameter(simd), |bencher| {
                bencher.iter(|| forest.score_with(simd, black_box(samples.next().unwrap())));
            });
        }
    }
}

criterion_group!(benches, network, forest);
criterion_main!(benches);
