//! Drift: does a predictor still fit its drive?
//!
//! A drive fills up and ages, and its load changes. Each read that is sent is compared with its
//! own forecast, so that refusals do not distort the result. Slow reads come in bursts, so that
//! counts of single reads prove little: windows of reads are judged, and only several misfits in
//! a row are drift.
//!
//! A window misfits if its blocks do not [fit](crate::FitReference) those of the model's training.
//! Where a model has no such reference, calibrated probabilities must come true: of the reads
//! that it gives 20%, a fifth should be slow, within a fixed margin for bursts.

use serde::Serialize;
use trimtab_io::Nanos;

use crate::fit::{FIT_BLOCK, FIT_MEASURES, FitBlocks, FitReference, fit_measures};
use crate::model::{Model, PredictorKind};
use crate::predictor::Forecast;

/// Reads per window.
const WINDOW: u32 = 1000;
const BLOCKS: usize = WINDOW as usize / FIT_BLOCK;
/// Without a reference a window misfits if its mean probability and its share of slow reads differ by more than
/// this …
const GAP: f64 = 0.1;
/// … or if its mean squared error exceeds that of the constant forecast, the window's share
/// of slow reads, by more than this. (Right probabilities are below it.)
const EXCESS: f64 = 0.02;
/// Misfits in a row that are drift.
const MISFITS: u32 = 3;

/// Compares a predictor's forecasts with outcomes, in order of completion. It allocates nothing.
/// The default has no reference.
#[derive(Clone, Debug, Default)]
pub struct DriftDetector {
    reference: Option<FitReference>,
    block: FitBlocks,
    blocks: [[f64; FIT_MEASURES]; BLOCKS],
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
    /// A detector that compares with a model's training.
    #[must_use]
    pub fn new(reference: FitReference) -> Self {
        Self { reference: Some(reference), ..Self::default() }
    }

    /// The detector for a model; `None` for one with neither a reference of its training nor
    /// calibrated probabilities.
    #[must_use]
    pub fn of(model: &Model) -> Option<Self> {
        let is_calibrated = model.trained.kind() == PredictorKind::Trimtab;
        match model.card.training.fit {
            Some(reference) => Some(Self::new(reference)),
            None => is_calibrated.then(Self::default),
        }
    }

    /// A read completed that had been given this forecast. `threshold` is the longest latency
    /// that is not slow, ns. Returns whether the predictor should be trained again.
    pub fn completed(
        &mut self,
        forecast: &Forecast,
        latency: Nanos,
        slow: bool,
        threshold: f64,
    ) -> bool {
        if self.reference.is_some()
            && let Some(block) = self.block.add(fit_measures(forecast, latency, slow, threshold))
        {
            self.blocks[self.reads as usize / FIT_BLOCK] = block;
        }
        let probability = f64::from(forecast.probability);
        let outcome = f64::from(u8::from(slow));
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
        let misfit = match self.reference.as_ref().and_then(|then| then.test(&self.blocks)) {
            Some(test) => !test.fits(),
            None => gap > GAP || excess > EXCESS,
        };
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
    use crate::predictor::Verdict;

    /// Probabilities up to `most`, which come true as `truth` makes of them.
    fn feed(drift: &mut DriftDetector, reads: u32, most: f32, truth: impl Fn(f32) -> f32) {
        let mut state = 7_u64;
        let mut random = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 40) as f32 / (1 << 24) as f32
        };
        for _ in 0..reads {
            let probability = most * random();
            let forecast = Forecast { probability, ..Forecast::bare(Verdict::Fast) };
            let slow = random() < truth(probability);
            drift.completed(&forecast, Nanos(1000), slow, 1000.0);
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
