//! `trimtab train --check`: whether a model still fits its drive.

use std::io::{self, Write};
use std::path::Path;

use anyhow::Result;
use serde::Serialize;
use trimtab_io::Nanos;
use trimtab_predict::Recorded;
use trimtab_report::Facts;
use trimtab_train::{ModelCheck, Read};

use crate::drift_text::drift;
use crate::{console, models, units};

#[derive(Debug, Serialize)]
struct Report {
    model: String,
    #[serde(flatten)]
    check: ModelCheck,
}

/// Checks a model on a recording, and prints the result.
pub(super) fn run(
    path: &Path,
    recorded: &[Recorded],
    reads: &[Read],
    peers: &[&[Nanos]],
    json: bool,
) -> Result<()> {
    let check = ModelCheck::new(&models::load(path)?, recorded, reads, peers)?;
    let report = Report { model: path.display().to_string(), check };
    let mut out = console::out(json);
    if json {
        serde_json::to_writer_pretty(&mut out, &report).map_err(io::Error::from)?;
        writeln!(out)?;
    } else {
        writeln!(out, "{}", facts(report))?;
    }
    Ok(())
}

fn facts(Report { model, check }: Report) -> Facts {
    let mut facts = Facts::new();
    facts.add("model", model);
    let comparison = check.comparison;
    let none = || "none: failing over did not pay".to_owned();
    let then = comparison.inflection_percentile_then;
    facts.add("inflection point then", then.map_or_else(none, |then| format!("p{then:.1}")));
    let now = comparison.inflection_percentile_now.zip(comparison.inflection_now);
    let shown = |(percentile, latency)| format!("p{percentile:.1}, {}", units::long(latency));
    facts.add("inflection point now", now.map_or_else(none, shown));
    if let Some(report) = check.drift {
        facts.add("drift", drift(report));
    }
    let verdict = if check.retrain { "train it again" } else { "still fits" };
    facts.add("verdict", format!("the inflection point {}: {verdict}", comparison.shift()));
    facts
}
