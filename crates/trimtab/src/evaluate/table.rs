//! The scores for people.

use std::fmt::Write as _;

use trimtab_predict::{Found, Label};
use trimtab_report::{Align, Table, count, escaped};

use super::{Told, ToldModel, ToldScore};
use crate::units;

/// A recording's scores.
pub(super) fn text(told: &Told) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    _ = writeln!(text, "{}", escaped(&told.trace));
    _ = writeln!(text, "protocol  {}", protocol(told));
    _ = writeln!(text, "label     {}", label(told));
    let trained =
        told.reads_trained_on.map(|reads| format!("trained on {}, ", count(reads as u64)));
    _ = writeln!(
        text,
        "reads     {}judged by {} of which {:.1}% are slow",
        trained.unwrap_or_default(),
        count(told.reads_judged as u64),
        100.0 * told.label.slow_share,
    );
    for model in told.predictors.iter().filter_map(|told| told.model.as_ref()) {
        _ = writeln!(text, "model     {}: {}", escaped(&model.file), escaped(&origin(model)));
    }
    _ = writeln!(text, "\n{}", scores(told));
    for (name, drift) in drifts(told) {
        _ = writeln!(text, "drift of {name}: {drift}\n");
    }
    text
}

pub(super) fn protocol(told: &Told) -> String {
    let leaky = if told.leaky { " (leaky: the past knows of the future)" } else { "" };
    format!("{}{leaky}", told.protocol.name())
}

/// What is slow, and by which rule.
pub(super) fn label(told: &Told) -> String {
    let label = match &told.label.label {
        Label::Threshold { latency } => format!("slow is beyond {}", units::long(*latency)),
        Label::Relative { times, .. } => {
            format!("slow is beyond {times:.2} times what its size and load let expect")
        }
    };
    let own = if told.label.own_peer { ", with the recording as its own peer" } else { "" };
    format!("{}: {label}{own}", told.label.rule.name())
}

/// Where a model comes from.
pub(super) fn origin(model: &ToldModel) -> String {
    let reads = count(model.reads_trained_on as u64);
    let same = if model.same_recording { ", this very recording: its past" } else { "" };
    format!("trained on {reads} reads of {}{same}", model.trained_on)
}

/// Whether the probabilities of those that give some went on coming true.
pub(super) fn drifts(told: &Told) -> Vec<(String, String)> {
    let one = |told: &ToldScore| Some((told.name(), drift(told.score.drift?)));
    told.predictors.iter().filter_map(one).collect()
}

pub(crate) fn drift(found: Found) -> String {
    let (misfits, windows) = (count(found.misfits.into()), count(found.windows.into()));
    let verdict = match found.retrain_after {
        Some(reads) => format!("train again, it was clear after {} reads", count(reads)),
        None => "none".to_owned(),
    };
    let window = count(found.window.into());
    format!("{verdict} ({misfits} of {windows} windows of {window} reads do not fit)")
}

/// The table.
pub(super) fn scores(told: &Told) -> Table {
    let columns = [
        ("predictor", Align::Left),
        ("AUC", Align::Right),
        ("PR AUC", Align::Right),
        ("accuracy", Align::Right),
        ("refused", Align::Right),
        ("false submits", Align::Right),
        ("of all", Align::Right),
        ("false revokes", Align::Right),
        ("of all", Align::Right),
        ("calibration", Align::Right),
        ("ns/decision", Align::Right),
    ];
    let mut table = Table::new(&columns);
    for score in &told.predictors {
        table.row(row(score));
    }
    table
}

fn row(told: &ToldScore) -> Vec<String> {
    let score = &told.score;
    let figure = |x: Option<f64>| x.map_or_else(|| units::NONE.to_owned(), |x| format!("{x:.3}"));
    let share =
        |x: Option<f64>| x.map_or_else(|| units::NONE.to_owned(), |x| format!("{:.1}%", 100.0 * x));
    vec![
        told.name(),
        figure(score.auc),
        figure(score.pr_auc),
        share(score.accuracy),
        share(Some(score.refused)),
        share(score.false_submit_rate),
        share(Some(score.false_submits_of_all)),
        share(score.false_revoke_rate),
        share(Some(score.false_revokes_of_all)),
        figure(score.calibration_error),
        format!("{:.0}", score.ns_per_decision),
    ]
}
