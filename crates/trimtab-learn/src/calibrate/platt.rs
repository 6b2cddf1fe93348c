//! Platt scaling.

use crate::Error;
use crate::error::same;

/// Platt scaling: the probability is 1 / (1 + exp(−(slope × score + offset))).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Platt {
    /// Rate of increase with the score.
    pub slope: f64,
    /// The log-odds at a score of 0.
    pub offset: f64,
}

impl Platt {
    /// Fits slope and offset by maximum likelihood, with Platt's targets, which keep a distance
    /// from 0 and 1 that depends on the number of samples, and Newton's method with step halving
    /// (Lin, Lin and Weng 2007).
    ///
    /// # Errors
    /// If there are not both positives and negatives, or the lengths differ.
    pub fn fit(scores: &[f64], truth: &[bool]) -> Result<Self, Error> {
        same("truths", scores.len(), truth.len())?;
        let positives = truth.iter().filter(|truth| **truth).count() as f64;
        let negatives = truth.len() as f64 - positives;
        if positives == 0.0 || negatives == 0.0 {
            return Err(Error::Value {
                what: "there are both positives and negatives",
                found: positives,
            });
        }
        let high = (positives + 1.0) / (positives + 2.0);
        let low = 1.0 / (negatives + 2.0);
        let samples = || scores.iter().zip(truth).map(|(&s, &t)| (s, if t { high } else { low }));

        let mut at = Self { slope: 0.0, offset: libm::log((positives + 1.0) / (negatives + 1.0)) };
        let mut loss = at.loss(samples());
        for _ in 0..100 {
            // A ridge keeps the Hessian invertible.
            let (mut ss, mut so, mut oo) = (1e-12, 0.0, 1e-12);
            let (mut gs, mut go) = (0.0, 0.0);
            for (score, target) in samples() {
                let p = at.probability(score);
                let (d, w) = (p - target, p * (1.0 - p));
                (gs, go) = (gs + d * score, go + d);
                (ss, so, oo) = (ss + w * score * score, so + w * score, oo + w);
            }
            let determinant = ss * oo - so * so;
            let step = ((oo * gs - so * go) / determinant, (ss * go - so * gs) / determinant);
            let mut size = 1.0;
            let next = loop {
                let next =
                    Self { slope: at.slope - size * step.0, offset: at.offset - size * step.1 };
                let next_loss = next.loss(samples());
                if next_loss < loss {
                    loss = next_loss;
                    break next;
                }
                size /= 2.0;
                if size < 1e-10 {
                    return Ok(at);
                }
            };
            at = next;
        }
        Ok(at)
    }

    /// The probability at a score.
    #[must_use]
    pub fn probability(self, score: f64) -> f64 {
        let odds = self.slope * score + self.offset;
        let e = libm::exp(-odds.abs());
        if odds >= 0.0 { 1.0 / (1.0 + e) } else { e / (1.0 + e) }
    }

    fn loss(self, samples: impl Iterator<Item = (f64, f64)>) -> f64 {
        samples
            .map(|(score, target)| {
                let odds = self.slope * score + self.offset;
                libm::log1p(libm::exp(-odds.abs())) + odds.max(0.0) - odds * target
            })
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use std::vec::Vec;

    #[test]
    fn platt_recovers_the_sigmoid() {
        let mut random = Random::new(3);
        let scores: Vec<f64> = (0..20_000).map(|_| f64::from(random.symmetric()) * 4.0).collect();
        let made_by = Platt { slope: 1.5, offset: -0.7 };
        let truth: Vec<bool> = scores
            .iter()
            .map(|&s| (f64::from(random.symmetric()) + 1.0) / 2.0 < made_by.probability(s))
            .collect();
        let found = Platt::fit(&scores, &truth).unwrap();
        assert!((found.slope - 1.5).abs() < 0.06 && (found.offset + 0.7).abs() < 0.06, "{found:?}");
        assert!(Platt::fit(&[1.0], &[true]).is_err());
    }
}
