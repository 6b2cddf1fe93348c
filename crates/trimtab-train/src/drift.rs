//! Whether a drive still resembles the one that its model was trained on.
//!
//! The model's forecasts are compared with what came of them, block by block, and the blocks with
//! those of the training ([`FitReference`](trimtab_predict::FitReference) has the test).
//!
//! A model of an older version has no such reference. Then it is the inflection point that says
//! whether to train again: a percentile of the drive's latencies, from which failing over pays; if
//! it moves, the label of the training is no longer the right one (LinnOS, §4.4). And the
//! calibration of probabilities ([`DriftDetector`]). Both vary on one drive as much as between
//! drives: on recordings cut in pieces they are wrong about half of the time.

use std::fmt;

use serde::Serialize;
use trimtab_io::Nanos;
use trimtab_predict::{
    Card, DriftDetector, DriftReport, FIT_BLOCK, FIT_MEASURES, FitMeasure, FitReference, Forecast,
    Model, Recorded,
};

use crate::error::Error;
use crate::evaluate::{drift, forecasts};
use crate::fit::fit_blocks;
use crate::label::{inflection, percentile_of};
use crate::reads::{Read, latencies};

/// A shift by this many percentiles calls for training (LinnOS, §4.4).
const FAR: f64 = 5.0;

/// The fewest reads whose percentiles are compared: as many as training takes.
const LEAST_READS: usize = 1000;

/// Blocks of a recording's beginning that are not tested.
const WARM_UP: usize = 250 / FIT_BLOCK;

/// The seed of the inflection point's simulation, as in training.
const SEED: u64 = 1;

/// How the inflection point has moved.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum InflectionShift {
    /// By percentiles; negative is down.
    By(f64),
    /// Training found none: failing over did not pay.
    Appeared,
    /// There is no inflection point any more.
    Vanished,
}

impl InflectionShift {
    /// From one percentile to another.
    #[must_use]
    pub fn between(then: Option<f64>, now: Option<f64>) -> Self {
        match (then, now) {
            (Some(then), Some(now)) => Self::By(now - then),
            (None, None) => Self::By(0.0),
            (None, Some(_)) => Self::Appeared,
            (Some(_), None) => Self::Vanished,
        }
    }

    /// Whether the model should be trained again.
    #[must_use]
    pub fn is_far(self) -> bool {
        !matches!(self, Self::By(percentiles) if percentiles.abs() < FAR)
    }
}

impl fmt::Display for InflectionShift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::By(percentiles) => write!(f, "moved by {:.1} percentiles", percentiles.abs()),
            Self::Appeared => f.write_str("has appeared"),
            Self::Vanished => f.write_str("has vanished"),
        }
    }
}

/// A drive's inflection point, in training and now.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct InflectionComparison {
    /// Its percentile among the latencies trained on.
    pub inflection_percentile_then: Option<f64>,
    /// Its percentile now.
    pub inflection_percentile_now: Option<f64>,
    /// Its latency now.
    pub inflection_now: Option<Nanos>,
    /// The percentile of the model's threshold now.
    pub threshold_percentile_now: f64,
}

impl InflectionComparison {
    /// Compares latencies of reads with those that a model was trained on. `sorted` are the
    /// drive's own, `peers` those of the other drives, as they were given to training; all
    /// ascending.
    ///
    /// # Errors
    /// There are too few.
    pub fn new(card: &Card, sorted: &[Nanos], peers: &[&[Nanos]]) -> Result<Self, Error> {
        if sorted.len() < LEAST_READS {
            let (found, needed) = (sorted.len(), LEAST_READS);
            return Err(Error::TooFew { what: "reads to compare", found, needed });
        }
        let now = inflection(sorted, peers, SEED);
        Ok(Self {
            inflection_percentile_then: card.training.inflection_percentile,
            inflection_percentile_now: now.map(|now| now.percentile),
            inflection_now: now.map(|now| now.latency),
            threshold_percentile_now: percentile_of(
                sorted,
                card.label.threshold().unwrap_or(Nanos::MAX),
            ),
        })
    }

    /// How far it has moved.
    #[must_use]
    pub fn shift(&self) -> InflectionShift {
        InflectionShift::between(self.inflection_percentile_then, self.inflection_percentile_now)
    }
}

/// How a measure of the forecasts has changed since the training.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct MeasureChange {
    /// Which.
    pub measure: FitMeasure,
    /// Its mean in training, from forecasts that had not seen the reads. In the unit of the
    /// [measure](FitMeasure).
    pub then: f64,
    /// Its mean over the blocks tested.
    pub now: f64,
    /// The difference in standard errors.
    pub standard_errors: f64,
}

/// The test of a model's forecasts against those of its training.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FitCheck {
    /// Reads per block.
    pub block: usize,
    /// Blocks of the training.
    pub blocks_then: usize,
    /// Blocks tested.
    pub blocks_now: usize,
    /// A model fits if no measure is off by more standard errors than this.
    pub limit: f64,
    /// Measure by measure.
    pub measures: [MeasureChange; FIT_MEASURES],
}

impl FitCheck {
    /// Tests a model on some reads of a recording; `None` if it has no reference, or there are
    /// too few reads.
    #[must_use]
    pub fn of(model: &Model, recorded: &[Recorded], reads: &[Read]) -> Option<Self> {
        Self::of_forecasts(model, reads, &forecasts(&model.trained, recorded, reads).all)
    }

    fn of_forecasts(model: &Model, reads: &[Read], forecasts: &[Forecast]) -> Option<Self> {
        let blocks = fit_blocks(forecasts, reads, &model.card.label);
        // At first the state is empty: what was in flight or went before is not known.
        Self::new(&model.card.training.fit?, blocks.get(WARM_UP..)?)
    }

    fn new(then: &FitReference, blocks: &[[f64; FIT_MEASURES]]) -> Option<Self> {
        let test = then.test(blocks)?;
        let change = |i: usize| MeasureChange {
            measure: FitMeasure::ALL[i],
            then: then.mean[i],
            now: test.mean[i],
            standard_errors: test.errors[i],
        };
        Some(Self {
            block: FIT_BLOCK,
            blocks_then: then.blocks,
            blocks_now: test.blocks,
            limit: test.limit,
            measures: std::array::from_fn(change),
        })
    }

    /// The measure that is farthest off.
    #[must_use]
    pub fn worst(&self) -> MeasureChange {
        let off = |change: &MeasureChange| change.standard_errors.abs();
        let all = self.measures.into_iter();
        all.max_by(|a, b| off(a).total_cmp(&off(b))).expect("there are measures")
    }

    /// Whether the model fits.
    #[must_use]
    pub fn fits(&self) -> bool {
        self.worst().standard_errors.abs() <= self.limit
    }
}

/// Whether a model still fits its drive, from a recording of today.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModelCheck {
    /// The test of its forecasts; `None` for a model of a version that kept no reference.
    pub fit: Option<FitCheck>,
    /// The inflection point, in training and now.
    #[serde(flatten)]
    pub comparison: InflectionComparison,
    /// In which windows of 1,000 reads its forecasts do not fit, if that can be known.
    pub drift: Option<DriftReport>,
    /// Whether the model should be trained again.
    pub retrain: bool,
}

impl ModelCheck {
    /// Checks a model on some reads of a recording. `peers` are the read latencies of the other
    /// drives, as they were given to training, each ascending.
    ///
    /// # Errors
    /// There are too few reads.
    pub fn new(
        model: &Model,
        recorded: &[Recorded],
        reads: &[Read],
        peers: &[&[Nanos]],
    ) -> Result<Self, Error> {
        let Model { card, trained } = model;
        let comparison = InflectionComparison::new(card, &latencies(reads), peers)?;
        let forecasts = forecasts(trained, recorded, reads).all;
        let drift = DriftDetector::of(model)
            .map(|detector| drift(detector, recorded, reads, &forecasts, &card.label));
        let fit = FitCheck::of_forecasts(model, reads, &forecasts);
        let retrain = match &fit {
            Some(fit) => !fit.fits(),
            None => {
                let drifted = drift.is_some_and(|report| report.retrain_after.is_some());
                drifted || comparison.shift().is_far()
            }
        };
        Ok(Self { fit, comparison, drift, retrain })
    }
}

#[cfg(test)]
mod tests {
    use trimtab_predict::PredictorKind;

    use super::*;
    use crate::reads::reads;
    use crate::testing::{model_of, recording};

    #[test]
    fn shift_of_five_percentiles_is_far() {
        for (then, now, far, text) in [
            (Some(90.0), Some(94.9), false, "moved by 4.9 percentiles"),
            (Some(90.0), Some(85.0), true, "moved by 5.0 percentiles"),
            (None, None, false, "moved by 0.0 percentiles"),
            (None, Some(97.0), true, "has appeared"),
            (Some(97.0), None, true, "has vanished"),
        ] {
            let shift = InflectionShift::between(then, now);
            assert_eq!((shift.is_far(), shift.to_string().as_str()), (far, text));
        }
    }

    #[test]
    fn reads_trained_on_show_no_drift() {
        let recorded = recording();
        let model = model_of(PredictorKind::Trimtab, &recorded);
        let reads = reads(&recorded);
        let check = ModelCheck::new(&model, &recorded, &reads, &[]).unwrap();
        assert_eq!(check.comparison.shift(), InflectionShift::By(0.0));
        assert!(check.comparison.inflection_now.is_some());
        assert!(check.drift.is_some() && !check.retrain);
        let fit = check.fit.unwrap();
        assert!(fit.fits() && fit.blocks_then == fit.blocks_now + WARM_UP, "{fit:?}");

        // The same drive, but all of it takes twice as long.
        let mut slower = recorded.clone();
        for one in &mut slower {
            one.complete += one.latency();
        }
        slower.sort_by_key(|one| one.request.arrival);
        let check = ModelCheck::new(&model, &slower, &crate::reads::reads(&slower), &[]).unwrap();
        assert!(check.retrain && !check.fit.unwrap().fits());

        // A model of an older version has no reference.
        let mut old = model.clone();
        old.card.training.fit = None;
        let check = ModelCheck::new(&old, &recorded, &reads, &[]).unwrap();
        assert!(check.fit.is_none() && !check.retrain);

        let few = ModelCheck::new(&model, &recorded, &reads[..999], &[]).unwrap_err();
        assert!(few.to_string().starts_with("reads to compare: 999, at least 1000 are needed"));
    }
}
