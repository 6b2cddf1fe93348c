//! What do labels find in recordings with a known tail? Drives are simulated: stalls that make a
//! known share of the reads slow, buffer flushes, retries without any warning, and nothing. For
//! each label: where slow begins in the first half of the reads, and how well `trimtab` tells slow
//! reads from fast ones in the second.
//!
//! ```console
//! $ cargo run --release -p trimtab-compare --example labels
//! ```

#[path = "../tests/tails/mod.rs"]
mod tails;

use std::error::Error;
use std::io::{self, Write};

use tails::{Tail, recording};
use trimtab_io::Nanos;
use trimtab_predict::{LabelRule, PredictorKind, Verdict};
use trimtab_train::label::{self, LabelInputs, data_latencies, percentile_of};
use trimtab_train::{TrainingOptions, TrainingSet, forecasts, latencies, reads, score, train};

const REQUESTS: usize = 200_000;
const RULES: [LabelRule; 5] =
    [LabelRule::Cost, LabelRule::Knee, LabelRule::Inflection, LabelRule::Relative, LabelRule::P99];

fn main() -> Result<(), Box<dyn Error>> {
    let stalls = [0.001, 0.005, 0.02, 0.1, 0.4].map(Tail::Stalls);
    for tail in stalls.into_iter().chain([Tail::Flushes, Tail::Retries, Tail::Nothing]) {
        let recorded = recording(tail, REQUESTS, 1);
        let all = reads(&recorded);
        let (past, future) = all.split_at(all.len() / 2);
        let sorted = latencies(past);
        let at = |share: f64| sorted[(share * (sorted.len() - 1) as f64) as usize];
        writeln!(
            io::stdout(),
            "{tail:?}: p50 {} p90 {} p99 {} p99.9 {}",
            at(0.5),
            at(0.9),
            at(0.99),
            at(0.999)
        )?;
        let sets = &[TrainingSet { recorded: &recorded, reads: past.to_vec() }];
        let (both, options) = (data_latencies(&[&recorded]), TrainingOptions::default());
        let options = TrainingOptions { steered: 0.0, ..options };
        for rule in RULES {
            let t0 = std::time::Instant::now();
            let inputs = LabelInputs { sets, all: &both, peers: &[], options: &options };
            let label = label::make(rule, &inputs)?.label;
            let made = t0.elapsed();
            if let Some(reason) = label.never() {
                writeln!(io::stdout(), "  {:10} never: {reason} {made:?}", rule.name())?;
                continue;
            }
            let trained = match train(PredictorKind::Trimtab, sets, &label, &options, |_, _| {}) {
                Ok(trained) => trained,
                Err(error) => {
                    writeln!(io::stdout(), "  {:10} {error}", rule.name())?;
                    continue;
                }
            };
            let forecasts = forecasts(&trained, &recorded, future);
            let score = score(PredictorKind::Trimtab, &forecasts, &recorded, future, &label);
            let slow = future.iter().filter(|read| read.is_slow(&label)).count();
            let threshold = label.threshold().unwrap_or(Nanos::MAX);
            // What refusing gains: 9 µs and a fast read elsewhere.
            let mean = |of: &mut dyn Iterator<Item = f64>| of.sum::<f64>() / future.len() as f64;
            let elsewhere = 9_000.0 + at(0.5).0 as f64;
            let gain = mean(&mut future.iter().zip(&forecasts.all).map(|(read, forecast)| {
                if forecast.verdict == Verdict::Late {
                    read.latency.0 as f64 - elsewhere
                } else {
                    0.0
                }
            }));
            let most =
                mean(&mut future.iter().map(|read| (read.latency.0 as f64 - elsewhere).max(0.0)));
            writeln!(
                io::stdout(),
                "  {:10} {threshold} (p{:.2}), slow {:.2}%, AUC {:.3}, refused {:.2}%, gain {:.0} of {:.0} ns; {made:?} {:?}",
                rule.name(),
                percentile_of(&sorted, threshold),
                100.0 * slow as f64 / future.len() as f64,
                score.auc.unwrap_or(f64::NAN),
                100.0 * score.refused,
                gain,
                most,
                t0.elapsed()
            )?;
        }
    }
    Ok(())
}
