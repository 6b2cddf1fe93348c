//! Has a drive changed so much that its model is out of date?

use std::fmt;
use std::io::{self, Write};
use std::path::Path;

use anyhow::Result;
use serde::Serialize;
use trimtab_io::Nanos;
use trimtab_predict::label::{Inflection, inflection, percentile_of};
use trimtab_predict::{Found, Model, Read, Recorded, evaluate};
use trimtab_report::Facts;

use super::latencies;
use crate::exit::BadInput;
use crate::units;

/// A move of so many percentiles asks for training (LinnOS, §4.4).
const MOVED: f64 = 5.0;

/// Fewer reads than training takes say nothing of a percentile either.
const LEAST_READS: usize = 1000;

/// What has become of the inflection point.
#[derive(Clone, Copy, Debug)]
enum Moved {
    /// So many percentiles up or down.
    By(f64),
    Appeared,
    Vanished,
}

impl Moved {
    fn is_far(self) -> bool {
        !matches!(self, Self::By(percentiles) if percentiles < MOVED)
    }
}

impl fmt::Display for Moved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::By(percentiles) => write!(f, "moved by {percentiles:.1} percentiles"),
            Self::Appeared => f.write_str("has appeared"),
            Self::Vanished => f.write_str("has vanished"),
        }
    }
}

#[derive(Debug, Serialize)]
struct Told {
    model: String,
    /// Where the inflection point was among the latencies trained on, and where
    /// it is now, percent.
    inflection_percentile_then: Option<f64>,
    inflection_percentile_now: Option<f64>,
    inflection_now: Option<Nanos>,
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
    if reads.len() < LEAST_READS {
        let found = reads.len();
        let text = format!(
            "{found} reads say nothing, at least {LEAST_READS} are needed; record for longer"
        );
        return Err(BadInput(text).into());
    }
    let then = card.training.inflection_percentile;
    let now = inflection(&sorted, &peers, 1);
    let moved = match (then, now) {
        (Some(then), Some(now)) => Moved::By((now.percentile - then).abs()),
        (None, None) => Moved::By(0.0),
        (None, Some(_)) => Moved::Appeared,
        (Some(_), None) => Moved::Vanished,
    };
    let drift = evaluate(&trained, recorded, reads, &card.label).drift;
    let drifted = drift.is_some_and(|found| found.retrain_after.is_some());
    let told = Told {
        model: model.display().to_string(),
        inflection_percentile_then: then,
        inflection_percentile_now: now.map(|now| now.percentile),
        inflection_now: now.map(|now| now.latency),
        threshold_percentile_now: percentile_of(&sorted, card.label.threshold()),
        drift,
        retrain: drifted || moved.is_far(),
    };
    let mut out = io::stdout().lock();
    if json {
        serde_json::to_writer_pretty(&mut out, &told).map_err(io::Error::from)?;
        writeln!(out)?;
        return Ok(());
    }
    let mut facts = Facts::new();
    facts.add("model", told.model);
    let none = || "none: failing over did not pay".to_owned();
    facts.add("inflection point then", then.map_or_else(none, |then| format!("p{then:.1}")));
    let shown = |now: Inflection| format!("p{:.1}, {}", now.percentile, units::long(now.latency));
    facts.add("inflection point now", now.map_or_else(none, shown));
    let verdict = if told.retrain { "train it again" } else { "still fits" };
    if let Some(found) = drift {
        facts.add("drift", crate::evaluate::drift(found));
    }
    facts.add("verdict", format!("the inflection point {moved}: {verdict}"));
    writeln!(out, "{facts}")?;
    Ok(())
}
