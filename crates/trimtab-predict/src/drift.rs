//! Does a predictor still fit its drive?
//!
//! A drive fills up, ages, gets other work or another neighbour. A predictor
//! whose probabilities are calibrated notices by itself: of reads that it gives
//! 20%, a fifth should be slow. Whatever is refused does not disturb this, as
//! those that are sent are compared with their own probabilities.
//!
//! Slow reads come in heaps, so that counts of single reads prove little; a
//! window misfits if it is wrong by more than heaps explain, and only several
//! misfits in a row are drift.

use serde::Serialize;

/// Reads of a window.
const WINDOW: u32 = 1000;
/// A window misfits if the mean probability and the share of slow reads are
/// farther apart than this…
const GAP: f64 = 0.1;
/// … or if the mean squared error is by so much above that of one who always
/// gives the window's share of slow reads. (It is below if the probabilities are
/// right: by what they tell apart.)
const EXCESS: f64 = 0.02;
/// So many misfits in a row are drift.
const MISFITS: u32 = 3;

/// Watches how a predictor's probabilities come true. Told of answers as they
/// come, it knows nothing of the future; it allocates nothing.
#[derive(Clone, Debug, Default)]
pub struct Drift {
    reads: u32,
    slow: u32,
    probabilities: f64,
    squares: f64,
    in_a_row: u32,
    found: Found,
}

/// What came of watching.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Found {
    /// Reads of a window.
    pub window: u32,
    /// Windows that were full.
    pub windows: u32,
    /// How many of them did not fit.
    pub misfits: u32,
    /// After how many answers it was clear that the predictor should be trained
    /// again, if it was.
    pub retrain_after: Option<u64>,
}

impl Drift {
    /// A read was answered that had been given this probability of being slow.
    /// Says whether the predictor should be trained again.
    pub fn answered(&mut self, probability: f32, slow: bool) -> bool {
        let (probability, outcome) = (f64::from(probability), f64::from(u8::from(slow)));
        self.reads += 1;
        self.slow += u32::from(slow);
        self.probabilities += probability;
        self.squares += (probability - outcome) * (probability - outcome);
        if self.reads == WINDOW {
            self.judge();
        }
        self.found.retrain_after.is_some()
    }

    fn judge(&mut self) {
        let n = f64::from(WINDOW);
        let slow = f64::from(self.slow) / n;
        let gap = (self.probabilities / n - slow).abs();
        let excess = self.squares / n - slow * (1.0 - slow);
        let misfit = gap > GAP || excess > EXCESS;
        self.in_a_row = if misfit { self.in_a_row + 1 } else { 0 };
        self.found.windows += 1;
        self.found.misfits += u32::from(misfit);
        if self.in_a_row >= MISFITS && self.found.retrain_after.is_none() {
            self.found.retrain_after = Some(u64::from(self.found.windows) * u64::from(WINDOW));
        }
        (self.reads, self.slow, self.probabilities, self.squares) = (0, 0, 0.0, 0.0);
    }

    /// What came of watching until now.
    #[must_use]
    pub const fn found(&self) -> Found {
        Found { window: WINDOW, ..self.found }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt as _, SeedableRng as _};
    use rand_pcg::Pcg64;

    /// Probabilities up to `most`, that come true as `truth` makes of them.
    fn watch(drift: &mut Drift, reads: u32, most: f32, truth: impl Fn(f32) -> f32) {
        let mut random = Pcg64::seed_from_u64(7);
        for _ in 0..reads {
            let probability = random.random_range(0.0..most);
            drift.answered(probability, random.random_range(0.0..1.0) < truth(probability));
        }
    }

    #[test]
    fn what_comes_true_fits() {
        for most in [0.001, 0.1, 1.0] {
            let mut drift = Drift::default();
            watch(&mut drift, 200_500, most, |p| p);
            let found = drift.found();
            assert_eq!((found.windows, found.misfits, found.retrain_after), (200, 0, None));
        }
        // Nothing slow, and nothing expected to be.
        let mut drift = Drift::default();
        watch(&mut drift, 10_000, 0.01, |_| 0.0);
        assert_eq!(drift.found().misfits, 0);
    }

    #[test]
    fn a_change_is_noticed_after_three_windows() {
        let changes: [fn(f32) -> f32; 3] = [
            // Slow more often; never; as often, but others.
            |p| p.sqrt(),
            |_| 0.0,
            |p| 1.0 - p,
        ];
        for change in changes {
            let mut drift = Drift::default();
            watch(&mut drift, 50_000, 1.0, |p| p);
            assert_eq!(drift.found().misfits, 0);
            watch(&mut drift, 10_000, 1.0, change);
            assert_eq!(drift.found().retrain_after, Some(53_000));
        }
    }

    #[test]
    fn a_heap_is_no_drift() {
        let mut drift = Drift::default();
        for _ in 0..20 {
            watch(&mut drift, 8000, 0.2, |p| p);
            watch(&mut drift, 2000, 0.2, |_| 0.5);
        }
        let found = drift.found();
        assert_eq!((found.misfits, found.retrain_after), (40, None));
    }
}
