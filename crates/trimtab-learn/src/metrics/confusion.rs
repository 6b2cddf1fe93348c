//! The confusion matrix.

/// Counts by decision and truth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Confusion {
    /// True positives.
    pub true_positives: u64,
    /// False positives.
    pub false_positives: u64,
    /// True negatives.
    pub true_negatives: u64,
    /// False negatives.
    pub false_negatives: u64,
}

impl Confusion {
    /// Decides positive for scores of at least `threshold`.
    ///
    /// # Panics
    /// If there are not as many scores as truths.
    #[must_use]
    pub fn at(threshold: f64, scores: &[f64], truth: &[bool]) -> Self {
        assert_eq!(scores.len(), truth.len(), "as many scores as truths");
        let mut all = Self::default();
        for (score, &truth) in scores.iter().zip(truth) {
            all.add(*score >= threshold, truth);
        }
        all
    }

    /// Counts one decision.
    pub const fn add(&mut self, decided: bool, truth: bool) {
        match (decided, truth) {
            (true, true) => self.true_positives += 1,
            (true, false) => self.false_positives += 1,
            (false, false) => self.true_negatives += 1,
            (false, true) => self.false_negatives += 1,
        }
    }

    /// Number of decisions.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.true_positives + self.false_positives + self.true_negatives + self.false_negatives
    }

    /// The share of correct decisions; `None` without decisions.
    #[must_use]
    pub fn accuracy(&self) -> Option<f64> {
        share(self.true_positives + self.true_negatives, self.count())
    }

    /// The share of positive decisions that are correct; `None` without any.
    #[must_use]
    pub fn precision(&self) -> Option<f64> {
        share(self.true_positives, self.true_positives + self.false_positives)
    }

    /// The share of positives that are found; `None` without any.
    #[must_use]
    pub fn recall(&self) -> Option<f64> {
        share(self.true_positives, self.true_positives + self.false_negatives)
    }
}

fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}
