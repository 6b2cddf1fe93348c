//! Evaluations, as a program that links the library runs them.

use trimtab_io::Nanos;
use trimtab_predict::{LabelRule, PredictorKind, Recorded};
use trimtab_train::{
    Error, Evaluation, EvaluationStep, PretrainedModel, Protocol, Recording, TrainingJob,
    TrainingOptions, reads,
};

mod recording;

const FAILOVER: Nanos = Nanos::from_micros(9);

fn recording_named(name: &str) -> Recording {
    Recording {
        name: name.to_owned(),
        recorded: recording::recording(),
        drive: None,
        unanswered: 0,
        on_unix_clock: false,
    }
}

/// A model of the first `share` of a recording's reads.
fn model(file: &str, recorded: &[Recorded], rule: LabelRule, share: f64) -> PretrainedModel {
    let all = reads(recorded);
    let job = TrainingJob {
        kind: PredictorKind::HeurSim,
        rule,
        name: "recording",
        recorded,
        past: &all[..(all.len() as f64 * share) as usize],
        peers: &[],
        timed: &[],
        options: &TrainingOptions::default(),
    };
    PretrainedModel { file: file.to_owned(), model: job.run(|_, _| {}).unwrap().model }
}

#[test]
fn every_predictor_is_trained_on_the_past_and_scored_on_the_future() {
    let recordings = [recording_named("a")];
    let evaluation = Evaluation::by_protocol(
        Protocol::TimeForward,
        LabelRule::Knee,
        &recordings,
        0,
        &[],
        FAILOVER,
    );
    let evaluation = evaluation.unwrap();
    assert_eq!((evaluation.trained_on(), evaluation.reads().len()), (Some(2000), 2000));
    let mut steps = Vec::new();
    let evaluated = evaluation
        .run(1, |step| match step {
            EvaluationStep::Training { kind, step: 0, .. } => steps.push(kind.name().to_owned()),
            EvaluationStep::Training { .. } => {}
            EvaluationStep::Scoring(name) => steps.push(format!("score {name}")),
        })
        .unwrap();
    let names = PredictorKind::ALL.map(PredictorKind::name);
    assert!(evaluated.iter().map(|one| one.score.predictor).eq(names));
    let expected = names.into_iter().flat_map(|name| [name.to_owned(), format!("score {name}")]);
    assert!(steps.into_iter().eq(expected));
    for one in &evaluated {
        assert_eq!(one.forecasts.len(), 2000);
        assert_eq!(one.importance.is_empty(), one.score.predictor != "trimtab");
    }
}

#[test]
fn leave_one_out_needs_two_recordings() {
    let recordings = [recording_named("a")];
    let one = Evaluation::by_protocol(
        Protocol::LeaveOneOut,
        LabelRule::Knee,
        &recordings,
        0,
        &[],
        FAILOVER,
    );
    assert!(matches!(one, Err(Error::OneRecording)));
    let recordings = [recording_named("a"), recording_named("b")];
    let two = Evaluation::by_protocol(
        Protocol::LeaveOneOut,
        LabelRule::Knee,
        &recordings,
        1,
        &[],
        FAILOVER,
    );
    let two = two.unwrap();
    assert_eq!((two.trained_on(), two.reads().len()), (Some(4000), 4000));
}

#[test]
fn models_are_evaluated_on_reads_that_none_was_trained_on() {
    let recording = recording_named("a");
    let recorded = &recording.recorded;
    let models = [
        model("half", recorded, LabelRule::Knee, 0.5),
        model("quarter", recorded, LabelRule::Knee, 0.25),
    ];
    let evaluation = Evaluation::of_models(&models, Some(LabelRule::Knee), &recording).unwrap();
    assert_eq!((evaluation.trained_on(), evaluation.reads().len()), (None, 2000));
    assert_eq!(evaluation.run(1, |_| {}).unwrap().len(), 2);

    let whole = [model("whole", recorded, LabelRule::Knee, 1.0)];
    let error = Evaluation::of_models(&whole, None, &recording).unwrap_err();
    assert!(matches!(error, Error::AllSeen { .. }), "{error}");
    let error = Evaluation::of_models(&models, Some(LabelRule::P95), &recording).unwrap_err();
    assert!(matches!(error, Error::OtherRule { trained: "knee", asked: "p95", .. }), "{error}");
    let p95 = [
        model("half", recorded, LabelRule::P95, 0.5),
        model("quarter", recorded, LabelRule::P95, 0.25),
    ];
    let error = Evaluation::of_models(&p95, Some(LabelRule::P95), &recording).unwrap_err();
    assert!(matches!(error, Error::OtherLabel { .. }), "{error}");
    // Without a rule each by its own: what was slow to one was not to the other.
    let both = [&models[0], &p95[0]].map(Clone::clone);
    let evaluation = Evaluation::of_models(&both, None, &recording).unwrap();
    assert_eq!(evaluation.label(), None);
    for (number, one) in both.iter().enumerate() {
        assert_eq!(evaluation.label_of(number), &one.model.card.label);
    }
    let together = evaluation.run(1, |_| {}).unwrap();
    for (one, evaluated) in both.iter().zip(together) {
        let alone = std::slice::from_ref(one);
        let alone = Evaluation::of_models(alone, None, &recording).unwrap();
        assert_eq!(alone.label(), Some(&one.model.card.label));
        let score = &alone.run(1, |_| {}).unwrap()[0].score;
        assert_eq!((score.auc, score.accuracy), (evaluated.score.auc, evaluated.score.accuracy));
    }
}
