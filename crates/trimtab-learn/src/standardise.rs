//! Standardisation of features: mean 0, deviation 1.

use alloc::boxed::Box;
use alloc::vec;

use crate::error::same;
use crate::{Error, Rows};

/// Mean and standard deviation of each feature.
#[derive(Clone, Debug, PartialEq)]
pub struct Standardiser {
    mean: Box<[f32]>,
    deviation: Box<[f32]>,
}

impl Standardiser {
    /// A standardiser with these means and deviations.
    ///
    /// # Errors
    /// If their numbers differ, or a deviation is not positive.
    pub fn new(mean: Box<[f32]>, deviation: Box<[f32]>) -> Result<Self, Error> {
        same("deviations of the features", mean.len(), deviation.len())?;
        match deviation.iter().chain(&mean).find(|number| !number.is_finite()) {
            Some(&number) => {
                let found = f64::from(number);
                Err(Error::Value { what: "means and deviations are finite", found })
            }
            None => match deviation.iter().find(|deviation| **deviation <= 0.0) {
                Some(&deviation) => {
                    let found = f64::from(deviation);
                    Err(Error::Value { what: "a deviation is positive", found })
                }
                None => Ok(Self { mean, deviation }),
            },
        }
    }

    /// Fits means and deviations to these samples. A constant feature keeps its scale: its
    /// deviation is taken as 1.
    ///
    /// # Errors
    /// If there is no sample, or a value is not finite.
    #[cfg(feature = "train")]
    pub fn fit<T: Copy + Into<f64>>(samples: Rows<'_, T>) -> Result<Self, Error> {
        if samples.is_empty() {
            return Err(Error::Value { what: "there is at least one sample", found: 0.0 });
        }
        // Welford's algorithm: no difference of large sums.
        let mut mean = vec![0.0; samples.width()];
        let mut squares = mean.clone();
        for (before, row) in samples.iter().enumerate() {
            for ((mean, squares), &x) in mean.iter_mut().zip(&mut squares).zip(row) {
                let distance = x.into() - *mean;
                *mean += distance / (before + 1) as f64;
                *squares += distance * (x.into() - *mean);
            }
        }
        let deviation = squares.iter().map(|squares| {
            let deviation = libm::sqrt(squares / samples.len() as f64) as f32;
            if deviation == 0.0 { 1.0 } else { deviation }
        });
        Self::new(mean.iter().map(|&mean| mean as f32).collect(), deviation.collect())
    }

    /// The means.
    #[must_use]
    pub fn mean(&self) -> &[f32] {
        &self.mean
    }

    /// The standard deviations.
    #[must_use]
    pub fn deviation(&self) -> &[f32] {
        &self.deviation
    }

    /// Standardises one sample.
    ///
    /// # Panics
    /// If the number of features differs.
    pub fn apply(&self, sample: &mut [f32]) {
        assert_eq!(sample.len(), self.mean.len(), "features of a sample");
        for ((x, mean), deviation) in sample.iter_mut().zip(&self.mean).zip(&self.deviation) {
            *x = (*x - mean) / deviation;
        }
    }

    /// Standardises many samples into one vector.
    ///
    /// # Panics
    /// If the number of features differs.
    #[must_use]
    pub fn apply_to_all<T: Copy + Into<f32>>(&self, samples: Rows<'_, T>) -> Box<[f32]> {
        let mut all = vec![0.0; samples.len() * samples.width()];
        for (to, from) in all.chunks_exact_mut(samples.width()).zip(samples.iter()) {
            to.iter_mut().zip(from).for_each(|(to, &from)| *to = from.into());
            self.apply(to);
        }
        all.into()
    }
}

#[cfg(all(test, feature = "train"))]
mod tests {
    use super::*;

    #[test]
    fn standardised_features_have_mean_0_and_deviation_1() {
        let rows = [1.0_f32, 7.0, 3.0, 7.0, 5.0, 7.0];
        let rows = Rows::new(&rows, 2).unwrap();
        let fitted = Standardiser::fit(rows).unwrap();
        assert_eq!((fitted.mean(), fitted.deviation()[1]), ([3.0, 7.0].as_slice(), 1.0));
        let all = fitted.apply_to_all(rows);
        for (x, expected) in all.iter().zip([-1.5_f32.sqrt(), 0.0, 0.0, 0.0, 1.5_f32.sqrt(), 0.0]) {
            assert!((x - expected).abs() < 1e-6);
        }
        assert!(Standardiser::new([0.0].into(), [0.0].into()).is_err());
    }
}
