//! How accurate would `trimtab` be without a limit on the time of a decision? Larger forests,
//! and averages of several, on recordings in the format of published replays (see
//! `trimtab trace info --help`): trained on the first half of the reads and evaluated on the
//! second, with labels as `trimtab evaluate` makes them.
//!
//! ```console
//! $ cargo run --release -p trimtab-train --example ceiling nvme-a.csv knee
//! ```

mod published;

use std::error::Error;
use std::io::{self, Write};

use trimtab_learn::metrics::roc_auc;
use trimtab_predict::{PredictorKind, Recorded, Ticket, Trained};
use trimtab_train::label::{self, LabelInputs, data_latencies};
use trimtab_train::{Event, TrainingOptions, TrainingSet, events, reads, train};

/// Trees, leaves of each, and seeds that are averaged.
const SIZES: [(usize, usize, u64); 5] =
    [(32, 8, 1), (32, 8, 5), (64, 8, 5), (256, 8, 5), (256, 31, 5)];

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or("give a recording and a label")?;
    let rule = args.next().ok_or("give a label")?.parse()?;
    let recorded = published::recording(&std::fs::read_to_string(&path)?).ok_or("not a replay")?;
    let all = reads(&recorded);
    let (past, future) = all.split_at(all.len() / 2);
    let sets = &[TrainingSet { recorded: &recorded, reads: past.to_vec() }];
    let (all, options) = (data_latencies(&[&recorded]), TrainingOptions::default());
    let inputs = LabelInputs { sets, all: &all, peers: &[], timed: &[], options: &options };
    let label = label::make(rule, &inputs)?.label;
    let slow: Vec<bool> = future.iter().map(|read| read.is_slow(&label)).collect();
    for (trees, leaves, seeds) in SIZES {
        let mut sums = vec![0.0; recorded.len()];
        for seed in 1..=seeds {
            let options = TrainingOptions { trees, leaves, seed, ..options };
            let trained = train(PredictorKind::Trimtab, sets, &label, &options, |_, _| {})?;
            add(&mut sums, &trained, &recorded);
        }
        let scores: Vec<f64> = future.iter().map(|read| sums[read.index]).collect();
        let auc = roc_auc(&scores, &slow).ok_or("all are slow, or none")?;
        writeln!(io::stdout(), "{trees} trees of {leaves} leaves, {seeds} seeds: {auc:.3}")?;
    }
    Ok(())
}

/// Adds the probability that a predictor gives to each request.
fn add(sums: &mut [f64], trained: &Trained, recorded: &[Recorded]) {
    let (mut predictor, mut tickets) = (trained.predictor(), vec![Ticket(0); recorded.len()]);
    for event in events(recorded) {
        match event {
            Event::Sent(i) => {
                let request = &recorded[i].request;
                sums[i] += f64::from(predictor.predict(request.arrival, request).probability);
                tickets[i] = predictor.sent(request.arrival, request);
            }
            Event::Completed(i) => {
                predictor.completed(recorded[i].complete, tickets[i], recorded[i].data);
            }
        }
    }
}
