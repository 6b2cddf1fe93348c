//! Has a drive changed so much that its model is out of date?

use std::io::{self, Write};
use std::path::Path;

use anyhow::Result;
use serde::Serialize;
use trimtab_io::Nanos;
use trimtab_predict::label::{inflection, percentile_of};
use trimtab_predict::{Found, Model, Read, Recorded, evaluate};
use trimtab_report::Facts;

use super::latencies;
use crate::exit::BadInput;
use crate::units;

/// A move of so many percentiles asks for training (LinnOS, §4.4).
const MOVED: f64 = 5.0;

#[derive(Debug, Serialize)]
struct Told {
    model: String,
    /// Where the inflection point was among the latencies trained on, and where
    /// it is now, percent.
    inflection_percentile_then: f64,
    inflection_percentile_now: f64,
    inflection_now: Nanos,
    /// Where the model's threshold now lies, percent.
    threshold_percentile_now: f64,
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
    let Model { card, trained } = Model::load(model)?;
    let sorted = latencies(reads);
    let peers: Vec<&[Nanos]> = peers.iter().map(Vec::as_slice).collect();
    let (Some(then), Some(now)) =
        (card.training.inflection_percentile, inflection(&sorted, &peers, 1))
    else {
        let text = "there is no inflection point to compare: failing over did not pay";
        return Err(BadInput(text.into()).into());
    };
    let drift = evaluate(&trained, recorded, reads, &card.label).drift;
    let drifted = drift.is_some_and(|found| found.retrain_after.is_some());
    let told = Told {
        model: model.display().to_string(),
        inflection_percentile_then: then,
        inflection_percentile_now: now.percentile,
        inflection_now: now.latency,
        threshold_percentile_now: percentile_of(&sorted, card.label.threshold()),
        drift,
        retrain: drifted || (now.percentile - then).abs() >= MOVED,
    };
    let mut out = io::stdout().lock();
    if json {
        serde_json::to_writer_pretty(&mut out, &told).map_err(io::Error::from)?;
        writeln!(out)?;
        return Ok(());
    }
    let mut facts = Facts::new();
    facts.add("model", told.model);
    facts.add("inflection point then", format!("p{then:.1}"));
    let latency = units::long(now.latency);
    facts.add("inflection point now", format!("p{:.1}, {latency}", now.percentile));
    let moved = (now.percentile - then).abs();
    let verdict = if told.retrain { "train it again" } else { "still fits" };
    if let Some(found) = drift {
        facts.add("drift", crate::evaluate::drift(found));
    }
    facts.add("verdict", format!("moved by {moved:.1} percentiles: {verdict}"));
    writeln!(out, "{facts}")?;
    Ok(())
}
