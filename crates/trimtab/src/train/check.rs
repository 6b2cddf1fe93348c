//! Has a drive changed so much that its model is out of date?

use std::io::{self, Write};
use std::path::Path;

use anyhow::Result;
use serde::Serialize;
use trimtab_io::Nanos;
use trimtab_predict::{Comparison, Found, Model, Read, Recorded, evaluate};
use trimtab_report::Facts;

use super::latencies;
use crate::console;
use crate::{model_files, units};

#[derive(Debug, Serialize)]
struct Told {
    model: String,
    #[serde(flatten)]
    comparison: Comparison,
    /// Whether the model's probabilities come true, if it gives any.
    drift: Option<Found>,
    retrain: bool,
}

/// Compares the inflection point with that of the training, and what the model
/// foretells with what comes.
pub(super) fn run(
    model: &Path,
    recorded: &[Recorded],
    reads: &[Read],
    peers: &[Vec<Nanos>],
    json: bool,
) -> Result<()> {
    let Model { card, trained } = model_files::load(model)?;
    let sorted = latencies(reads);
    let peers: Vec<&[Nanos]> = peers.iter().map(Vec::as_slice).collect();
    let comparison = Comparison::of(&card, &sorted, &peers)?;
    let moved = comparison.moved();
    let drift = evaluate(&trained, recorded, reads, &card.label).drift;
    let drifted = drift.is_some_and(|found| found.retrain_after.is_some());
    let told = Told {
        model: model.display().to_string(),
        comparison,
        drift,
        retrain: drifted || moved.is_far(),
    };
    let mut out = console::out(json);
    if json {
        serde_json::to_writer_pretty(&mut out, &told).map_err(io::Error::from)?;
        writeln!(out)?;
        return Ok(());
    }
    let mut facts = Facts::new();
    facts.add("model", told.model);
    let none = || "none: failing over did not pay".to_owned();
    let then = comparison.inflection_percentile_then;
    facts.add("inflection point then", then.map_or_else(none, |then| format!("p{then:.1}")));
    let now = comparison.inflection_percentile_now.zip(comparison.inflection_now);
    let shown = |(percentile, latency)| format!("p{percentile:.1}, {}", units::long(latency));
    facts.add("inflection point now", now.map_or_else(none, shown));
    let verdict = if told.retrain { "train it again" } else { "still fits" };
    if let Some(found) = drift {
        facts.add("drift", crate::evaluate::drift(found));
    }
    facts.add("verdict", format!("the inflection point {moved}: {verdict}"));
    writeln!(out, "{facts}")?;
    Ok(())
}
