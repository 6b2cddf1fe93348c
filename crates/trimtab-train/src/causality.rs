//! Nobody sees the future, and what is trained on is what is decided by.

use std::sync::LazyLock;

use proptest::prelude::*;
use trimtab_io::{Nanos, Op, Request};
use trimtab_learn::Simd;

use crate::dataset::{digits, features};
use crate::history::{Recorded, Watcher, replay};
use crate::predictor::{Forecast, Predictor, Ticket, Verdict};
use crate::testing::{recording, request};
use crate::units::UnitFunction;
use crate::{
    Event, Kind, Label, Lesson, Linnos, Model, Options, Rule, Trained, Training, Watch, events,
    reads, train,
};

/// One of each kind, trained on a drive that has nothing to do with the tests'.
static TRAINED: LazyLock<Vec<Trained>> = LazyLock::new(|| {
    let recorded = recording();
    let label = Label::Threshold { latency: Nanos(400_000) };
    let options = Options { trees: 10, ..Options::default() };
    let one = |kind| train(kind, &[Lesson::whole(&recorded)], &label, &options, |_, _| {}).unwrap();
    Kind::ALL.map(one).into()
});

/// A function of each kind.
fn functions() -> Vec<UnitFunction> {
    vec![
        UnitFunction::Page { shift: 13 },
        UnitFunction::Stripe { shift: 12, units: 6 },
        UnitFunction::Parity { masks: vec![0b101 << 12, 0b10 << 12] },
    ]
}

/// A request to be sent so long after the one before, and its answer. Times are
/// coarse, so that many things happen at one instant.
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

/// A recording, and one that is the same up to the moment in which the last of
/// the first so many requests is about to be sent: what is in flight then is
/// answered at other times and in other ways, and what comes later is another.
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
            // Of the last one not even the answer at once is known.
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

/// What a predictor says of each request before it is sent.
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

/// The same by the most literal reading of "what had happened by then": before
/// each request all answers that had come by then, in their order.
fn told_by_hand<W: Watcher, T>(
    recorded: &[Recorded],
    watcher: &mut W,
    look: impl Fn(&W, &Request) -> T,
) -> Vec<T> {
    let (mut all, mut tickets) = (Vec::new(), Vec::new());
    let mut waiting: Vec<usize> = Vec::new();
    for (i, Recorded { request, .. }) in recorded.iter().enumerate() {
        waiting.sort_by_key(|&j| (recorded[j].complete, j));
        while let Some(&j) = waiting.first().filter(|&&j| recorded[j].complete <= request.arrival) {
            watcher.completed(recorded[j].complete, tickets[j], recorded[j].data);
            waiting.remove(0);
        }
        all.push(look(watcher, request));
        tickets.push(watcher.sent(request.arrival, request));
        waiting.push(i);
    }
    all
}

proptest! {
    #[test]
    fn the_future_changes_no_number((one, other, known) in twins()) {
        let all = |recorded: &[Recorded]| vec![true; recorded.len()];
        let functions = functions();
        let ours = features(&one, &all(&one), &functions);
        let others = features(&other, &all(&other), &functions);
        prop_assert_eq!(&ours[..known], &others[..known]);
        let (ours, others) = (digits(&one, &all(&one)), digits(&other, &all(&other)));
        prop_assert_eq!(&ours[..known], &others[..known]);
    }

    #[test]
    fn the_future_changes_no_forecast((one, other, known) in twins()) {
        for trained in &*TRAINED {
            let (ours, others) = (forecasts(trained, &one), forecasts(trained, &other));
            prop_assert_eq!(&ours[..known], &others[..known], "{:?}", trained.kind());
        }
    }

    #[test]
    fn trained_on_is_what_is_decided_by(
        steps in prop::collection::vec((step(), any::<bool>()), 1..80),
    ) {
        let (steps, wanted): (Vec<_>, Vec<_>) = steps.into_iter().unzip();
        let mut recorded = Vec::new();
        add(&mut recorded, &steps);
        let of_wanted = |i: &usize| wanted[*i];
        let asked: Vec<usize> = (0..recorded.len()).filter(of_wanted).collect();

        let functions = functions();
        let trained_on = features(&recorded, &wanted, &functions);
        let watch = &mut Watch::new(&functions);
        let live = told_by_hand(&recorded, watch, |watch, r| watch.features(r.arrival, r));
        prop_assert_eq!(&trained_on, &asked.iter().map(|&i| live[i]).collect::<Vec<_>>());

        for trained in &*TRAINED {
            let forecasts = forecasts(trained, &recorded);
            let said: Vec<_> = asked.iter().map(|&i| forecasts[i]).collect();
            match trained {
                Trained::HeurSim(_) | Trained::HeurAdv(_) => {}
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

/// Who wants to know of late requests alone is told the same of them, and that the others
/// are not.
#[test]
fn of_late_requests_the_short_forecast_is_the_same() {
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

/// Asked or not asked, a predictor goes on alike.
#[test]
fn asking_changes_nothing() {
    let recorded = &recording()[..1000];
    for trained in &*TRAINED {
        let (mut asked, mut silent) = (Vec::new(), Vec::new());
        replay(recorded, &mut Boxed(trained.predictor()), |i, predictor| {
            let request = &recorded[i].request;
            for later in [0, 1000, 1 << 30] {
                asked.push(predictor.0.predict(request.arrival + Nanos(later), request));
            }
        });
        replay(recorded, &mut Boxed(trained.predictor()), |i, predictor| {
            let request = &recorded[i].request;
            silent.push(predictor.0.predict(request.arrival, request));
        });
        assert!(asked.iter().step_by(3).eq(&silent), "{:?}", trained.kind());
    }
}

struct Boxed(Box<dyn Predictor>);

impl Watcher for Boxed {
    fn sent(&mut self, now: Nanos, request: &Request) -> Ticket {
        self.0.sent(now, request)
    }

    fn completed(&mut self, now: Nanos, ticket: Ticket, data: bool) {
        self.0.completed(now, ticket, data);
    }
}

/// What is sent after the last read that is learnt from teaches nothing.
#[test]
fn what_comes_later_teaches_nothing() {
    let recorded = recording();
    let label = Label::Threshold { latency: Nanos(400_000) };
    let options = Options { trees: 10, ..Options::default() };
    let past = recorded.len() / 2;
    for kind in Kind::ALL {
        let model = |recorded: &[Recorded]| {
            let mut reads = reads(recorded);
            reads.truncate(past);
            let lesson = Lesson { recorded, reads };
            let trained = train(kind, &[lesson], &label, &options, |_, _| {}).unwrap();
            let training = Training {
                trace: String::new(),
                fingerprint: String::new(),
                reads: past,
                slow: 0,
                until: Nanos::ZERO,
                inflection_percentile: None,
                false_submit_rate: None,
                seed: 1,
            };
            Model::new(trained, Rule::Knee, label.clone(), training).to_files().unwrap()
        };
        assert!(model(&recorded) == model(&recorded[..past]), "{kind:?}");
    }
}
