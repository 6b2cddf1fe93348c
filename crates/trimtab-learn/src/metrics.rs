//! Evaluation of a model, from its scores and the truth.
//!
//! A score is any number that rises with the probability of the positive class (here: slow).
//! Metrics that need a probability say so.

mod calibration;
mod confusion;
mod ranking;

pub use calibration::{Bin, brier, calibration, expected_calibration_error, log_loss};
pub use confusion::Confusion;
pub use ranking::{average_precision, roc_auc};
