//! Samples, cut into bins.

use std::vec::Vec;

use super::{Options, bins};
use crate::error::same;
use crate::{Error, Rows, parallel};

/// One feature of all samples.
#[derive(Clone, Debug, Default)]
pub(super) struct Column {
    /// Between bin i and bin i + 1 lies threshold i.
    pub(super) thresholds: Vec<f64>,
    /// The bin of each sample.
    pub(super) bins: Vec<u8>,
}

/// Samples to boost on, cut into bins. Can be used for several models.
#[derive(Clone, Debug)]
pub struct Data {
    pub(super) columns: Vec<Column>,
    pub(super) targets: Vec<f32>,
    /// Empty if all weigh 1.
    weights: Vec<f32>,
}

impl Data {
    /// Samples with their targets and weights. Without weights all weigh 1; for
    /// class weights, give each sample the weight of its class.
    /// Of the options, `bins` and `threads` are used.
    ///
    /// # Errors
    /// If there is no sample, if numbers differ, if a value is not a number.
    pub fn new<T: Copy + Into<f64> + Sync>(
        features: Rows<'_, T>,
        targets: &[f32],
        weights: &[f32],
        options: &Options,
    ) -> Result<Self, Error> {
        options.check()?;
        let mut thresholds = std::vec![Vec::new(); features.width()];
        parallel::each(options.threads, &mut thresholds, |column, thresholds| {
            let values = features.iter().map(|row| row[column].into());
            *thresholds = bins::thresholds(values, options.bins);
        });
        Self::cut(features, targets, weights, thresholds, options.threads)
    }

    /// Other samples, cut at the same thresholds as these: validation data.
    ///
    /// # Errors
    /// As [`new`](Self::new), and if a sample has not as many features.
    pub fn alike<T: Copy + Into<f64> + Sync>(
        &self,
        features: Rows<'_, T>,
        targets: &[f32],
        weights: &[f32],
        options: &Options,
    ) -> Result<Self, Error> {
        same("features of a sample", self.columns.len(), features.width())?;
        let thresholds = self.columns.iter().map(|column| column.thresholds.clone()).collect();
        Self::cut(features, targets, weights, thresholds, options.threads)
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
        let mut columns: Vec<(Column, bool)> = thresholds
            .into_iter()
            .map(|thresholds| (Column { thresholds, bins: Vec::new() }, true))
            .collect();
        parallel::each(threads, &mut columns, |number, (column, are_numbers)| {
            let values = features.iter().map(|row| row[number].into());
            *are_numbers = values.clone().all(|value: f64| !value.is_nan());
            column.bins = values.map(|value| bins::bin(&column.thresholds, value)).collect();
        });
        if columns.iter().any(|(_, are_numbers)| !are_numbers) {
            return Err(Error::Value { what: "a feature is a number", found: f64::NAN });
        }
        Ok(Self {
            columns: columns.into_iter().map(|(column, _)| column).collect(),
            targets: targets.into(),
            weights: weights.into(),
        })
    }

    /// How many samples there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.targets.len()
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.targets.is_empty()
    }

    pub(super) fn weight(&self, row: usize) -> f64 {
        self.weights.get(row).map_or(1.0, |&weight| f64::from(weight))
    }
}
