//! Growing one forest.

use std::ops::ControlFlow;

use trimtab_learn::Rows;
use trimtab_learn::boost::{self, Objective};
use trimtab_learn::forest::IntegerForest;
use trimtab_predict::FEATURES;

use crate::options::TrainingOptions;

/// Fraction bits of a score. A constant, because the scores of all parts' forests are looked up
/// in one table. Leaf values are below 8, so they fit 16 bits, which are faster.
pub(crate) const FRACTION_BITS: u32 = 12;

/// Grows a forest on these features, targets and weights; without weights all are 1.
pub(crate) fn grow(
    features: &[[i32; FEATURES]],
    targets: &[f32],
    weights: &[f32],
    objective: Objective,
    options: &TrainingOptions,
) -> Result<IntegerForest, trimtab_learn::Error> {
    let learning_rate = match objective {
        Objective::Logistic => 0.1,
        Objective::Squared => 0.2,
    };
    let options = boost::BoostOptions {
        objective,
        trees: options.trees,
        leaves: options.leaves,
        learning_rate,
        // Neighbours in time are alike, so a leaf needs more samples than its variance suggests.
        min_samples: (targets.len() / 200).max(20),
        l2: 5.0,
        row_share: 0.5,
        feature_share: 0.5,
        seed: options.seed,
        ..boost::BoostOptions::default()
    };
    let rows = Rows::new(features.as_flattened(), FEATURES)?;
    let data = boost::Data::new(rows, targets, weights, &options)?;
    let model = boost::train(&data, None, &options, |_| ControlFlow::Continue(()))?;
    Ok(IntegerForest::new(&model.forest, FRACTION_BITS)?.rounded())
}
