//! Isotonic regression.

use std::vec::Vec;

use super::Table;
use crate::Error;
use crate::error::same;

/// Fits the non-decreasing function with the least squared error to the share of positives at each
/// score, by pooling adjacent violators (Ayer et al. 1955). Between two pools the step is at the
/// higher one's lowest score.
///
/// # Errors
/// If there is no sample, or the lengths differ.
pub fn isotonic(scores: &[i32], truth: &[bool]) -> Result<Table, Error> {
    struct Pool {
        start: i32,
        positives: u64,
        count: u64,
    }
    same("truths", scores.len(), truth.len())?;
    let mut order: Vec<(i32, bool)> = scores.iter().copied().zip(truth.iter().copied()).collect();
    order.sort_unstable();
    let mut pools: Vec<Pool> = Vec::new();
    for same in order.chunk_by(|a, b| a.0 == b.0) {
        let positives = same.iter().filter(|sample| sample.1).count() as u64;
        let mut pool = Pool { start: same[0].0, positives, count: same.len() as u64 };
        // Merges with the previous pool if its share is not higher.
        while let Some(before) = pools.pop_if(|before| {
            u128::from(before.positives) * u128::from(pool.count)
                >= u128::from(pool.positives) * u128::from(before.count)
        }) {
            pool = Pool {
                start: before.start,
                positives: before.positives + pool.positives,
                count: before.count + pool.count,
            };
        }
        pools.push(pool);
    }
    if pools.is_empty() {
        return Err(Error::Value { what: "there is at least one sample", found: 0.0 });
    }
    let value = |pool: &Pool| ((pool.positives << 16) as f64 / pool.count as f64).round() as i32;
    Table::new(
        pools.iter().skip(1).map(|pool| pool.start).collect(),
        pools.iter().map(value).collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn violators_are_pooled() {
        let scores = [1, 2, 3, 4, 5, 5];
        let truth = [false, true, false, true, true, true];
        let table = isotonic(&scores, &truth).unwrap();
        assert_eq!(table.starts(), [2, 4]);
        assert_eq!(table.values(), [0, 1 << 15, 1 << 16]);
        assert_eq!(table.first_score_with(1), Some(2));
        assert_eq!(table.first_score_with(65_537), None);
        assert!(isotonic(&[], &[]).is_err());
    }
}
