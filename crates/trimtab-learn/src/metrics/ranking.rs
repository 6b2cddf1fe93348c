//! Ranking metrics: how well a score separates positives from negatives.

use alloc::vec::Vec;

/// The area under the ROC curve: the probability that a positive has a higher score than a
/// negative; ties count half. `None` without both classes.
///
/// # Panics
/// If there are not as many scores as truths.
#[must_use]
pub fn roc_auc(scores: &[f64], truth: &[bool]) -> Option<f64> {
    let (mut below, mut won) = (0_u128, 0_u128);
    // From the lowest score upwards; won pairs are counted in halves.
    for (positives, negatives) in ties(scores, truth).into_iter().rev() {
        won += u128::from(positives) * (2 * below + u128::from(negatives));
        below += u128::from(negatives);
    }
    let positives = scores.len() as u128 - below;
    (positives > 0 && below > 0).then(|| won as f64 / (2 * positives * below) as f64)
}

/// The average precision, the area under the stepwise precision-recall curve: the sum over
/// thresholds of precision × gain in recall, as in scikit-learn. `None` without positives.
///
/// # Panics
/// If there are not as many scores as truths.
#[must_use]
pub fn average_precision(scores: &[f64], truth: &[bool]) -> Option<f64> {
    let (mut hits, mut all, mut sum) = (0_u64, 0_u64, 0.0);
    for (positives, negatives) in ties(scores, truth) {
        hits += positives;
        all += positives + negatives;
        sum += hits as f64 / all as f64 * positives as f64;
    }
    (hits > 0).then(|| sum / hits as f64)
}

/// Positives and negatives of each distinct score, highest first.
fn ties(scores: &[f64], truth: &[bool]) -> Vec<(u64, u64)> {
    assert_eq!(scores.len(), truth.len(), "as many scores as truths");
    let mut order: Vec<(f64, bool)> = scores.iter().copied().zip(truth.iter().copied()).collect();
    order.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
    order
        .chunk_by(|a, b| a.0 == b.0)
        .map(|tie| {
            let positives = tie.iter().filter(|(_, positive)| *positive).count() as u64;
            (positives, tie.len() as u64 - positives)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn auc_is_the_share_of_won_pairs(
            cases in prop::collection::vec((0_i32..12, any::<bool>()), 2..60),
        ) {
            let scores: Vec<f64> = cases.iter().map(|c| f64::from(c.0)).collect();
            let truth: Vec<bool> = cases.iter().map(|c| c.1).collect();
            let (mut won, mut pairs) = (0.0, 0.0);
            for (a, _) in cases.iter().filter(|c| c.1) {
                for (b, _) in cases.iter().filter(|c| !c.1) {
                    pairs += 1.0;
                    won += if a > b { 1.0 } else if a == b { 0.5 } else { 0.0 };
                }
            }
            let expected = (pairs > 0.0).then(|| won / pairs);
            prop_assert_eq!(roc_auc(&scores, &truth), expected);
        }
    }

    // scikit-learn 1.9: average_precision_score([0, 0, 1, 1], [.1, .4, .35, .8]),
    // and the same with ties.
    #[test]
    fn average_precision_matches_scikit_learn() {
        let truth = [false, false, true, true];
        let ap = average_precision(&[0.1, 0.4, 0.35, 0.8], &truth).unwrap();
        assert!((ap - 0.833_333_333_333_333_3).abs() < 1e-15);
        let ap = average_precision(&[0.1, 0.4, 0.4, 0.4], &truth).unwrap();
        assert!((ap - 0.666_666_666_666_666_6).abs() < 1e-15);
        assert_eq!(average_precision(&[1.0], &[false]), None);
    }
}
