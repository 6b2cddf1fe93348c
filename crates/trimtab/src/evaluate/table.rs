//! The scores as text.

use std::fmt::Write as _;

use trimtab_predict::Label;
use trimtab_report::{Align, Table, count, escaped};
use trimtab_train::ModelOrigin;

use super::summary::{LabelSummary, PredictorSummary, Summary};
use crate::drift_text::drift;
use crate::units;

/// A recording's scores.
pub(super) fn text(summary: &Summary) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    _ = writeln!(text, "{}", escaped(&summary.trace));
    _ = writeln!(text, "protocol  {}", protocol(summary));
    _ = writeln!(text, "label     {}", label(summary));
    let slow = summary.label.as_ref().map(|label| format!(" of which {}", slow(label)));
    let trained =
        summary.reads_trained_on.map(|reads| format!("trained on {}, ", count(reads as u64)));
    _ = writeln!(
        text,
        "reads     {}evaluated on {}{}",
        trained.unwrap_or_default(),
        count(summary.reads_scored as u64),
        slow.unwrap_or_default(),
    );
    for one in &summary.predictors {
        let Some(model) = &one.model else { continue };
        let of = one.label.as_ref().map(|label| format!("; {}", own_label(label)));
        let origin = origin(model);
        let (file, origin) = (escaped(&model.file), escaped(&origin));
        _ = writeln!(text, "model     {file}: {origin}{}", of.unwrap_or_default());
    }
    _ = writeln!(text, "\n{}", scores(summary));
    for (name, drift) in drifts(summary) {
        _ = writeln!(text, "drift of {name}: {drift}\n");
    }
    text
}

pub(super) fn protocol(summary: &Summary) -> String {
    let leaky = if summary.leaky { " (leaky: training has seen the future)" } else { "" };
    format!("{}{leaky}", summary.protocol.name())
}

/// The label, and its rule.
pub(super) fn label(summary: &Summary) -> String {
    match &summary.label {
        Some(label) => rule_and_label(label),
        None => "of each model its own, so their figures are of different reads; --label knee \
                 compares them"
            .to_owned(),
    }
}

/// The label of one model, and how many reads are slow by it.
pub(super) fn own_label(label: &LabelSummary) -> String {
    format!("{}; {}", rule_and_label(label), slow(label))
}

fn slow(label: &LabelSummary) -> String {
    format!("{:.1}% are slow", 100.0 * label.slow_share)
}

fn rule_and_label(summary: &LabelSummary) -> String {
    let label = match &summary.label {
        Label::Threshold { latency } => format!("slow is beyond {}", units::long(*latency)),
        Label::Relative { times, .. } => {
            format!("slow is beyond {times:.2} times the latency expected at its size and load")
        }
        Label::Never { reason } => format!("no read is slow, {}", escaped(reason)),
    };
    let own = if summary.own_peer { ", with the recording as its own peer" } else { "" };
    format!("{}: {label}{own}", summary.rule.name())
}

/// What a model was trained on.
pub(super) fn origin(model: &ModelOrigin) -> String {
    let reads = count(model.reads_trained_on as u64);
    let same = if model.same_recording { ", the past of this recording" } else { "" };
    format!("trained on {reads} reads of {}{same}", model.trained_on)
}

/// The drift of the predictors that give probabilities.
pub(super) fn drifts(summary: &Summary) -> Vec<(String, String)> {
    let one = |one: &PredictorSummary| Some((one.name(), drift(one.score.drift?)));
    summary.predictors.iter().filter_map(one).collect()
}

/// The table.
pub(super) fn scores(summary: &Summary) -> Table {
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
    for score in &summary.predictors {
        table.row(row(score));
    }
    table
}

fn row(predictor: &PredictorSummary) -> Vec<String> {
    let score = &predictor.score;
    let figure = |x: Option<f64>| x.map_or_else(|| units::NONE.to_owned(), |x| format!("{x:.3}"));
    let share =
        |x: Option<f64>| x.map_or_else(|| units::NONE.to_owned(), |x| format!("{:.1}%", 100.0 * x));
    vec![
        predictor.name(),
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
