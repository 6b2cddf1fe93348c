//! What do labels find in recordings with a known tail? Drives are simulated: stalls that make a
//! known share of the reads slow, buffer flushes, retries without any warning, and nothing. For
//! each label: where slow begins in the first half of the reads, how well `trimtab` tells slow
//! reads from fast ones in the second, and what its refusals gain there, as a mean over all reads.
//!
//! ```console
//! $ cargo run --release -p trimtab-compare --example labels
//! ```

#[path = "../tests/tails/mod.rs"]
mod tails;

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{self, Write};

use tails::{Tail, recording};
use trimtab_io::Nanos;
use trimtab_predict::{LabelRule, PredictorKind, Recorded, Verdict};
use trimtab_report::{Align, Table};
use trimtab_train::label::{self, LabelInputs, data_latencies, percentile_of};
use trimtab_train::{
    Read, TrainingOptions, TrainingSet, forecasts, latencies, reads, score, train,
};

const REQUESTS: usize = 400_000;
const RULES: [LabelRule; 4] =
    [LabelRule::Cost, LabelRule::Knee, LabelRule::Inflection, LabelRule::P99];

fn main() -> Result<(), Box<dyn Error>> {
    let right = |name| (name, Align::Right);
    let columns = [
        ("tail", Align::Left),
        ("label", Align::Left),
        right("slow is beyond"),
        right("percentile"),
        right("slow"),
        right("AUC"),
        right("refused"),
        right("gain"),
        right("at most"),
    ];
    let stalls = [0.001, 0.005, 0.02, 0.1, 0.4].map(Tail::Stalls);
    for tail in stalls.into_iter().chain([Tail::Flushes, Tail::Retries, Tail::Nothing]) {
        let mut table = Table::new(&columns);
        let recorded = recording(tail, REQUESTS, 1);
        let all = reads(&recorded);
        for rule in RULES {
            let (past, future) = all.split_at(all.len() / 2);
            let cells = row(rule, &recorded, past, future)?;
            table.row([format!("{tail:?}"), rule.name().to_owned()].into_iter().chain(cells));
        }
        writeln!(io::stdout(), "{table}")?;
    }
    Ok(())
}

/// The result of a label, or why there is none.
fn row(
    rule: LabelRule,
    recorded: &[Recorded],
    past: &[Read],
    future: &[Read],
) -> Result<Vec<String>, Box<dyn Error>> {
    let sets = &[TrainingSet { recorded, reads: past.to_vec() }];
    let options = TrainingOptions { steered: 0.0, ..TrainingOptions::default() };
    let both = data_latencies(&[recorded]);
    let inputs = LabelInputs { sets, all: &both, peers: &[], timed: &[], options: &options };
    let made = label::make(rule, &inputs)?;
    let label = &made.label;
    let Some(threshold) = label.threshold() else {
        return Ok(vec![label.never().unwrap_or_default().to_owned()]);
    };
    let trained = train(PredictorKind::Trimtab, sets, label, &options, |_, _| {});
    let trained = match trained {
        Ok(trained) => trained,
        Err(error) => return Ok(vec![error.to_string()]),
    };
    let forecasts = forecasts(&trained, recorded, future);
    let score = score(PredictorKind::Trimtab.name(), &forecasts, recorded, future, label);
    let mean = |of: &dyn Fn(usize) -> f64| {
        Nanos(((0..future.len()).map(of).sum::<f64>() / future.len() as f64).max(0.0) as u64)
    };
    let sorted = latencies(past);
    // Elsewhere a read takes as long as most of its size do, and the failover comes before it.
    let mut sizes: BTreeMap<u32, Vec<Nanos>> = BTreeMap::new();
    past.iter().for_each(|read| sizes.entry(read.pages).or_default().push(read.latency));
    sizes.values_mut().for_each(|latencies| latencies.sort_unstable());
    let usual = |read: &Read| sizes.get(&read.pages).map_or(read.latency, |of| of[of.len() / 2]);
    let gain =
        |i: usize| future[i].latency.0 as f64 - (usual(&future[i]) + options.failover).0 as f64;
    let refused = |i: usize| forecasts.all[i].verdict == Verdict::Late;
    let slow = future.iter().filter(|read| read.is_slow(label)).count();
    let percent = |share: f64| format!("{:.2}%", 100.0 * share);
    Ok(vec![
        threshold.to_string(),
        format!("p{:.2}", percentile_of(&sorted, threshold)),
        percent(slow as f64 / future.len() as f64),
        score.auc.map_or_else(String::new, |auc| format!("{auc:.3}")),
        percent(score.refused),
        mean(&|i| if refused(i) { gain(i) } else { 0.0 }).to_string(),
        mean(&|i| gain(i).max(0.0)).to_string(),
    ])
}
