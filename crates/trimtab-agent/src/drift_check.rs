//! Whether a monitored drive's model still fits. Checked periodically in the background,
//! because computing the inflection point takes about half a second.

use std::sync::Arc;
use std::time::{Duration, Instant};

use trimtab_io::Nanos;
use trimtab_record::monitor::{Background, DriveFigures, unix_now};
use trimtab_train::{Error, InflectionComparison};

/// The fewest reads since the model was set: percentiles of fewer are noise.
const LEAST_READS: usize = 10_000;

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Checked {
    /// The inflection point then and now.
    pub comparison: InflectionComparison,
    /// When it was checked, since the Unix epoch.
    pub at: Nanos,
}

/// Compares a drive's latest reads with those that its model was trained on.
#[derive(Debug)]
pub struct DriftCheck {
    every: Duration,
    due: Instant,
    running: Option<Background<Result<InflectionComparison, Error>>>,
    last: Option<Checked>,
    far_since: Option<Nanos>,
}

impl DriftCheck {
    /// Checks at most once in this time.
    #[must_use]
    pub fn new(every: Duration) -> Self {
        Self { every, due: Instant::now(), running: None, last: None, far_since: None }
    }

    /// Takes the result of a check that has ended, and starts one that is due. It does not block.
    pub fn turn(&mut self, drive: &DriveFigures) {
        let ended = self.running.take_if(|work| work.is_finished());
        if let Some(Ok(comparison)) = ended.and_then(Background::finish) {
            self.found(Checked { comparison, at: unix_now() });
        }
        let Some(model) = drive.model() else { return };
        if self.running.is_some() || Instant::now() < self.due || drive.latest_len() < LEAST_READS {
            return;
        }
        self.due = Instant::now() + self.every;
        let (model, latest) = (Arc::clone(model), drive.latest());
        let compare = move || InflectionComparison::new(&model.card, &latest, &[]);
        self.running = Some(Background::start(compare));
    }

    /// Whether the drive's model no longer fits: its forecasts are no longer worth what they were
    /// in training. Of a model of an older version, which does not know what they were worth: its
    /// probabilities have become wrong, or the inflection point has moved.
    #[must_use]
    pub fn calls_for_training(&self, drive: &DriveFigures) -> bool {
        let has_reference = drive.model().is_some_and(|model| model.card.training.fit.is_some());
        let has_drifted = drive.calibration().is_some_and(|found| found.retrain_after.is_some());
        has_drifted || !has_reference && self.far_since.is_some()
    }

    fn found(&mut self, checked: Checked) {
        self.far_since = match checked.comparison.shift().is_far() {
            true => self.far_since.or(Some(checked.at)),
            false => None,
        };
        self.last = Some(checked);
    }

    /// The last result.
    #[must_use]
    pub const fn last(&self) -> Option<&Checked> {
        self.last.as_ref()
    }

    /// Since when each check has found the inflection point so far away that a model without a
    /// reference of its training should be trained again; since the Unix epoch.
    #[must_use]
    pub const fn far_since(&self) -> Option<Nanos> {
        self.far_since
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn far_since_is_the_first_of_consecutive_checks() {
        let mut check = DriftCheck::new(Duration::from_secs(60));
        let at = |seconds, now| Checked {
            comparison: InflectionComparison {
                inflection_percentile_then: Some(90.0),
                inflection_percentile_now: Some(now),
                inflection_now: None,
                threshold_percentile_now: 90.0,
            },
            at: Nanos::from_secs(seconds),
        };
        for (checked, since) in [
            (at(1, 91.0), None),
            (at(2, 97.0), Some(2)),
            (at(3, 82.0), Some(2)),
            (at(4, 90.0), None),
            (at(5, 99.0), Some(5)),
        ] {
            check.found(checked);
            assert_eq!(check.far_since(), since.map(Nanos::from_secs));
        }
    }
}
