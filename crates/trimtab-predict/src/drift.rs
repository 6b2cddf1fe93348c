//! Drift: does a predictor still fit its drive?
//!
//! A drive fills up and ages, and its load changes. A predictor with calibrated probabilities
//! can detect that: of the reads that it gives 20%, a fifth should be slow. Refusals do not
//! distort this, because each read that is sent is compared with its own probability.
//!
//! Slow reads come in bursts, so that counts of single reads prove little. A window misfits if
//! its error is larger than bursts explain, and only several misfits in a row are drift.

use serde::Serialize;

/// Reads per window.
const WINDOW: u32 = 1000;
/// A window misfits if its mean probability and its share of slow reads differ by more than
/// this …
const GAP: f64 = 0.1;
/// … or if its mean squared error exceeds that of the constant forecast, the window's share
/// of slow reads, by more than this. (Right probabilities are below it.)
const EXCESS: f64 = 0.02;
/// Misfits in a row that are drift.
const MISFITS: u32 = 3;

/// Compares a predictor's probabilities with outcomes, in order of completion. It allocates
/// nothing.
#[derive(Clone, Debug, Default)]
pub struct DriftDetector {
    reads: u32,
    slow: u32,
    probabilities: f64,
    squares: f64,
    in_a_row: u32,
    report: DriftReport,
}

/// The detector's result so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DriftReport {
    /// Reads per window.
    pub window: u32,
    /// Complete windows.
    pub windows: u32,
    /// Windows that misfit.
    pub misfits: u32,
    /// The number of reads after which drift was detected: the predictor should be trained
    /// again. `None` without drift.
    pub retrain_after: Option<u64>,
}

impl DriftDetector {
    /// A read completed that had been given this probability of being slow. Returns whether
    /// the predictor should be trained again.
    pub fn completed(&mut self, probability: f32, slow: bool) -> bool {
        let (probability, outcome) = (f64::from(probability), f64::from(u8::from(slow)));
        self.reads += 1;
        self.slow += u32::from(slow);
        self.probabilities += probability;
        self.squares += (probability - outcome) * (probability - outcome);
        if self.reads == WINDOW {
            self.close_window();
        }
        self.report.retrain_after.is_some()
    }

    fn close_window(&mut self) {
        let n = f64::from(WINDOW);
        let slow = f64::from(self.slow) / n;
        let gap = (self.probabilities / n - slow).abs();
        let excess = self.squares / n - slow * (1.0 - slow);
        let misfit = gap > GAP || excess > EXCESS;
        self.in_a_row = if misfit { self.in_a_row + 1 } else { 0 };
        self.report.windows += 1;
        self.report.misfits += u32::from(misfit);
        if self.in_a_row >= MISFITS && self.report.retrain_after.is_none() {
            self.report.retrain_after = Some(u64::from(self.report.windows) * u64::from(WINDOW));
        }
        (self.reads, self.slow, self.probabilities, self.squares) = (0, 0, 0.0, 0.0);
    }

    /// The result so far.
    #[must_use]
    pub const fn report(&self) -> DriftReport {
        DriftReport { window: WINDOW, ..self.report }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Probabilities up to `most`, which come true as `truth` makes of them.
    fn feed(drift: &mut DriftDetector, reads: u32, most: f32, truth: impl Fn(f32) -> f32) {
        let mut state = 7_u64;
        let mut random = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 40) as f32 / (1 << 24) as f32
        };
        for _ in 0..reads {
            let probability = most * random();
            drift.completed(probability, random() < truth(probability));
        }
    }

    #[test]
    fn calibrated_probabilities_never_misfit() {
        for most in [0.001, 0.1, 1.0] {
            let mut drift = DriftDetector::default();
            feed(&mut drift, 200_500, most, |p| p);
            let report = drift.report();
            assert_eq!((report.windows, report.misfits, report.retrain_after), (200, 0, None));
        }
        // Nothing slow, and nothing expected to be.
        let mut drift = DriftDetector::default();
        feed(&mut drift, 10_000, 0.01, |_| 0.0);
        assert_eq!(drift.report().misfits, 0);
    }

    #[test]
    fn change_is_detected_after_three_windows() {
        let changes: [fn(f32) -> f32; 3] = [
            // Slow more often; never; as often, but other reads.
            |p| p.sqrt(),
            |_| 0.0,
            |p| 1.0 - p,
        ];
        for change in changes {
            let mut drift = DriftDetector::default();
            feed(&mut drift, 50_000, 1.0, |p| p);
            assert_eq!(drift.report().misfits, 0);
            feed(&mut drift, 10_000, 1.0, change);
            assert_eq!(drift.report().retrain_after, Some(53_000));
        }
    }

    #[test]
    fn two_misfits_in_a_row_are_no_drift() {
        let mut drift = DriftDetector::default();
        for _ in 0..20 {
            feed(&mut drift, 8000, 0.2, |p| p);
            feed(&mut drift, 2000, 0.2, |_| 0.5);
        }
        let report = drift.report();
        assert_eq!((report.misfits, report.retrain_after), (40, None));
    }
}
