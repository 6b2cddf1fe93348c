//! `trimtab train --check`: whether a model fits a recording.

use std::io::{self, Write};
use std::path::Path;

use anyhow::Result;
use serde::Serialize;
use trimtab_io::Nanos;
use trimtab_predict::{FitMeasure, Model};
use trimtab_report::{Align, Facts, Table, count};
use trimtab_train::{FitCheck, MeasureChange, ModelCheck, Read, Recording};

use crate::drift_text::drift;
use crate::{console, models, units};

#[derive(Debug, Serialize)]
struct Report {
    model: String,
    /// Whether the model fits the recording.
    fits: bool,
    /// How the recording's drive differs from the model's, if both are known.
    other_drive: Option<String>,
    #[serde(flatten)]
    check: ModelCheck,
}

/// Checks a model on some reads of a recording, and prints the result. Returns why it does not
/// fit.
pub(super) fn run(
    path: &Path,
    recording: &Recording,
    reads: &[Read],
    peers: &[&[Nanos]],
    json: bool,
) -> Result<Option<String>> {
    let model = models::load(path)?;
    let mut check = ModelCheck::new(&model, &recording.recorded, reads, peers)?;
    let other = recording.drive.as_ref().and_then(|drive| model.other_drive(drive));
    check.retrain |= other.is_some();
    let other_drive = other.map(|other| other.to_string());
    let report =
        Report { model: path.display().to_string(), fits: !check.retrain, other_drive, check };
    let mut out = console::out(json);
    if json {
        serde_json::to_writer_pretty(&mut out, &report).map_err(io::Error::from)?;
        writeln!(out)?;
    } else {
        out.write_all(text(&model, &report).as_bytes())?;
    }
    out.flush()?;
    Ok((!report.fits).then(|| {
        let (name, of) = (&report.model, &recording.name);
        format!("{name}: does not fit {of}: {}; train it again", reason(&report))
    }))
}

fn text(model: &Model, Report { model: name, fits, other_drive, check }: &Report) -> String {
    let mut facts = Facts::new();
    facts.add("model", name.clone());
    let verdict = if *fits { "it fits" } else { "it does not fit: train it again" };
    facts.add("verdict", verdict.to_owned());
    if let Some(other) = other_drive {
        facts.add("drive", other.clone());
    }
    let comparison = &check.comparison;
    let none = || "none: failing over did not pay".to_owned();
    let then = comparison.inflection_percentile_then;
    facts.add("inflection point then", then.map_or_else(none, |then| format!("p{then:.1}")));
    let now = comparison.inflection_percentile_now.zip(comparison.inflection_now);
    let shown = |(percentile, latency)| format!("p{percentile:.1}, {}", units::long(latency));
    facts.add("inflection point now", now.map_or_else(none, shown));
    if let Some(report) = check.drift {
        facts.add("drift", drift(report));
    }
    let table = match &check.fit {
        Some(fit) => measures(fit).to_string(),
        None => {
            let version = model.card.version();
            format!(
                "A model of version {version} does not say what its forecasts were worth in \
                 training. The verdict\nis by the inflection point and the drift, and is often \
                 wrong. Train it again for a better one.\n"
            )
        }
    };
    format!("{facts}\n{table}")
}

fn measures(fit: &FitCheck) -> Table {
    let columns = [
        ("forecasts", Align::Left),
        ("then", Align::Right),
        ("now", Align::Right),
        ("off by", Align::Right),
    ];
    let (then, now) = (count(fit.blocks_then as u64), count(fit.blocks_now as u64));
    let caption = format!(
        "{now} blocks of {} reads against {then} of the training; off by is in standard errors, \
         and up to {:.1} fit.",
        fit.block, fit.limit
    );
    let mut table = Table::new(&columns).with_caption(&caption);
    for MeasureChange { measure, then, now, standard_errors } in &fit.measures {
        let row = |value: f64| format!("{value:.3}");
        table.row([
            what(*measure).to_owned(),
            row(*then),
            row(*now),
            format!("{standard_errors:.1}"),
        ]);
    }
    table
}

const fn what(measure: FitMeasure) -> &'static str {
    match measure {
        FitMeasure::SlowReads => "slow reads beyond the forecast, share of reads",
        FitMeasure::Surprise => "surprise beyond the forecast, nats",
        FitMeasure::Latency => "ln(latency / forecast), mean",
        FitMeasure::Error => "ln(latency / forecast), mean distance from 0",
    }
}

/// Why a model does not fit.
fn reason(Report { other_drive, check, .. }: &Report) -> String {
    match (other_drive, &check.fit) {
        (Some(other), _) => format!("the recording is of another drive, {other}"),
        (None, Some(fit)) => {
            let MeasureChange { measure, then, now, standard_errors } = fit.worst();
            let (what, off) = (what(measure), standard_errors.abs());
            format!("{what}: {now:.3}, in training {then:.3}, {off:.1} standard errors off")
        }
        (None, None) => match check.drift.and_then(|report| report.retrain_after) {
            Some(_) => "its forecasts do not come true".to_owned(),
            None => format!("the inflection point {}", check.comparison.shift()),
        },
    }
}
