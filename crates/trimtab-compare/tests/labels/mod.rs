//! The label `cost`, on simulated drives with a known tail.

use trimtab_predict::{LabelRule, PredictorKind};
use trimtab_train::label::{self, LabelInputs};
use trimtab_train::{TrainingOptions, TrainingSet, evaluate, reads, train};

use crate::tails::{Tail, recording};

/// Reads that come during a flush wait, and are foreseen.
#[test]
fn buffer_flushes_are_found() {
    let recorded = recording(Tail::Flushes, 60_000, 3);
    let all = reads(&recorded);
    let (past, future) = all.split_at(all.len() / 2);
    let sets = &[TrainingSet { recorded: &recorded, reads: past.to_vec() }];
    let options = TrainingOptions { steered: 0.0, ..TrainingOptions::default() };
    let inputs = LabelInputs { sets, all: &[], peers: &[], timed: &[], options: &options };
    let label = label::make(LabelRule::Cost, &inputs).unwrap().label;
    assert!(label.threshold().is_some(), "{label:?}");
    let trained = train(PredictorKind::Trimtab, sets, &label, &options, |_, _| {}).unwrap();
    let slow = future.iter().filter(|read| read.is_slow(&label)).count();
    let auc = evaluate(&trained, &recorded, future, &label).auc.unwrap();
    assert!(auc > 0.9 && slow * 500 > future.len(), "{slow}, AUC {auc}");
}
