//! Training gives the same model to the bit with any number of threads, and on every machine:
//! compared with recorded fingerprints.

use std::ops::ControlFlow;

use crate::dataset;
use trimtab_learn::dense::{
    self, Activation, Initialisation, Loss, Network, Optimiser, TrainingOptions,
};
use trimtab_learn::store::{Stored, Writer};
use trimtab_learn::{Rows, boost};

/// FNV-1a.
fn fingerprint(model: &impl Stored) -> u64 {
    let mut writer = Writer::default();
    writer.put("model", model);
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    writer.to_bytes().unwrap().iter().fold(0xcbf2_9ce4_8422_2325, step)
}

fn network(threads: usize, loss: Loss, optimiser: Optimiser, last: Activation) -> u64 {
    let (features, classes) = dataset::make(2_500, 4);
    let rows = Rows::new(&features, dataset::FEATURES).unwrap();
    let scaled: Vec<f32> = rows.iter().flatten().map(|&x| x as f32 / 50.0 - 1.0).collect();
    let layers = [(33, Activation::Relu), (9, Activation::Tanh), (2, last)];
    let mut network = Network::random(dataset::FEATURES, &layers, Initialisation::He, 9).unwrap();
    let training = TrainingOptions {
        loss,
        optimiser,
        epochs: 3,
        batch: 90,
        class_weights: vec![1.0, 1.5],
        threads,
        ..TrainingOptions::default()
    };
    let rows = Rows::new(&scaled, dataset::FEATURES).unwrap();
    let go_on = |_| ControlFlow::Continue(());
    dense::train(&mut network, rows, &classes, &training, go_on).unwrap();
    fingerprint(&network)
}

#[test]
fn networks_are_reproducible() {
    let adam = Optimiser::Adam { rate: 1e-3 };
    let sgd = Optimiser::Sgd { rate: 0.02, momentum: 0.9 };
    for threads in 1..=4 {
        let found = network(threads, Loss::CrossEntropy, adam, Activation::Softmax);
        assert_eq!(found, ADAM, "{threads} threads: {found:#x}");
        let found = network(threads, Loss::Hinge, sgd, Activation::Sigmoid);
        assert_eq!(found, SGD, "{threads} threads: {found:#x}");
    }
}

#[test]
fn boosted_trees_are_reproducible() {
    let (features, classes) = dataset::make(20_000, 5);
    let rows = Rows::new(&features, dataset::FEATURES).unwrap();
    let targets: Vec<f32> = classes.iter().map(|&class| f32::from(class)).collect();
    for threads in 1..=4 {
        let options = boost::BoostOptions {
            trees: 12,
            row_share: 0.7,
            feature_share: 0.6,
            threads,
            ..boost::BoostOptions::default()
        };
        let data = boost::Data::new(rows, &targets, &[], &options).unwrap();
        let model = boost::train(&data, None, &options, |_| ControlFlow::Continue(())).unwrap();
        let found = fingerprint(&model.forest);
        assert_eq!(found, BOOSTED, "{threads} threads: {found:#x}");
    }
}

const ADAM: u64 = 0x1121_e27b_4d04_94f3;
const SGD: u64 = 0x0888_82e5_438f_c4b2;
const BOOSTED: u64 = 0x2667_f839_13f0_5442;
