//! Calibration metrics.

use alloc::vec;
use alloc::vec::Vec;

/// Predicted and actual probability within a range.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bin {
    /// Number of predictions.
    pub count: u64,
    /// Their mean probability.
    pub predicted: f64,
    /// The share of positives among them.
    pub observed: f64,
}

/// Predictions in bins of equal width from 0 to 1, without empty bins.
///
/// # Panics
/// If there are not as many probabilities as truths.
#[must_use]
pub fn calibration(probabilities: &[f64], truth: &[bool], bins: usize) -> Vec<Bin> {
    assert_eq!(probabilities.len(), truth.len(), "as many probabilities as truths");
    let mut sums = vec![Bin::default(); bins];
    for (&p, &truth) in probabilities.iter().zip(truth) {
        let bin = &mut sums[((p * bins as f64) as usize).min(bins - 1)];
        bin.count += 1;
        bin.predicted += p;
        bin.observed += f64::from(u8::from(truth));
    }
    sums.retain(|bin| bin.count > 0);
    for bin in &mut sums {
        bin.predicted /= bin.count as f64;
        bin.observed /= bin.count as f64;
    }
    sums
}

/// The mean distance between predicted and actual probability, weighted by the bins' counts; 0 is
/// perfect. `None` without predictions.
#[must_use]
pub fn expected_calibration_error(bins: &[Bin]) -> Option<f64> {
    let count: u64 = bins.iter().map(|bin| bin.count).sum();
    let distance: f64 =
        bins.iter().map(|bin| bin.count as f64 * (bin.predicted - bin.observed).abs()).sum();
    (count > 0).then(|| distance / count as f64)
}

/// The mean squared error of probabilities (Brier 1950); `None` without predictions.
///
/// # Panics
/// If there are not as many probabilities as truths.
#[must_use]
pub fn brier(probabilities: &[f64], truth: &[bool]) -> Option<f64> {
    mean(probabilities, truth, |p, truth| {
        let error = p - f64::from(u8::from(truth));
        error * error
    })
}

/// The mean negative logarithm of the probability of the outcome, in nats; probabilities are
/// clamped to 10⁻¹⁵ from 0 and 1. `None` without predictions.
///
/// # Panics
/// If there are not as many probabilities as truths.
#[must_use]
pub fn log_loss(probabilities: &[f64], truth: &[bool]) -> Option<f64> {
    mean(probabilities, truth, |p, truth| {
        let of_truth = if truth { p } else { 1.0 - p };
        -libm::log(of_truth.clamp(1e-15, 1.0 - 1e-15))
    })
}

fn mean(probabilities: &[f64], truth: &[bool], loss: impl Fn(f64, bool) -> f64) -> Option<f64> {
    assert_eq!(probabilities.len(), truth.len(), "as many probabilities as truths");
    let sum: f64 = probabilities.iter().zip(truth).map(|(&p, &truth)| loss(p, truth)).sum();
    (!truth.is_empty()).then(|| sum / truth.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Calculated by hand.
    #[test]
    fn metrics_of_small_cases() {
        let (p, truth) = ([0.1, 0.15, 0.8, 1.0], [false, true, true, true]);
        let bins = calibration(&p, &truth, 2);
        assert_eq!(bins.len(), 2);
        assert_eq!((bins[0].count, bins[0].observed), (2, 0.5));
        assert_eq!((bins[1].count, bins[1].predicted), (2, 0.9));
        let error = expected_calibration_error(&bins).unwrap();
        assert!((error - (0.375 + 0.1) / 2.0).abs() < 1e-15);
        assert!((brier(&p, &truth).unwrap() - 0.7725 / 4.0).abs() < 1e-15);
        assert!(
            (log_loss(&[0.5, 0.25], &[true, false]).unwrap() - 0.490_414_626_505_863).abs() < 1e-12
        );
        assert_eq!((brier(&[], &[]), log_loss(&[], &[])), (None, None));
    }
}
