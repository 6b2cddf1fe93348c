//! The online evaluator against the evaluation of a recording.

use trimtab_io::Nanos;
use trimtab_predict::{LabelRule, Model, OnlineEvaluator, OnlineScore, PredictorKind, Recorded};
use trimtab_train::{ModelCheck, TrainingJob, TrainingOptions, evaluate, reads};

#[path = "../../trimtab-train/tests/recording/mod.rs"]
mod recording;
use recording::recording;

fn model_of(kind: PredictorKind, recorded: &[Recorded]) -> Model {
    let job = TrainingJob {
        kind,
        rule: LabelRule::Knee,
        name: "recording",
        recorded,
        past: &reads(recorded),
        peers: &[],
        timed: &[],
        options: &TrainingOptions::default(),
    };
    job.run(|_, _| {}).unwrap().model
}

#[test]
fn online_score_equals_that_of_the_recording() {
    let recorded = recording();
    for kind in PredictorKind::ALL {
        let model = model_of(kind, &recorded);
        let mut evaluator = OnlineEvaluator::new(&model);
        recorded.iter().for_each(|request| evaluator.take(request));
        evaluator.settle(Nanos::MAX);
        let score = evaluate(&model.trained, &recorded, &reads(&recorded), &model.card.label);
        let online = evaluator.score();
        assert_eq!(online.reads, 4000);
        assert_eq!(online.false_submit_rate(), score.false_submit_rate, "{kind:?}");
        assert_eq!(online.false_revoke_rate(), score.false_revoke_rate, "{kind:?}");
        assert_eq!(online.predicted_late_share(), Some(score.refused), "{kind:?}");
        let check = ModelCheck::new(&model, &recorded, &reads(&recorded), &[]).unwrap();
        assert_eq!(evaluator.drift(), check.drift);
        assert!(online.late > 0 && online.late < online.reads);
    }
}

#[test]
fn reads_count_when_they_complete() {
    let recorded = recording();
    let mut evaluator = OnlineEvaluator::new(&model_of(PredictorKind::HeurSim, &recorded));
    evaluator.take(&recorded[0]);
    evaluator.settle(Nanos(recorded[0].complete.0 - 1));
    assert_eq!(evaluator.score(), OnlineScore::default());
    evaluator.settle(recorded[0].complete);
    assert_eq!(evaluator.score().reads, 1);
}
