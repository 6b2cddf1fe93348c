//! Accuracy and AUC are within half a point of scikit-learn's on the same samples. Its figures are
//! from tests/reference/accuracy.py.
#![cfg(feature = "train")]

use std::ops::ControlFlow;

use crate::dataset;
use trimtab_learn::dense::{Activation, Network, TrainingOptions};
use trimtab_learn::forest::IntegerForest;
use trimtab_learn::metrics::{Confusion, average_precision, roc_auc};
use trimtab_learn::standardise::Standardiser;
use trimtab_learn::{Rows, Simd, boost, dense};

/// scikit-learn 1.9.1: accuracy, AUC, average precision.
const BOOSTED: [f64; 3] = [0.8862, 0.9648, 0.9668];
const NETWORK: [f64; 3] = [0.8721, 0.9535, 0.9563];

fn compare(what: &str, scores: &[f64], threshold: f64, classes: &[u8], reference: [f64; 3]) {
    let truth: Vec<bool> = classes.iter().map(|class| *class == 1).collect();
    let found = [
        Confusion::at(threshold, scores, &truth).accuracy().unwrap(),
        roc_auc(scores, &truth).unwrap(),
        average_precision(scores, &truth).unwrap(),
    ];
    for (found, reference) in found.iter().zip(reference) {
        assert!((found - reference).abs() < 0.005, "{what}: {found:?} against {reference:?}");
    }
}

#[test]
fn boosted_trees_match_scikit_learn() {
    let (train, train_classes) = dataset::make(30_000, 1);
    let (test, test_classes) = dataset::make(30_000, 2);
    let options = boost::BoostOptions::default();
    let targets: Vec<f32> = train_classes.iter().map(|&class| f32::from(class)).collect();
    let rows = Rows::new(&train, dataset::FEATURES).unwrap();
    let data = boost::Data::new(rows, &targets, &[], &options).unwrap();
    let model = boost::train(&data, None, &options, |_| ControlFlow::Continue(())).unwrap();

    let forest = IntegerForest::new(&model.forest, 16).unwrap();
    let rows = Rows::new(&test, dataset::FEATURES).unwrap();
    let mut scores = vec![0; rows.len()];
    forest.scores(Simd::best(), rows, &mut scores);
    for (row, &score) in rows.iter().zip(&scores) {
        let row: Vec<f64> = row.iter().map(|&x| f64::from(x)).collect();
        assert!((model.forest.score(&row) - forest.real(score)).abs() < 101.0 / 131_072.0);
    }
    let scores: Vec<f64> = scores.iter().map(|&score| forest.real(score)).collect();
    compare("trees", &scores, 0.0, &test_classes, BOOSTED);
}

#[test]
fn network_matches_scikit_learn() {
    let (train, train_classes) = dataset::make(30_000, 1);
    let (test, test_classes) = dataset::make(30_000, 2);
    let wide = |all: &[i32]| -> Vec<f32> { all.iter().map(|&x| x as f32).collect() };
    let (train, test) = (wide(&train), wide(&test));
    let rows = Rows::new(&train, dataset::FEATURES).unwrap();
    let scale = Standardiser::fit(rows).unwrap();
    let train = scale.apply_to_all(rows);
    let test = scale.apply_to_all(Rows::new(&test, dataset::FEATURES).unwrap());

    let layers = [(64, Activation::Relu), (2, Activation::Softmax)];
    let mut network =
        Network::random(dataset::FEATURES, &layers, dense::Initialisation::Glorot, 1).unwrap();
    let rows = Rows::new(&train, dataset::FEATURES).unwrap();
    let training = TrainingOptions::default();
    dense::train(&mut network, rows, &train_classes, &training, |_| ControlFlow::Continue(()))
        .unwrap();

    let rows = Rows::new(&test, dataset::FEATURES).unwrap();
    let all = network.forward_all(rows);
    let mut scratch = network.scratch();
    assert_eq!(network.forward(rows.row(5), &mut scratch), &all[10..12]);
    let scores: Vec<f64> = all.chunks_exact(2).map(|output| f64::from(output[1])).collect();
    compare("network", &scores, 0.5, &test_classes, NETWORK);
}
