//! Permutation importance: which features do the forests depend on?

use rand::SeedableRng as _;
use rand::seq::SliceRandom as _;
use rand_pcg::Pcg64;
use serde::Serialize;
use trimtab_learn::metrics::roc_auc;
use trimtab_predict::{FEATURE_NAMES, FEATURES, ForestModel, Label, Recorded};

use crate::dataset::features;
use crate::reads::{Read, mask};

/// The most reads used.
const READS: usize = 20_000;

/// The importance of a feature.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Importance {
    /// Its name, of [`FEATURE_NAMES`].
    pub feature: String,
    /// The fall of the area under the ROC curve if the feature is permuted among the reads
    /// (Breiman, *Random Forests*, 2001, §10). Of features that carry the same information each
    /// replaces the other, so both show little importance.
    pub auc_lost: f64,
}

/// The importance of each feature on some of a recording's reads (of many, on evenly spread
/// ones), the greatest first. Empty if all reads are slow, or all are fast.
#[must_use]
pub fn importance(
    model: &ForestModel,
    recorded: &[Recorded],
    reads: &[Read],
    label: &Label,
    seed: u64,
) -> Vec<Importance> {
    let reads: Vec<Read> =
        reads.iter().step_by(reads.len().div_ceil(READS).max(1)).copied().collect();
    let slow: Vec<bool> = reads.iter().map(|read| read.is_slow(label)).collect();
    let mut rows = features(recorded, &mask(recorded, &reads), &model.functions);
    let auc = |rows: &[[i32; FEATURES]]| {
        let scores: Vec<f64> = rows.iter().map(|row| f64::from(model.forest.score(row))).collect();
        roc_auc(&scores, &slow)
    };
    let Some(whole) = auc(&rows) else { return Vec::new() };
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.shuffle(&mut Pcg64::seed_from_u64(seed));
    let mut all: Vec<Importance> = (0..FEATURES)
        .map(|i| {
            let column: Vec<i32> = rows.iter().map(|row| row[i]).collect();
            rows.iter_mut().zip(&order).for_each(|(row, &other)| row[i] = column[other]);
            let auc_lost = whole - auc(&rows).unwrap_or(whole);
            rows.iter_mut().zip(column).for_each(|(row, number)| row[i] = number);
            let (group, name) = FEATURE_NAMES[i];
            Importance { feature: format!("{group}{name}"), auc_lost }
        })
        .collect();
    all.sort_by(|a, b| b.auc_lost.total_cmp(&a.auc_lost));
    all
}

#[cfg(test)]
mod tests {
    use trimtab_io::Nanos;
    use trimtab_predict::{PredictorKind, Trained};

    use super::*;
    use crate::options::TrainingOptions;
    use crate::set::TrainingSet;
    use crate::testing::recording;
    use crate::train::train;

    /// On a drive that serves one request at a time, the queue matters.
    #[test]
    fn queue_features_are_the_most_important_on_a_queue() {
        let recorded = recording();
        let label = Label::Threshold { latency: Nanos(400_000) };
        let set = TrainingSet::whole(&recorded);
        let reads = set.reads.clone();
        let options = TrainingOptions { trees: 10, ..TrainingOptions::default() };
        let trained = train(PredictorKind::Trimtab, &[set], &label, &options, |_, _| {}).unwrap();
        let Trained::Trimtab(model) = trained else { unreachable!() };
        let all = importance(&model, &recorded, &reads, &label, 1);
        assert_eq!(all.len(), FEATURES);
        assert!(all[0].auc_lost > 0.02, "{all:?}");
        let queues = ["oldest-read", "drive.reads", "drive.mean-age", "drive.queue"];
        let strong = all[..4].iter().any(|i| queues.contains(&i.feature.as_str()));
        assert!(strong, "{:?}", &all[..4]);
        assert_eq!(importance(&model, &recorded, &[], &label, 1), []);
    }
}
