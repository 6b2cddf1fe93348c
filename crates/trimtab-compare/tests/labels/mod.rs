//! The label `cost`, on simulated drives with a known tail.

use trimtab_io::Nanos;
use trimtab_predict::{Label, LabelRule, PredictorKind};
use trimtab_train::label::{self, LabelInputs, MadeLabel};
use trimtab_train::{TrainingOptions, TrainingSet, evaluate, reads, train};

use crate::tails::{Tail, recording};

/// The label of the first half, the share of slow reads in the second, and how well `trimtab`
/// finds them there; 0 and 0 if no read is slow.
fn found(tail: Tail, requests: usize) -> (MadeLabel, f64, f64) {
    let recorded = recording(tail, requests, 3);
    let all = reads(&recorded);
    let (past, future) = all.split_at(all.len() / 2);
    let sets = &[TrainingSet { recorded: &recorded, reads: past.to_vec() }];
    let options = TrainingOptions { steered: 0.0, ..TrainingOptions::default() };
    let inputs = LabelInputs { sets, all: &[], peers: &[], options: &options };
    let made = label::make(LabelRule::Cost, &inputs).unwrap();
    if made.label.never().is_some() {
        return (made, 0.0, 0.0);
    }
    let trained = train(PredictorKind::Trimtab, sets, &made.label, &options, |_, _| {}).unwrap();
    let slow = future.iter().filter(|read| read.is_slow(&made.label)).count();
    let auc = evaluate(&trained, &recorded, future, &made.label).auc.unwrap();
    (made, slow as f64 / future.len() as f64, auc)
}

#[test]
fn stalls_are_found_however_rare() {
    for (share, requests) in
        [(0.001, 400_000), (0.005, 100_000), (0.02, 60_000), (0.1, 40_000), (0.4, 40_000)]
    {
        let (made, slow, auc) = found(Tail::Stalls(share), requests);
        let Label::Threshold { latency } = made.label else { panic!("{share}: {:?}", made.label) };
        let cost = made.cost.unwrap();
        assert!(
            latency >= cost.break_even && latency < Nanos::from_millis(1),
            "{share}: {latency}"
        );
        assert!((0.3..3.0).contains(&(slow / share)), "{share}: {slow} are slow");
        assert!(auc > 0.9, "{share}: AUC {auc}");
        assert!(cost.gain > 0.5 * cost.most, "{share}: {cost:?}");
    }
}

#[test]
fn buffer_flushes_are_found() {
    let (made, slow, auc) = found(Tail::Flushes, 60_000);
    assert!(made.label.threshold().is_some(), "{:?}", made.label);
    assert!(auc > 0.9 && slow > 0.002, "{slow}, AUC {auc}");
}

#[test]
fn nothing_is_slow_where_nothing_can_be_gained() {
    for (tail, why) in [
        (Tail::Nothing, "costs less than predicting it"),
        (Tail::Retries, "not predictably enough"),
    ] {
        let (made, ..) = found(tail, 60_000);
        assert!(made.label.never().is_some_and(|reason| reason.contains(why)), "{:?}", made.label);
    }
}
