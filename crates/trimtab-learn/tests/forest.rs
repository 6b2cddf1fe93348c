//! Forests over integers give what the trees give that they were made of, with
//! any instructions.

use proptest::prelude::*;
use trimtab_learn::Simd;
use trimtab_learn::forest::IntegerForest;
use trimtab_learn::tree::{Child, Forest, Missing, Split, Tree};

/// A tree that grows by splitting leaves; each number says which leaf, and how.
fn tree(features: usize, numbers: &[(u32, i32, i32)]) -> Tree {
    let (mut splits, mut values) = (Vec::<Split>::new(), vec![0.5]);
    for &(choice, threshold, value) in numbers {
        let choice = choice as usize;
        let leaf = choice % values.len();
        let node = splits.len();
        for child in splits.iter_mut().flat_map(|s| [&mut s.left, &mut s.right]) {
            if *child == Child::Leaf(leaf) {
                *child = Child::Split(node);
            }
        }
        splits.push(Split {
            feature: choice / 7 % features,
            threshold: f64::from(threshold) + 0.25,
            missing: Missing::Nothing,
            default_left: false,
            left: Child::Leaf(leaf),
            right: Child::Leaf(values.len()),
        });
        values[leaf] -= 1.0;
        values.push(f64::from(value) / 16.0);
    }
    Tree::new(splits, values).unwrap()
}

/// Trees of up to so many leaves, over up to so many features, and samples.
fn cases(
    leaves: usize,
    trees: usize,
    features: usize,
) -> impl Strategy<Value = (Forest, Vec<Vec<i32>>)> {
    let value = prop_oneof![8 => -70_i32..70, 1 => any::<i32>()];
    cases_of(leaves, trees, features, (-60_i32..60).boxed(), value.boxed())
}

/// The same with these thresholds, and these values in samples.
fn cases_of(
    leaves: usize,
    trees: usize,
    features: usize,
    threshold: BoxedStrategy<i32>,
    value: BoxedStrategy<i32>,
) -> impl Strategy<Value = (Forest, Vec<Vec<i32>>)> {
    (1..=features).prop_flat_map(move |features| {
        let split = (any::<u32>(), threshold.clone(), -1_000_i32..1_000);
        let of_tree = prop::collection::vec(split, 0..leaves);
        let trees = prop::collection::vec(of_tree, 0..=trees);
        let sample = prop::collection::vec(value.clone(), features);
        let samples = prop::collection::vec(sample, 8);
        (trees, samples).prop_map(move |(trees, samples)| {
            let trees = trees.iter().map(|numbers| tree(features, numbers)).collect();
            (Forest::new(features, -1.25, trees).unwrap(), samples)
        })
    })
}

/// Numbers of all lengths, and those before and after a change in the leading bits.
fn not_negative() -> impl Strategy<Value = i32> {
    let edge = (1_i32..4096, 0..19, -1_i32..=1).prop_map(|(x, shift, off)| (x << shift) + off);
    prop_oneof![0_i32..60, edge, 0_i32..=i32::MAX]
}

fn check(forest: &Forest, samples: &[Vec<i32>]) -> Result<(), TestCaseError> {
    let integer = IntegerForest::new(forest, 16).unwrap();
    for sample in samples {
        let wide: Vec<f64> = sample.iter().map(|&x| f64::from(x)).collect();
        let expected = forest.score(&wide);
        for simd in Simd::all() {
            prop_assert_eq!(integer.real(integer.score_with(simd, sample)), expected, "{}", simd);
        }
    }
    Ok(())
}

/// Rounded thresholds, and short values or long ones: the same with all instructions, and
/// for two forests together.
fn check_rounded(forest: &Forest, samples: &[Vec<i32>]) -> Result<(), TestCaseError> {
    let [short, long] = [8, 16].map(|bits| IntegerForest::new(forest, bits).unwrap().rounded());
    for sample in samples {
        let expected = [&short, &long].map(|forest| forest.view().score(sample));
        for simd in Simd::all() {
            let found = [&short, &long].map(|forest| forest.score_with(simd, sample));
            prop_assert_eq!(found, expected, "{}", simd);
        }
        prop_assert_eq!(short.both_scores(&long, sample), expected);
    }
    Ok(())
}

#[test]
fn rounding_leaves_small_thresholds_as_they_are() {
    let thresholds = [0, 7, 4095, 4096, 1_000_000, i32::MAX - 1, -5];
    let numbers: Vec<_> = thresholds.iter().map(|&threshold| (0, threshold, 1)).collect();
    let forest = Forest::new(1, 0.0, vec![tree(1, &numbers)]).unwrap();
    let forest = IntegerForest::new(&forest, 8).unwrap().rounded();
    let mut found: Vec<i32> = forest.view().nodes().iter().map(|node| node.threshold).collect();
    found.sort_unstable();
    // The last bit of 4096 that counts is worth 2, of a million 256.
    assert_eq!(found[..6], [-5, 0, 7, 4095, 4097, 1_000_191]);
    assert!(found[6..].iter().all(|&threshold| threshold == i32::MAX));
}

proptest! {
    #[test]
    fn leading_bits(
        (forest, samples) in
            cases_of(18, 70, 64, not_negative().boxed(), not_negative().boxed())
    ) {
        check_rounded(&forest, &samples)?;
    }

    #[test]
    fn small_trees((forest, samples) in cases(8, 140, 20)) {
        check(&forest, &samples)?;
    }

    #[test]
    fn large_trees((forest, samples) in cases(70, 8, 40)) {
        check(&forest, &samples)?;
    }

    #[test]
    fn many_features((forest, samples) in cases(16, 70, 300)) {
        check(&forest, &samples)?;
    }
}
