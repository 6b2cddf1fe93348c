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
    (1..=features).prop_flat_map(move |features| {
        let split = (any::<u32>(), -60_i32..60, -1_000_i32..1_000);
        let of_tree = prop::collection::vec(split, 0..leaves);
        let trees = prop::collection::vec(of_tree, 0..=trees);
        let value = prop_oneof![8 => -70_i32..70, 1 => any::<i32>()];
        let samples = prop::collection::vec(prop::collection::vec(value, features), 8);
        (trees, samples).prop_map(move |(trees, samples)| {
            let trees = trees.iter().map(|numbers| tree(features, numbers)).collect();
            (Forest::new(features, -1.25, trees).unwrap(), samples)
        })
    })
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

proptest! {
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
