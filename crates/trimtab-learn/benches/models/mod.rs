//! Models and samples for benchmarks.

use trimtab_learn::forest::IntegerForest;
use trimtab_learn::integer::LinnOs;
use trimtab_learn::tree::{Child, Forest, Missing, Split, Tree};

/// Distinct samples: too many for a branch predictor to learn.
const SAMPLES: usize = 4_096;

/// Trees, leaves of each, features.
pub(crate) const FORESTS: [(usize, usize, u64); 4] =
    [(40, 8, 64), (100, 8, 64), (100, 8, 128), (64, 16, 64)];

/// Pseudo-random numbers.
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

/// A network of LinnOS's size, and digits.
pub(crate) fn network() -> (LinnOs, Vec<[u8; 31]>) {
    let mut mix = Mix(1);
    let signed = |x: u64| x as i16 - 1_000;
    let first = mix.many(31 * 256, signed, 2_001);
    let bias = mix.many(256, |x| x as i32 - 10_000, 20_001);
    let second = mix.many(512, signed, 2_001);
    let network = LinnOs::new(&first, &bias, &second, [0, 0]).unwrap();
    let digits = mix.many(SAMPLES * 31, |x| x as u8, 10);
    (network, digits.as_chunks().0.to_vec())
}

/// A forest, and concatenated samples.
pub(crate) fn forest((trees, leaves, features): (usize, usize, u64)) -> (IntegerForest, Vec<i32>) {
    let mut mix = Mix(5);
    let grown = (0..trees).map(|_| tree(&mut mix, features, leaves)).collect();
    let forest = Forest::new(features as usize, 0.0, grown).unwrap();
    let samples = mix.many(SAMPLES * features as usize, |x| x as i32, 256);
    (IntegerForest::new(&forest, 16).unwrap(), samples)
}

/// A tree that splits random leaves at random thresholds; low features more often than high ones.
/// Real trees share more of their thresholds. As in trimtab's models, twelve leading bits suffice
/// for the thresholds; and values, of 16 fraction bits, fit 16 bits.
fn tree(mix: &mut Mix, features: u64, leaves: usize) -> Tree {
    let (mut splits, mut values) = (Vec::<Split>::new(), vec![0.25]);
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
        values.push(mix.below(1_000) as f64 / 4_000.0);
    }
    Tree::new(splits, values).unwrap()
}
