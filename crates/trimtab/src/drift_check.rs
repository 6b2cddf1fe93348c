//! Does a drive's model still fit? Asked from time to time, in the background: finding
//! the inflection point takes about half a second.

use std::sync::Arc;
use std::time::{Duration, Instant};

use trimtab_io::Nanos;
use trimtab_predict::{Comparison, Error};

use super::background::{Background, take_finished};
use super::figures::DriveFigures;
use super::unix_now;

/// With fewer reads since there is this model, it is not asked: a handful of
/// latencies has its percentiles anywhere.
const LEAST_READS: usize = 10_000;

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Checked {
    /// The inflection point then and now.
    pub comparison: Comparison,
    /// When it was looked, since the Unix epoch.
    pub at: Nanos,
}

/// Compares a drive's latest reads with those that its model was trained on.
#[derive(Debug)]
pub struct DriftCheck {
    every: Duration,
    due: Instant,
    running: Option<Background<Result<Comparison, Error>>>,
    last: Option<Checked>,
    far_since: Option<Nanos>,
}

impl DriftCheck {
    /// Looks at most so often.
    #[must_use]
    pub fn new(every: Duration) -> Self {
        Self { every, due: Instant::now(), running: None, last: None, far_since: None }
    }

    /// Gives it its turn: begins what is due, takes up what is done. It does not wait.
    pub fn turn(&mut self, drive: &DriveFigures) {
        if let Some(Ok(comparison)) = take_finished(&mut self.running) {
            self.found(Checked { comparison, at: unix_now() });
        }
        let Some(model) = drive.model() else { return };
        if self.running.is_some() || Instant::now() < self.due || drive.latest_len() < LEAST_READS {
            return;
        }
        self.due = Instant::now() + self.every;
        let (model, latest) = (Arc::clone(model), drive.latest());
        self.running = Some(Background::start(move || Comparison::of(&model.card, &latest, &[])));
    }

    fn found(&mut self, checked: Checked) {
        self.far_since = match checked.comparison.moved().is_far() {
            true => self.far_since.or(Some(checked.at)),
            false => None,
        };
        self.last = Some(checked);
    }

    /// What was found last.
    #[must_use]
    pub const fn last(&self) -> Option<&Checked> {
        self.last.as_ref()
    }

    /// Since when the inflection point has been found so far away, time and again,
    /// that the model should be trained again; since the Unix epoch.
    #[must_use]
    pub const fn far_since(&self) -> Option<Nanos> {
        self.far_since
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn far_is_since_the_first_of_a_row() {
        let mut check = DriftCheck::new(Duration::from_secs(60));
        let at = |seconds, now| Checked {
            comparison: Comparison {
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
