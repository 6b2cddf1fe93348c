//! Facts about a model whose drive is monitored.

use trimtab_agent::DriftCheck;
use trimtab_predict::{DriftReport, Model, OnlineScore};
use trimtab_report::{count, utc};

use crate::drift_text;
use crate::units::{self, percent};

/// Facts of the model in a file, each with its name.
pub(crate) fn of(
    file: &str,
    model: &Model,
    score: &OnlineScore,
    drift: &DriftCheck,
    calibration: Option<DriftReport>,
) -> Vec<(&'static str, String)> {
    let card = &model.card;
    let late = match card.label.threshold() {
        Some(threshold) => format!("late is beyond {}", units::long(threshold)),
        None => format!("never refuses: {}", card.label.never().unwrap_or_default()),
    };
    let mut facts = vec![
        ("model", format!("{file}, {}: {late}", card.predictor.name())),
        (
            "trained",
            format!("on {} reads of {}", count(card.training.reads as u64), trained_on(model)),
        ),
        ("score", scored_reads(score)),
        ("wrong", wrong(score)),
    ];
    facts.push((
        "drift",
        match drift.last() {
            None => "is looked for once 10,000 reads have been answered".to_owned(),
            Some(checked) => format!("the inflection point {}", checked.comparison.shift()),
        },
    ));
    // A model that knows what its forecasts were worth is judged by them alone.
    let is_judged_by_it = model.card.training.fit.is_none();
    let moved = drift.far_since().filter(|_| is_judged_by_it).map(|since| {
        format!("the inflection point has been too far from the training's since {}", utc(since))
    });
    let untrue = calibration
        .filter(|found| found.retrain_after.is_some())
        .map(|_| "its forecasts no longer come true".to_owned());
    let reasons: Vec<String> = moved.into_iter().chain(untrue).collect();
    if !reasons.is_empty() {
        let how = "`trimtab record`, then `trimtab train` (`trimtab agent` can do it by itself)";
        facts.push(("train again", format!("{}: {how}", reasons.join(", and "))));
    }
    if let Some(found) = calibration.filter(|found| found.windows > 0) {
        facts.push(("calibration", drift_text::drift(found)));
    }
    facts
}

/// The recording's name, and when it ended if its clock is Unix time.
fn trained_on(model: &Model) -> String {
    /// In 2001. Recordings whose clock starts at their beginning never last that long.
    const UNIX: u64 = 1_000_000_000_000_000_000;
    let training = &model.card.training;
    match training.until {
        until if until.0 >= UNIX => format!("{}, until {}", training.trace, utc(until)),
        _ => training.trace.clone(),
    }
}

fn scored_reads(score: &OnlineScore) -> String {
    let OnlineScore { reads, late, predicted_late, .. } = score;
    let [reads, late, predicted_late] = [reads, late, predicted_late].map(|n| count(*n));
    format!("{reads} reads, {late} late, {predicted_late} predicted late")
}

fn wrong(score: &OnlineScore) -> String {
    let rate = |rate: Option<f64>| rate.map_or_else(|| units::NONE.to_owned(), percent);
    format!(
        "{} false submits ({}), {} false revokes ({})",
        count(score.false_submits),
        rate(score.false_submit_rate()),
        count(score.false_revokes),
        rate(score.false_revoke_rate()),
    )
}
