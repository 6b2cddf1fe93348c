//! Gradient boosting of decision trees.
//!
//! Every round fits a small tree to the gradient of the loss (Friedman 2001), with the second
//! derivative as weight (Chen and Guestrin, *XGBoost*, KDD'16, equations 6 and 7). As in LightGBM
//! (Ke et al., NIPS'17) features are first quantised into at most 255 bins, so that the best split
//! of a leaf is found from a histogram of each feature; the leaf with the largest gain is split
//! next; and only the smaller of two siblings is counted, the other is the difference.
//!
//! Gradients are summed as integers. So sums do not depend on their order, differences are exact,
//! and the same data, options and seed give the same trees on every machine and with any number of
//! threads.
//!
//! ```
//! use std::ops::ControlFlow;
//! use trimtab_learn::{Rows, boost, forest::IntegerForest};
//!
//! // Slow is what is large, or comes while five or more are waiting.
//! let samples: Vec<[i32; 2]> = (0..1000).map(|i| [i % 64, i / 64 % 10]).collect();
//! let slow = |&[size, waiting]: &[i32; 2]| size > 48 || waiting >= 5;
//! let targets: Vec<f32> = samples.iter().map(|s| if slow(s) { 1.0 } else { 0.0 }).collect();
//!
//! let rows = Rows::new(samples.as_flattened(), 2)?;
//! let options = boost::BoostOptions { trees: 20, leaves: 4, ..Default::default() };
//! let data = boost::Data::new(rows, &targets, &[], &options)?;
//! let model = boost::train(&data, None, &options, |_| ControlFlow::Continue(()))?;
//!
//! let forest = IntegerForest::new(&model.forest, 16)?;
//! assert!(forest.score(&[60, 0]) > 0);
//! assert!(forest.score(&[8, 2]) < 0);
//! # Ok::<(), trimtab_learn::Error>(())
//! ```

mod bins;
mod data;
mod grow;
mod histogram;
mod objective;

use core::ops::ControlFlow;
use std::vec::Vec;

pub use data::Data;
pub use objective::Objective;

use crate::error::same;
use crate::random::Random;
use crate::tree::Forest;
use crate::{Error, parallel};
use grow::Grower;

/// Options of boosting.
#[derive(Clone, Debug, PartialEq)]
pub struct BoostOptions {
    /// The loss.
    pub objective: Objective,
    /// Maximum number of trees.
    pub trees: usize,
    /// Maximum number of leaves of a tree, at least 2.
    pub leaves: usize,
    /// Maximum depth of a tree; 0 for no limit.
    pub depth: usize,
    /// The share of a tree's correction that is applied, above 0 up to 1.
    pub learning_rate: f64,
    /// Minimum number of samples in a leaf.
    pub min_samples: usize,
    /// Minimum sum of second derivatives in a leaf.
    pub min_hessian: f64,
    /// Minimum gain of a split.
    pub min_gain: f64,
    /// L2 penalty: added to the sum of second derivatives, shrinks leaf values.
    pub l2: f64,
    /// The share of samples drawn for a tree, above 0 up to 1.
    pub row_share: f64,
    /// The share of features drawn for a tree, above 0 up to 1.
    pub feature_share: f64,
    /// Maximum number of bins of a feature, 2 to 255.
    pub bins: usize,
    /// Early stopping: stops when the validation loss has not improved for this many trees, and
    /// keeps the trees up to the best; 0 for never.
    pub patience: usize,
    /// Seed of the random numbers.
    pub seed: u64,
    /// Maximum number of threads. The result does not depend on it.
    pub threads: usize,
}

impl Default for BoostOptions {
    fn default() -> Self {
        Self {
            objective: Objective::Logistic,
            trees: 100,
            leaves: 15,
            depth: 0,
            learning_rate: 0.1,
            min_samples: 20,
            min_hessian: 1e-3,
            min_gain: 0.0,
            l2: 1.0,
            row_share: 1.0,
            feature_share: 1.0,
            bins: 255,
            patience: 0,
            seed: 1,
            threads: 2,
        }
    }
}

impl BoostOptions {
    fn check(&self) -> Result<(), Error> {
        let value =
            |fits, what, found| if fits { Ok(()) } else { Err(Error::Value { what, found }) };
        let share = |what, found| value(found > 0.0 && found <= 1.0, what, found);
        value(self.leaves >= 2, "a tree has at least 2 leaves", self.leaves as f64)?;
        value((2..=255).contains(&self.bins), "bins are 2 to 255", self.bins as f64)?;
        value(self.l2 >= 0.0, "the L2 penalty is not negative", self.l2)?;
        share("the learning rate is above 0 up to 1", self.learning_rate)?;
        share("the share of samples is above 0 up to 1", self.row_share)?;
        share("the share of features is above 0 up to 1", self.feature_share)
    }
}

/// Progress of training.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Number of trees.
    pub trees: usize,
    /// Mean loss on the training data, before the newest tree.
    pub loss: f64,
    /// Mean loss on the validation data, if there are any, with all trees.
    pub validation: Option<f64>,
}

/// The result of boosting.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// The trees.
    pub forest: Forest,
    /// Total gain of each feature's splits.
    pub importance: Vec<f64>,
    /// The progress after each tree, including dropped ones.
    pub history: Vec<Progress>,
}

/// Boosts trees on `data`. Calls `progress` after each tree, which may stop it.
///
/// # Errors
/// If an option is out of range; if all targets are the same class; if the validation data were not
/// made with [`Data::alike`] from `data`.
pub fn train(
    data: &Data,
    validation: Option<&Data>,
    options: &BoostOptions,
    mut progress: impl FnMut(Progress) -> ControlFlow<()>,
) -> Result<Model, Error> {
    options.check()?;
    if let Some(validation) = validation {
        same("features of the validation data", data.features(), validation.features())?;
    }
    let objective = options.objective;
    let base = objective.base(data)?;
    let mut random = Random::new(options.seed);
    let mut scores = std::vec![base; data.len()];
    let mut validation_scores = std::vec![base; validation.map_or(0, Data::len)];
    let mut grower = Grower::new(data, options);
    let (mut trees, mut importance) = (Vec::new(), std::vec![0.0; data.features()]);
    let mut history: Vec<Progress> = Vec::new();
    let mut best = (f64::INFINITY, 0);

    while trees.len() < options.trees {
        let loss = grower.set_gradients(objective, &scores);
        let Some(grown) = grower.grow(&mut random) else { break };
        grown.add_to(&mut scores, data, options.threads);
        for &(feature, gain) in &grown.gains {
            importance[feature] += gain;
        }
        let validation = validation.map(|validation| {
            grown.add_to(&mut validation_scores, validation, options.threads);
            objective.mean_loss(validation, &validation_scores)
        });
        trees.push(grown.tree(data)?);
        let now = Progress { trees: trees.len(), loss, validation };
        history.push(now);
        let watched = validation.unwrap_or(f64::NEG_INFINITY);
        if watched < best.0 || validation.is_none() {
            best = (watched, trees.len());
        }
        let stalled = options.patience > 0 && trees.len() - best.1 >= options.patience;
        if progress(now).is_break() || stalled {
            break;
        }
    }
    if options.patience > 0 {
        trees.truncate(best.1);
    }
    Ok(Model { forest: Forest::new(data.features(), base, trees)?, importance, history })
}
