//! Loss functions of boosting.

use super::data::Data;
use crate::Error;

/// The loss function. Scores are the sum of the trees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Objective {
    /// The log loss of a probability whose log-odds are the score. Targets are probabilities,
    /// mostly 0 and 1.
    Logistic,
    /// Half the squared difference of score and target.
    Squared,
}

impl Objective {
    /// The best constant score.
    pub(super) fn base(self, data: &Data) -> Result<f64, Error> {
        let (mut sum, mut weights) = (0.0, 0.0);
        for row in 0..data.len() {
            sum += data.weight(row) * f64::from(data.targets[row]);
            weights += data.weight(row);
        }
        let mean = sum / weights;
        match self {
            Self::Squared if mean.is_finite() => Ok(mean),
            Self::Logistic if mean > 0.0 && mean < 1.0 => Ok(libm::log(mean / (1.0 - mean))),
            _ => Err(Error::Value {
                what: "targets have a mean strictly between 0 and 1",
                found: mean,
            }),
        }
    }

    /// First and second derivative of the loss, and the loss.
    pub(super) fn derive(self, score: f64, target: f64) -> (f64, f64, f64) {
        match self {
            Self::Logistic => {
                // Never overflows: the exponent is not positive.
                let e = libm::exp(-score.abs());
                let p = if score >= 0.0 { 1.0 / (1.0 + e) } else { e / (1.0 + e) };
                let loss = libm::log1p(e) + score.max(0.0) - score * target;
                (p - target, p * (1.0 - p), loss)
            }
            Self::Squared => {
                let distance = score - target;
                (distance, 1.0, 0.5 * distance * distance)
            }
        }
    }

    pub(super) fn mean_loss(self, data: &Data, scores: &[f64]) -> f64 {
        let (mut sum, mut weights) = (0.0, 0.0);
        for (row, &score) in scores.iter().enumerate() {
            let (_, _, loss) = self.derive(score, f64::from(data.targets[row]));
            sum += data.weight(row) * loss;
            weights += data.weight(row);
        }
        sum / weights
    }
}
