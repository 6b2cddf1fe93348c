//! Models for tests, trained quickly on synthetic recordings.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::sync::Arc;

use trimtab_io::{DeviceId, Flags, Issuer, Nanos, Op, Request, RequestId};
use trimtab_predict::{
    Label, LabelRule, Model, PredictorKind, Provenance, Recorded, Trained, fingerprint,
};
use trimtab_read::{ReadOptions, Source};
use trimtab_state::LiveDrive;
use trimtab_train::{TrainingOptions, TrainingSet, train};

const US: u64 = 1000;
/// A completed read.
pub(crate) fn recorded(arrival: Nanos, offset: u64, complete: Nanos) -> Recorded {
    let request = Request {
        id: RequestId(0),
        device: DeviceId(0),
        arrival,
        op: Op::Read,
        offset,
        length: 4096,
        flags: Flags::empty(),
        deadline: None,
        issuer: Issuer::default(),
    };
    Recorded { request, complete, data: true }
}

/// A drive whose reads take `least`, and up to twenty steps more. Every 20 ms it is busy for 5
/// ms, and the reads of that time complete at its end.
fn invented(least: u64, step: u64) -> Vec<Recorded> {
    let read = |i: u64| {
        let arrival = 250 * US * i + i * 7919 % 50 * US;
        let (bad, into) = (15_000 * US, arrival % (20_000 * US));
        let wait = if into > bad { 20_000 * US - into } else { 0 };
        let complete = arrival + wait + least + i * 31 % 20 * step;
        recorded(Nanos(arrival), i * 7919 % 4096 * 4096, Nanos(complete))
    };
    (0..6000).map(read).collect()
}

/// A model trained on reads that are late together.
pub(crate) fn model() -> Model {
    learnt_from(&invented(100 * US, US), Nanos::from_millis(1))
}

/// The same, for a drive whose reads take from 50 µs to 1.5 ms even when it is not busy, as
/// they do behind writes.
pub(crate) fn patient_model() -> Model {
    learnt_from(&invented(50 * US, 75 * US), Nanos::from_millis(3))
}

/// A model of a recording, with this latency as the threshold of late.
pub(crate) fn learnt_from(recorded: &[Recorded], latency: Nanos) -> Model {
    let quickly = TrainingOptions { trees: 16, leaves: 4, ..TrainingOptions::default() };
    learnt(recorded, latency, &quickly)
}

fn learnt(recorded: &[Recorded], latency: Nanos, options: &TrainingOptions) -> Model {
    let label = Label::Threshold { latency };
    let sets = [TrainingSet::whole(recorded)];
    let trained = train(PredictorKind::Trimtab, &sets, &label, options, |_, _| {}).unwrap();
    let training = Provenance {
        trace: "none".to_owned(),
        fingerprint: fingerprint(recorded),
        reads: recorded.len(),
        slow: 0,
        until: Nanos::ZERO,
        inflection_percentile: None,
        false_submit_rate: None,
        cost: None,
        seed: 1,
        fit: None,
    };
    Model::new(trained, LabelRule::Knee, label, training)
}

/// The same, but it predicts every read late, or none.
pub(crate) fn stubborn(is_late: bool) -> Model {
    of_one_mind(model(), is_late)
}

/// The same, with forests as large as `trimtab train` makes them.
pub(crate) fn stubborn_of_full_size(is_late: bool) -> Model {
    of_one_mind(
        learnt(&invented(100 * US, US), Nanos::from_millis(1), &TrainingOptions::default()),
        is_late,
    )
}

fn of_one_mind(model: Model, is_late: bool) -> Model {
    let Model { card, trained } = model;
    let Trained::Trimtab(mut shared) = trained else { unreachable!("it was asked for") };
    let forests = Arc::get_mut(&mut shared).expect("there is one owner");
    forests.refuse_from = if is_late { i32::MIN } else { i32::MAX };
    // As if it were newly trained, so that its card matches.
    Model::new(Trained::Trimtab(shared), card.rule, card.label, card.training)
}

/// Options to decide by a model and a state alone: unpublished, unsampled, without a ceiling
/// and with rare probes.
pub(crate) fn strictly(model: Model, drive: &LiveDrive) -> ReadOptions {
    ReadOptions {
        source: Source::Given(drive.clone()),
        probe_every: std::time::Duration::from_secs(3600),
        sample_every: 0,
        most_refused: 1.0,
        publish: None,
        ..ReadOptions::with_model(model)
    }
}
