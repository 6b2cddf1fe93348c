//! Splitting samples for cross-validation.

use core::ops::Range;
use std::vec::Vec;

use crate::random::Random;

/// One split of the samples, by index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fold {
    /// Training samples.
    pub train: Vec<usize>,
    /// Test samples.
    pub test: Vec<usize>,
}

/// Splits samples into `k` random parts, each the test set of one fold.
///
/// In a time series neighbouring samples are correlated; there this overestimates a model, and
/// [`time_blocks`] does not.
///
/// # Panics
/// If `k` is less than 2.
#[must_use]
pub fn shuffled(samples: usize, k: usize, seed: u64) -> Vec<Fold> {
    let mut order: Vec<usize> = (0..samples).collect();
    Random::new(seed).shuffle(&mut order);
    parts(samples, k)
        .map(|test| {
            let sorted = |mut of: Vec<usize>| {
                of.sort_unstable();
                of
            };
            let train = [&order[..test.start], &order[test.end..]].concat();
            Fold { train: sorted(train), test: sorted(order[test].into()) }
        })
        .collect()
}

/// Splits samples in time order into `k` blocks. Each block except the first is the test set of one
/// fold, trained on all samples before it; `gap` samples between the two are left out.
///
/// # Panics
/// If `k` is less than 2.
#[must_use]
pub fn time_blocks(samples: usize, k: usize, gap: usize) -> Vec<Fold> {
    parts(samples, k)
        .skip(1)
        .map(|test| Fold {
            train: (0..test.start.saturating_sub(gap)).collect(),
            test: test.collect(),
        })
        .collect()
}

fn parts(samples: usize, k: usize) -> impl Iterator<Item = Range<usize>> {
    assert!(k >= 2, "at least two parts");
    (0..k).map(move |i| i * samples / k..(i + 1) * samples / k)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shuffled_folds_test_each_sample_once() {
        let folds = shuffled(103, 5, 7);
        let mut tested: Vec<usize> = folds.iter().flat_map(|f| f.test.clone()).collect();
        tested.sort_unstable();
        assert_eq!(tested, (0..103).collect::<Vec<_>>());
        for fold in &folds {
            assert_eq!(fold.train.len() + fold.test.len(), 103);
            assert!(fold.train.iter().all(|i| fold.test.binary_search(i).is_err()));
        }
        assert_ne!(folds[0].test, (0..20).collect::<Vec<_>>());
    }

    #[test]
    fn time_blocks_train_on_the_past_only() {
        let folds = time_blocks(100, 4, 5);
        assert_eq!(folds.len(), 3);
        assert_eq!((folds[0].train.len(), folds[0].test[0]), (20, 25));
        assert_eq!((folds[2].train.len(), folds[2].test.len()), (70, 25));
    }
}
