//! Causality: no feature and no forecast depends on the future, and predictors decide on the
//! features that they were trained on.

use std::sync::LazyLock;

use proptest::prelude::*;
use trimtab_io::{Nanos, Op, Request};
use trimtab_learn::Simd;
use trimtab_predict::units::UnitFunction;
use trimtab_predict::{
    DriveTracker, Forecast, Label, LabelRule, Linnos, Model, PredictorKind, Provenance, Recorded,
    Ticket, Trained, Verdict,
};

use crate::dataset::{digits, features};
use crate::options::TrainingOptions;
use crate::reads::reads;
use crate::replay::{Event, Observer, events, replay};
use crate::set::TrainingSet;
use crate::testing::{recording, request};
use crate::train::train;

/// One predictor of each kind, trained on another drive than the tests'.
static TRAINED: LazyLock<Vec<Trained>> = LazyLock::new(|| {
    let recorded = recording();
    let label = Label::Threshold { latency: Nanos(400_000) };
    let options = TrainingOptions { trees: 10, ..TrainingOptions::default() };
    let one =
        |kind| train(kind, &[TrainingSet::whole(&recorded)], &label, &options, |_, _| {}).unwrap();
    PredictorKind::ALL.map(one).into()
});

/// A function of each kind.
fn functions() -> Vec<UnitFunction> {
    vec![
        UnitFunction::Page { shift: 13 },
        UnitFunction::Stripe { shift: 12, units: 6 },
        UnitFunction::Parity { masks: vec![0b101 << 12, 0b10 << 12] },
    ]
}

/// A request, relative to the one before, and its completion. Times are coarse, so that many
/// events fall on one instant.
#[derive(Clone, Copy, Debug)]
struct Step {
    gap: u64,
    op: Op,
    offset: u64,
    length: u64,
    latency: u64,
    data: bool,
}

prop_compose! {
    fn step()(
        gap in prop_oneof![0_u64..5, 0_u64..400],
        op in prop_oneof![5 => Just(Op::Read), 3 => Just(Op::Write), 1 => Just(Op::Flush)],
        page in 0_u64..64,
        pages in 0_u64..9,
        latency in prop_oneof![0_u64..20, 0_u64..2000],
        data in prop::bool::weighted(0.9),
    ) -> Step {
        let tick = 16_384;
        let (offset, length) = (page << 12, pages * 2048);
        Step { gap: gap * tick, op, offset, length, latency: latency * tick, data }
    }
}

fn add(recorded: &mut Vec<Recorded>, steps: &[Step]) {
    for step in steps {
        let now = recorded.last().map_or(0, |last| last.request.arrival.0) + step.gap;
        let request = request(step.op, step.offset, step.length);
        let request = Request { arrival: Nanos(now), ..request };
        recorded.push(Recorded { request, complete: Nanos(now + step.latency), data: step.data });
    }
}

/// Two recordings that are equal up to the moment before a request is sent, and the number of
/// requests up to it. Requests in flight at that moment complete at different times and in
/// different ways, and later requests differ.
fn twins() -> impl Strategy<Value = (Vec<Recorded>, Vec<Recorded>, usize)> {
    let steps = || prop::collection::vec(step(), 0..40);
    let past = prop::collection::vec((step(), step()), 1..60);
    (past, steps(), steps()).prop_map(|(past, future, other_future)| {
        let (steps, others): (Vec<_>, Vec<_>) = past.into_iter().unzip();
        let mut one = Vec::new();
        add(&mut one, &steps);
        let mut other = one.clone();
        let now = one[one.len() - 1].request.arrival;
        for (number, (recorded, changed)) in other.iter_mut().zip(&others).enumerate() {
            // The last one's completion is unknown even if it is immediate.
            if recorded.complete > now || number == steps.len() - 1 {
                let least = u64::from(number < steps.len() - 1);
                recorded.complete = Nanos(now.0 + changed.latency.max(least));
                recorded.data = changed.data;
            }
        }
        add(&mut one, &future);
        add(&mut other, &other_future);
        (one, other, steps.len())
    })
}

/// The forecasts of a predictor for each request before it is sent.
fn forecasts(trained: &Trained, recorded: &[Recorded]) -> Vec<Forecast> {
    let (mut predictor, mut all) = (trained.predictor(), Vec::new());
    let mut tickets = vec![Ticket(0); recorded.len()];
    for event in events(recorded) {
        match event {
            Event::Sent(i) => {
                let request = &recorded[i].request;
                all.push(predictor.predict(request.arrival, request));
                tickets[i] = predictor.sent(request.arrival, request);
            }
            Event::Completed(i) => {
                predictor.completed(recorded[i].complete, tickets[i], recorded[i].data);
            }
        }
    }
    all
}

/// A naive replay: before each request, all completions up to then in their order.
fn naive_replay<O: Observer, T>(
    recorded: &[Recorded],
    observer: &mut O,
    look: impl Fn(&O, &Request) -> T,
) -> Vec<T> {
    let (mut all, mut tickets) = (Vec::new(), Vec::new());
    let mut waiting: Vec<usize> = Vec::new();
    for (i, Recorded { request, .. }) in recorded.iter().enumerate() {
        waiting.sort_by_key(|&j| (recorded[j].complete, j));
        while let Some(&j) = waiting.first().filter(|&&j| recorded[j].complete <= request.arrival) {
            observer.completed(recorded[j].complete, tickets[j], recorded[j].data);
            waiting.remove(0);
        }
        all.push(look(observer, request));
        tickets.push(observer.sent(request.arrival, request));
        waiting.push(i);
    }
    all
}

proptest! {
    #[test]
    fn features_do_not_depend_on_the_future((one, other, known) in twins()) {
        let all = |recorded: &[Recorded]| vec![true; recorded.len()];
        let functions = functions();
        let ours = features(&one, &all(&one), &functions);
        let others = features(&other, &all(&other), &functions);
        prop_assert_eq!(&ours[..known], &others[..known]);
        let (ours, others) = (digits(&one, &all(&one)), digits(&other, &all(&other)));
        prop_assert_eq!(&ours[..known], &others[..known]);
    }

    #[test]
    fn forecasts_do_not_depend_on_the_future((one, other, known) in twins()) {
        for trained in &*TRAINED {
            let (ours, others) = (forecasts(trained, &one), forecasts(trained, &other));
            prop_assert_eq!(&ours[..known], &others[..known], "{:?}", trained.kind());
        }
    }

    #[test]
    fn predictors_decide_on_the_features_trained_on(
        steps in prop::collection::vec((step(), any::<bool>()), 1..80),
    ) {
        let (steps, wanted): (Vec<_>, Vec<_>) = steps.into_iter().unzip();
        let mut recorded = Vec::new();
        add(&mut recorded, &steps);
        let of_wanted = |i: &usize| wanted[*i];
        let asked: Vec<usize> = (0..recorded.len()).filter(of_wanted).collect();

        let functions = functions();
        let trained_on = features(&recorded, &wanted, &functions);
        let tracker = &mut DriveTracker::new(&functions);
        let live = naive_replay(&recorded, tracker, |tracker, r| tracker.features(r.arrival, r));
        prop_assert_eq!(&trained_on, &asked.iter().map(|&i| live[i]).collect::<Vec<_>>());

        for trained in &*TRAINED {
            let forecasts = forecasts(trained, &recorded);
            let said: Vec<_> = asked.iter().map(|&i| forecasts[i]).collect();
            match trained {
                Trained::HeurSim(_) | Trained::HeurAdv(_) | Trained::MittState(_) => {}
                Trained::Linnos(network) => {
                    let digits = digits(&recorded, &wanted);
                    let expected: Vec<_> = digits
                        .iter()
                        .map(|digits| Linnos::forecast(network.margin(Simd::best(), digits)))
                        .collect();
                    prop_assert_eq!(said, expected);
                }
                Trained::Trimtab(known) => {
                    let features = features(&recorded, &wanted, &known.functions);
                    let requests = asked.iter().map(|&i| &recorded[i].request);
                    let expected: Vec<_> =
                        requests.zip(&features).map(|(r, f)| known.forecast(r, f)).collect();
                    prop_assert_eq!(said, expected);
                }
            }
        }
    }
}

/// `forecast_if_late` equals `forecast` for late requests, and is bare for others.
#[test]
fn short_forecast_equals_the_full_one_for_late_requests() {
    let recorded = &recording();
    let every = vec![true; recorded.len()];
    for trained in &*TRAINED {
        let Trained::Trimtab(known) = trained else { continue };
        let mut counts = [0; 2];
        for (Recorded { request, .. }, features) in
            recorded.iter().zip(&features(recorded, &every, &known.functions))
        {
            let whole = known.forecast(request, features);
            let expected = match whole.verdict {
                Verdict::Late => whole,
                Verdict::Fast => Forecast::bare(Verdict::Fast),
            };
            assert_eq!(known.forecast_if_late(request, features), expected);
            counts[whole.verdict as usize] += 1;
        }
        assert!(counts.iter().all(|&count| count > 100), "{counts:?}");
    }
}

/// Forecasts change no state.
#[test]
fn predict_changes_nothing() {
    let recorded = &recording()[..1000];
    for trained in &*TRAINED {
        let (mut asked, mut silent) = (Vec::new(), Vec::new());
        replay(recorded, &mut trained.predictor(), |i, predictor| {
            let request = &recorded[i].request;
            for later in [0, 1000, 1 << 30] {
                asked.push(predictor.predict(request.arrival + Nanos(later), request));
            }
        });
        replay(recorded, &mut trained.predictor(), |i, predictor| {
            let request = &recorded[i].request;
            silent.push(predictor.predict(request.arrival, request));
        });
        assert!(asked.iter().step_by(3).eq(&silent), "{:?}", trained.kind());
    }
}

/// Requests after the last read trained on do not change the model.
#[test]
fn later_requests_do_not_change_the_model() {
    let recorded = recording();
    let label = Label::Threshold { latency: Nanos(400_000) };
    let options = TrainingOptions { trees: 10, ..TrainingOptions::default() };
    let past = recorded.len() / 2;
    for kind in PredictorKind::ALL {
        let model = |recorded: &[Recorded]| {
            let mut reads = reads(recorded);
            reads.truncate(past);
            let set = TrainingSet { recorded, reads };
            let trained = train(kind, &[set], &label, &options, |_, _| {}).unwrap();
            let training = Provenance {
                trace: String::new(),
                fingerprint: String::new(),
                reads: past,
                slow: 0,
                until: Nanos::ZERO,
                inflection_percentile: None,
                false_submit_rate: None,
                cost: None,
                seed: 1,
                fit: None,
            };
            Model::new(trained, LabelRule::Knee, label.clone(), training).to_files().unwrap()
        };
        assert!(model(&recorded) == model(&recorded[..past]), "{kind:?}");
    }
}
