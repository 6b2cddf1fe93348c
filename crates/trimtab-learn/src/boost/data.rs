//! Quantised samples.

use std::vec::Vec;

use super::{BoostOptions, bins};
use crate::error::same;
use crate::{Error, Rows, parallel};

/// Features stored together.
pub(super) const QUAD: usize = 4;

/// Training data, quantised into bins. Reusable for several models.
#[derive(Clone, Debug)]
pub struct Data {
    /// By feature: threshold i is between bins i and i + 1.
    pub(super) thresholds: Vec<Vec<f64>>,
    /// The bins of four features of each sample: one memory access serves four histograms, which
    /// together fit the L1 cache.
    pub(super) quads: Vec<Vec<[u8; QUAD]>>,
    pub(super) targets: Vec<f32>,
    /// Empty if all weights are 1.
    weights: Vec<f32>,
}

impl Data {
    /// Samples with targets and weights. Without weights all are 1; for class weights, give each
    /// sample the weight of its class. Uses `bins` and `threads` of the options.
    ///
    /// # Errors
    /// If there is no sample, if lengths differ, if a value is NaN.
    pub fn new<T: Copy + Into<f64> + Sync>(
        features: Rows<'_, T>,
        targets: &[f32],
        weights: &[f32],
        options: &BoostOptions,
    ) -> Result<Self, Error> {
        options.check()?;
        let mut thresholds = std::vec![Vec::new(); features.width()];
        parallel::each(options.threads, &mut thresholds, |column, thresholds| {
            let values = features.iter().map(|row| row[column].into());
            *thresholds = bins::thresholds(values, options.bins);
        });
        Self::cut(features, targets, weights, thresholds, options.threads)
    }

    /// Other samples with the same thresholds: validation data.
    ///
    /// # Errors
    /// As [`new`](Self::new), and if the number of features differs.
    pub fn alike<T: Copy + Into<f64> + Sync>(
        &self,
        features: Rows<'_, T>,
        targets: &[f32],
        weights: &[f32],
        options: &BoostOptions,
    ) -> Result<Self, Error> {
        same("features of a sample", self.features(), features.width())?;
        Self::cut(features, targets, weights, self.thresholds.clone(), options.threads)
    }

    fn cut<T: Copy + Into<f64> + Sync>(
        features: Rows<'_, T>,
        targets: &[f32],
        weights: &[f32],
        thresholds: Vec<Vec<f64>>,
        threads: usize,
    ) -> Result<Self, Error> {
        same("targets", features.len(), targets.len())?;
        if !weights.is_empty() {
            same("weights", features.len(), weights.len())?;
        }
        if features.is_empty() || features.len() > u32::MAX as usize {
            let found = features.len() as f64;
            return Err(Error::Value { what: "samples are 1 to 2^32 - 1", found });
        }
        if let Some(weight) = weights.iter().find(|w| !w.is_finite() || **w < 0.0) {
            let found = f64::from(*weight);
            return Err(Error::Value { what: "a weight is finite and not negative", found });
        }
        let of_quads = thresholds.chunks(QUAD);
        let mut quads: Vec<_> = of_quads.map(|of_quad| (of_quad, Vec::new(), true)).collect();
        parallel::each(threads, &mut quads, |number, (thresholds, quad, are_numbers)| {
            quad.extend(features.iter().map(|row| {
                let mut bins = [0; QUAD];
                let values = row[number * QUAD..].iter().zip(*thresholds);
                for (bin, (&value, thresholds)) in bins.iter_mut().zip(values) {
                    let value: f64 = value.into();
                    *are_numbers &= !value.is_nan();
                    *bin = bins::bin(thresholds, value);
                }
                bins
            }));
        });
        if quads.iter().any(|(_, _, are_numbers)| !are_numbers) {
            return Err(Error::Value { what: "a feature is a number", found: f64::NAN });
        }
        Ok(Self {
            quads: quads.into_iter().map(|(_, quad, _)| quad).collect(),
            thresholds,
            targets: targets.into(),
            weights: weights.into(),
        })
    }

    /// Number of features.
    #[must_use]
    pub const fn features(&self) -> usize {
        self.thresholds.len()
    }

    /// The bin of a sample's feature.
    pub(super) fn bin(&self, row: usize, feature: usize) -> u8 {
        self.quads[feature / QUAD][row][feature % QUAD]
    }

    /// Number of samples.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.targets.len()
    }

    /// Whether there are no samples.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.targets.is_empty()
    }

    pub(super) fn weight(&self, row: usize) -> f64 {
        self.weights.get(row).map_or(1.0, |&weight| f64::from(weight))
    }
}
