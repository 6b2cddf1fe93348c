//! Which numbers does our predictor live by?

use rand::SeedableRng as _;
use rand::seq::SliceRandom as _;
use rand_pcg::Pcg64;
use serde::Serialize;
use trimtab_learn::metrics::roc_auc;

use crate::dataset::{Read, features};
use crate::history::Recorded;
use crate::learned::Knowledge;
use crate::state::FEATURES;
use crate::{FEATURE_NAMES, Label};

/// Reads that are looked at, at most.
const READS: usize = 20_000;

/// What a number is worth to a predictor.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Importance {
    /// Its name, of [`FEATURE_NAMES`].
    pub feature: String,
    /// By how much the area under the ROC curve falls if each read gets the
    /// number of another read (Breiman, *Random Forests*, 2001, §10). Numbers
    /// that say the same stand in for each other, and both seem to matter little.
    pub auc_lost: f64,
}

/// What each number is worth on some of a recording's reads (of many, on evenly
/// spread ones), the greatest first; none if all of them are slow or fast.
#[must_use]
pub fn importance(
    known: &Knowledge,
    recorded: &[Recorded],
    judged: &[Read],
    label: &Label,
    seed: u64,
) -> Vec<Importance> {
    let judged: Vec<Read> =
        judged.iter().step_by(judged.len().div_ceil(READS).max(1)).copied().collect();
    let mut wanted = vec![false; recorded.len()];
    judged.iter().for_each(|read| wanted[read.index] = true);
    let slow: Vec<bool> = judged.iter().map(|read| label.is_slow_read(read)).collect();
    let mut rows = features(recorded, &wanted, &known.functions);
    let auc = |rows: &[[i32; FEATURES]]| {
        let scores: Vec<f64> = rows.iter().map(|row| f64::from(known.forest.score(row))).collect();
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
    use super::*;
    use crate::testing::recording;
    use crate::{Kind, Lesson, Options, Trained, train};
    use trimtab_io::Nanos;

    /// On a drive that serves one after the other, the queue is what matters.
    #[test]
    fn the_queue_matters_where_there_is_one() {
        let recorded = recording();
        let label = Label::Threshold { latency: Nanos(400_000) };
        let lesson = Lesson::whole(&recorded);
        let judged = lesson.reads.clone();
        let options = Options { trees: 10, ..Options::default() };
        let trained = train(Kind::Trimtab, &[lesson], &label, &options, |_, _| {}).unwrap();
        let Trained::Trimtab(known) = trained else { unreachable!() };
        let all = importance(&known, &recorded, &judged, &label, 1);
        assert_eq!(all.len(), FEATURES);
        assert!(all[0].auc_lost > 0.02, "{all:?}");
        let queues = ["oldest-read", "drive.reads", "drive.mean-age", "drive.queue"];
        let strong = all[..4].iter().any(|i| queues.contains(&i.feature.as_str()));
        assert!(strong, "{:?}", &all[..4]);
        assert_eq!(importance(&known, &recorded, &[], &label, 1), []);
    }
}
