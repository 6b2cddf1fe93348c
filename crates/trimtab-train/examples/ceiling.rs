//! How accurate would `trimtab` be without a limit on the time of a decision? Larger forests,
//! and averages of several, on recordings in the format of published replays (see
//! `trimtab trace info --help`): trained on the first half of the reads and evaluated on the
//! second, with labels as `trimtab evaluate` makes them.
//!
//! ```console
//! $ cargo run --release -p trimtab-train --example ceiling nvme-a.csv knee
//! ```

use std::error::Error;
use std::io::{self, Write};

use trimtab_io::{DeviceId, Flags, Nanos, Op, Request, RequestId};
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
    let recorded = recording(&std::fs::read_to_string(&path)?).ok_or("not a replay")?;
    let all = reads(&recorded);
    let (past, future) = all.split_at(all.len() / 2);
    let sets = &[TrainingSet { recorded: &recorded, reads: past.to_vec() }];
    let (all, options) = (data_latencies(&[&recorded]), TrainingOptions::default());
    let inputs = LabelInputs { sets, all: &all, peers: &[], options: &options };
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

fn recording(text: &str) -> Option<Vec<Recorded>> {
    let line = |line: &str| {
        let columns: Vec<&str> = line.split(',').collect();
        let [_, latency_us, op, length, offset, submit_ms, moved] = columns[..] else {
            return None;
        };
        let arrival = Nanos((submit_ms.parse::<f64>().ok()? * 1e6).round() as u64);
        let request = Request {
            id: RequestId(0),
            device: DeviceId(0),
            arrival,
            op: if op == "1" { Op::Read } else { Op::Write },
            offset: offset.parse().ok()?,
            length: length.parse().ok()?,
            flags: Flags::empty(),
            deadline: None,
        };
        let complete = arrival + Nanos::from_micros(latency_us.parse().ok()?);
        Some(Recorded { request, complete, data: moved.parse::<i64>().ok()? >= 0 })
    };
    let mut all = text.lines().map(line).collect::<Option<Vec<_>>>()?;
    all.sort_by_key(|recorded| recorded.request.arrival);
    Some(all)
}
