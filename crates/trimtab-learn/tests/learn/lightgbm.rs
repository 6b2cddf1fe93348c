//! Imported models score as in LightGBM, within 10⁻⁹. tests/reference/lightgbm_model.py generates
//! the files.

use proptest::prelude::*;
use trimtab_learn::Error;
use trimtab_learn::forest::IntegerForest;
use trimtab_learn::lightgbm;
use trimtab_learn::tree::Missing;

const MODEL: &str = include_str!("../../golden/lightgbm.txt");
const SCORES: &str = include_str!("../../golden/lightgbm-scores.txt");
const ZERO_MODEL: &str = include_str!("../../golden/lightgbm-zero.txt");
const ZERO_SCORES: &str = include_str!("../../golden/lightgbm-zero-scores.txt");

/// The scores, with their samples.
fn cases(text: &str) -> Vec<(f64, Vec<f64>)> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let mut numbers = line.split(' ').map(|number| number.parse().unwrap());
            (numbers.next().unwrap(), numbers.collect())
        })
        .collect()
}

#[test]
fn scores_match_lightgbm() {
    for (text, scores) in [(MODEL, SCORES), (ZERO_MODEL, ZERO_SCORES)] {
        let model = lightgbm::read(text).unwrap();
        assert_eq!(model.objective, "binary sigmoid:1");
        assert_eq!(model.feature_names[9], "Column_9");
        let cases = cases(scores);
        assert!(cases.len() >= 40);
        for (score, sample) in cases {
            let found = model.forest.score(&sample);
            assert!((found - score).abs() < 1e-9, "{found} against {score}: {sample:?}");
        }
    }
}

#[test]
fn integer_forest_matches_without_missing_values() {
    let forest = lightgbm::read(MODEL).unwrap().forest;
    assert!(forest.trees().iter().flat_map(|t| t.splits()).any(|s| s.missing == Missing::Nan));
    let integer = IntegerForest::new(&forest, 16).unwrap();
    for (score, sample) in cases(SCORES).iter().filter(|(_, s)| s.iter().all(|x| !x.is_nan())) {
        let sample: Vec<i32> = sample.iter().map(|&x| x as i32).collect();
        let found = integer.real(integer.score(&sample));
        assert!((found - score).abs() < 13.0 / 131_072.0, "{found} against {score}");
    }
    // Zero goes to the wrong side of some threshold.
    let forest = lightgbm::read(ZERO_MODEL).unwrap().forest;
    assert!(matches!(IntegerForest::new(&forest, 16), Err(Error::Tree { .. })));
}

#[test]
fn unsupported_models_are_refused_with_their_line() {
    let error = |from: &str, to: &str| {
        assert!(MODEL.contains(from), "{from}");
        lightgbm::read(&MODEL.replacen(from, to, 1)).unwrap_err().to_string()
    };
    let cases = [
        ("tree\n", "tee\n", "line 1: is not a LightGBM model"),
        ("num_class=1", "num_class=3", "line 3: only models with one output"),
        ("\n\nTree=0", "\naverage_output\n\nTree=0", "line 11: averaged"),
        ("num_cat=0", "num_cat=1", "line 14: categorical"),
        ("is_linear=0", "is_linear=1", "linear leaves"),
        ("num_leaves=8", "num_leaves=9", "8 values where 9 are expected"),
        ("num_leaves=8", "num_leaves=0", "line 13: a tree has at least one leaf"),
        ("split_feature=", "split_feature=1 ", "line 15: 8 values where 7 are expected"),
        ("decision_type=", "decision_type=x", "is not a number"),
        ("left_child=1 ", "left_child=0 ", "line 12: node 0: leads to"),
        ("leaf_value=", "leaf_values=", "line 12: the tree has no leaf_value"),
        ("max_feature_idx=9", "max_feature_idx=1", "feature 2 of 2"),
        ("max_feature_idx=9", "max_feature_idx=99999999999", "more than 65536 features"),
        ("max_feature_idx=9", "", "max_feature_idx is missing"),
        ("end of trees", "", "is missing after it"),
    ];
    for (from, to, what) in cases {
        let message = error(from, to);
        assert!(message.contains(what), "{message:?} instead of {what:?}");
    }
    assert!(lightgbm::read("").unwrap_err().to_string().starts_with("line 1: "));
}

proptest! {
    #[test]
    fn damage_never_panics(at in 0_usize..12_000, byte in 10_u8..127) {
        let mut text = MODEL.as_bytes().to_vec();
        let at = at % text.len();
        text[at] = byte;
        let _ = lightgbm::read(std::str::from_utf8(&text).unwrap());
    }
}
