//! Quantisation of features into bins.

use std::vec::Vec;

/// Values of a feature sampled to estimate its quantiles.
const SAMPLE: usize = 100_000;

/// Thresholds between at most `bins` bins. A value's bin is the number of thresholds below it.
///
/// Few distinct values get a bin each, otherwise bins hold about equally many samples. Values that
/// alone fill a bin have it alone.
pub(super) fn thresholds(values: impl ExactSizeIterator<Item = f64>, bins: usize) -> Vec<f64> {
    let step = values.len().div_ceil(SAMPLE).max(1);
    let mut sample: Vec<f64> = values.step_by(step).collect();
    sample.sort_unstable_by(f64::total_cmp);
    let distinct: Vec<(f64, usize)> =
        sample.chunk_by(|a, b| a == b).map(|same| (same[0], same.len())).collect();

    let mut thresholds = Vec::new();
    let (mut left, mut in_bin) = (sample.len(), 0);
    for pair in distinct.windows(2) {
        let ((value, count), (next, next_count)) = (pair[0], pair[1]);
        in_bin += count;
        let bins_left = bins - thresholds.len();
        if bins_left == 1 {
            break;
        }
        let fair = left as f64 / bins_left as f64;
        let full = in_bin as f64 >= fair || next_count as f64 >= fair;
        if full || distinct.len() <= bins {
            left -= in_bin;
            in_bin = 0;
            thresholds.push(between(value, next));
        }
    }
    thresholds
}

/// A number from `low`, inclusive, to `high`, exclusive; in the middle if possible.
fn between(low: f64, high: f64) -> f64 {
    let middle = low + (high - low) / 2.0;
    if middle < high { middle } else { low }
}

/// Number of thresholds below the value.
pub(super) fn bin(thresholds: &[f64], value: f64) -> u8 {
    thresholds.partition_point(|&threshold| threshold < value) as u8
}
