//! Integer forests equal the trees they were made from, with all instructions.

use proptest::prelude::*;
use trimtab_learn::Simd;
use trimtab_learn::forest::IntegerForest;
use trimtab_learn::tree::{Child, Forest, Missing, Split, Tree};

/// A tree grown by splitting leaves; each number selects a leaf and its split.
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

type Case = (Forest, Vec<Vec<i32>>);

/// Trees of up to `leaves` leaves, over up to `features` features, and samples.
fn cases(leaves: usize, trees: usize, features: usize) -> impl Strategy<Value = Case> {
    let sample = prop_oneof![8 => -70_i32..70, 1 => any::<i32>()];
    cases_of(leaves, trees, features, (-60_i32..60).boxed(), sample.boxed())
}

/// The same with these thresholds and sample values.
fn cases_of(
    leaves: usize,
    trees: usize,
    features: usize,
    threshold: BoxedStrategy<i32>,
    sample: BoxedStrategy<i32>,
) -> impl Strategy<Value = Case> {
    (1..=features).prop_flat_map(move |features| {
        // With four fraction bits all values fit 16 bits, barely, or nearly do.
        let value = prop_oneof![
            20 => -1_000_i32..1_000,
            1 => Just(i32::from(i16::MAX)),
            1 => Just(i32::from(i16::MIN)),
        ];
        let split = (any::<u32>(), threshold.clone(), value);
        let of_tree = prop::collection::vec(split, 0..leaves);
        let trees = prop::collection::vec(of_tree, 0..=trees);
        let sample = prop::collection::vec(sample.clone(), features);
        let samples = prop::collection::vec(sample, 8);
        (trees, samples).prop_map(move |(trees, samples)| {
            let trees = trees.iter().map(|numbers| tree(features, numbers)).collect();
            (Forest::new(features, -1.25, trees).unwrap(), samples)
        })
    })
}

/// Numbers of all bit lengths, and those around a change of the leading bits.
fn not_negative() -> BoxedStrategy<i32> {
    let edge = (1_i32..4096, 0..19, -1_i32..=1).prop_map(|(x, shift, off)| (x << shift) + off);
    prop_oneof![0_i32..60, edge, 0_i32..=i32::MAX].boxed()
}

fn any_number() -> BoxedStrategy<i32> {
    prop_oneof![4 => not_negative(), 1 => any::<i32>(), 1 => Just(-1), 1 => Just(i32::MIN)].boxed()
}

/// Equal to the trees, to the bit.
fn check_exact((forest, samples): &Case) -> Result<(), TestCaseError> {
    let integer = IntegerForest::new(forest, 12).unwrap();
    for sample in samples {
        let wide: Vec<f64> = sample.iter().map(|&x| f64::from(x)).collect();
        let expected = forest.score(&wide);
        for simd in Simd::all() {
            prop_assert_eq!(integer.real(integer.score_with(simd, sample)), expected, "{}", simd);
        }
    }
    Ok(())
}

/// All instructions agree with walking: thresholds rounded or not, values short or long, and any
/// two forests together.
fn check_alike((forest, samples): &Case) -> Result<(), TestCaseError> {
    let [short, long] = [4, 8].map(|bits| IntegerForest::new(forest, bits).unwrap());
    let all = [short.rounded(), long.rounded(), short, long];
    for sample in samples {
        let expected = all.each_ref().map(|forest| forest.view().score(sample));
        for simd in Simd::all() {
            let found = all.each_ref().map(|forest| forest.score_with(simd, sample));
            prop_assert_eq!(found, expected, "{}", simd);
        }
        for (one, of_one) in all.iter().zip(expected) {
            for (other, of_other) in all.iter().zip(expected) {
                for simd in Simd::all() {
                    let found = one.both_scores_with(simd, other, sample);
                    prop_assert_eq!(found, [of_one, of_other], "{}", simd);
                }
            }
        }
    }
    Ok(())
}

#[test]
fn rounding_preserves_small_thresholds() {
    let thresholds = [0, 7, 4095, 4096, 1_000_000, i32::MAX - 1, -5];
    let numbers: Vec<_> = thresholds.iter().map(|&threshold| (0, threshold, 1)).collect();
    let forest = Forest::new(1, 0.0, vec![tree(1, &numbers)]).unwrap();
    let forest = IntegerForest::new(&forest, 8).unwrap().rounded();
    let mut found: Vec<i32> = forest.view().nodes().iter().map(|node| node.threshold).collect();
    found.sort_unstable();
    // The last significant bit of 4096 is worth 2, of a million 256.
    assert_eq!(found[..6], [-5, 0, 7, 4095, 4097, 1_000_191]);
    assert!(found[6..].iter().all(|&threshold| threshold == i32::MAX));
}

proptest! {
    #[test]
    fn small_trees_are_exact(case in cases(8, 140, 20)) {
        check_exact(&case)?;
        check_alike(&case)?;
    }

    #[test]
    fn large_trees_are_exact(case in cases(70, 8, 40)) {
        check_exact(&case)?;
        check_alike(&case)?;
    }

    #[test]
    fn many_features_are_exact(case in cases(16, 70, 300)) {
        check_exact(&case)?;
        check_alike(&case)?;
    }

    #[test]
    fn leading_bits_of_small_trees_agree(case in cases_of(8, 70, 70, not_negative(), any_number())) {
        check_alike(&case)?;
    }

    #[test]
    fn leading_bits_of_large_trees_agree(case in cases_of(64, 40, 64, not_negative(), any_number())) {
        check_alike(&case)?;
    }

    #[test]
    fn any_thresholds_agree(case in cases_of(16, 70, 130, any_number(), any_number())) {
        check_alike(&case)?;
    }
}
