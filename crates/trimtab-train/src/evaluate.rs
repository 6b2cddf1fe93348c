//! How good is a predictor?

use std::time::Instant;

use serde::Serialize;
use trimtab_learn::metrics::{
    Bin, average_precision, brier, calibration, expected_calibration_error, roc_auc,
};

use crate::Label;
use crate::dataset::Read;
use crate::drift::{Drift, Found};
use crate::history::{Event, Recorded, events, replay};
use crate::model::{Kind, Trained};
use crate::predictor::Verdict;
use crate::watching::Watching;

/// Bins of the calibration.
const BINS: usize = 10;

/// A predictor's figures over the reads it was judged by.
///
/// Rates are `None` where there is nothing that they could be of.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Score {
    /// Its name.
    pub predictor: &'static str,
    /// The area under the ROC curve: how likely a slow read is given a greater
    /// probability than a fast one.
    pub auc: Option<f64>,
    /// The area under the curve of precision over recall (average precision).
    pub pr_auc: Option<f64>,
    /// The share of right verdicts.
    pub accuracy: Option<f64>,
    /// Of the reads it would have sent, the share that was slow.
    pub false_submit_rate: Option<f64>,
    /// Of the reads it would have refused, the share that was fast.
    pub false_revoke_rate: Option<f64>,
    /// The same two, as shares of all reads.
    pub false_submits_of_all: f64,
    /// See `false_submits_of_all`.
    pub false_revokes_of_all: f64,
    /// The share of reads that it would have refused.
    pub refused: f64,
    /// The mean distance between the probability it gives and the share that
    /// was slow, over tenths of the range.
    pub calibration_error: Option<f64>,
    /// The mean squared error of the probability.
    pub brier: Option<f64>,
    /// Whether its probabilities went on coming true, if it gives any.
    pub drift: Option<Found>,
    /// The median time of a decision, with its features, ns.
    pub ns_per_decision: f64,
    /// The calibration, and the ROC curve as pairs of false and true positive
    /// rates: to be drawn.
    pub bins: Vec<CalibrationBin>,
    /// See `bins`.
    pub roc: Vec<[f64; 2]>,
    /// The curve of precision over recall, as pairs of recall and precision.
    pub precision_recall: Vec<[f64; 2]>,
}

/// Reads that were given about the same probability.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CalibrationBin {
    /// The mean probability that they were given.
    pub probability: f64,
    /// The share of them that was slow.
    pub slow: f64,
    /// How many there are.
    pub count: u64,
}

/// Judges a predictor by some of a recording's reads. It watches the recording
/// from its beginning, but is asked about these only.
#[must_use]
pub fn evaluate(trained: &Trained, recorded: &[Recorded], judged: &[Read], label: &Label) -> Score {
    let mut wanted = vec![false; recorded.len()];
    judged.iter().for_each(|read| wanted[read.index] = true);
    let mut probabilities = Vec::with_capacity(judged.len());
    let mut refused = Vec::with_capacity(judged.len());
    let mut times = Vec::with_capacity(judged.len());
    let mut predictor = Watching(trained.predictor());
    replay(recorded, &mut predictor, |i, predictor| {
        if wanted[i] {
            let request = &recorded[i].request;
            let start = Instant::now();
            let forecast = std::hint::black_box(predictor.0.predict(request.arrival, request));
            times.push(start.elapsed());
            probabilities.push(f64::from(forecast.probability));
            refused.push(forecast.verdict == Verdict::Late);
        }
    });
    let slow: Vec<bool> = judged.iter().map(|read| label.is_slow_read(read)).collect();
    times.sort_unstable();
    let median = times.get(times.len() / 2).map_or(0.0, |time| time.as_nanos() as f64);
    let ns_per_decision = (median - clock_cost()).max(0.0);
    let drift = (trained.kind() == Kind::Trimtab).then(|| {
        let all = judged.iter().zip(&probabilities).zip(&slow);
        drift(recorded, all.map(|((read, &p), &slow)| (read.index, p, slow)))
    });
    let score = score(predictor.0.name(), &probabilities, &refused, &slow, ns_per_decision);
    Score { drift, ..score }
}

/// Tells a [`Drift`] of reads (by number, probability and whether they were slow)
/// as they were answered.
fn drift(recorded: &[Recorded], told: impl Iterator<Item = (usize, f64, bool)>) -> Found {
    let mut asked = vec![None; recorded.len()];
    told.for_each(|(index, probability, slow)| asked[index] = Some((probability, slow)));
    let mut drift = Drift::default();
    for event in events(recorded) {
        if let Event::Completed(i) = event
            && let Some((probability, slow)) = asked[i]
        {
            drift.answered(probability as f32, slow);
        }
    }
    drift.found()
}

/// What reading the clock costs, ns.
fn clock_cost() -> f64 {
    let mut times: Vec<_> = (0..1001)
        .map(|_| {
            let start = Instant::now();
            start.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[times.len() / 2].as_nanos() as f64
}

fn score(
    predictor: &'static str,
    probabilities: &[f64],
    refused: &[bool],
    slow: &[bool],
    ns_per_decision: f64,
) -> Score {
    let count = |is: &dyn Fn(bool, bool) -> bool| {
        refused.iter().zip(slow).filter(|(refused, slow)| is(**refused, **slow)).count() as f64
    };
    let (all, late) = (slow.len() as f64, count(&|refused, _| refused));
    let false_submits = count(&|refused, slow| !refused && slow);
    let false_revokes = count(&|refused, slow| refused && !slow);
    let share = |part: f64, of: f64| (of > 0.0).then(|| part / of);
    let of_all = |part: f64| share(part, all).unwrap_or(0.0);
    let bins = calibration(probabilities, slow, BINS);
    let (roc, precision_recall) = curves(probabilities, slow);
    Score {
        predictor,
        auc: roc_auc(probabilities, slow),
        pr_auc: average_precision(probabilities, slow),
        accuracy: share(all - false_submits - false_revokes, all),
        false_submit_rate: share(false_submits, all - late),
        false_revoke_rate: share(false_revokes, late),
        false_submits_of_all: of_all(false_submits),
        false_revokes_of_all: of_all(false_revokes),
        refused: of_all(late),
        calibration_error: expected_calibration_error(&bins),
        brier: brier(probabilities, slow),
        drift: None,
        ns_per_decision,
        bins: bins.iter().map(CalibrationBin::new).collect(),
        roc,
        precision_recall,
    }
}

impl CalibrationBin {
    fn new(bin: &Bin) -> Self {
        Self { probability: bin.predicted, slow: bin.observed, count: bin.count }
    }
}

/// The ROC curve and that of precision over recall, in at most about a hundred
/// points each.
fn curves(probabilities: &[f64], slow: &[bool]) -> (Vec<[f64; 2]>, Vec<[f64; 2]>) {
    let mut order: Vec<usize> = (0..slow.len()).collect();
    order.sort_by(|&a, &b| probabilities[b].total_cmp(&probabilities[a]));
    let all_slow = slow.iter().filter(|slow| **slow).count();
    let all = [(slow.len() - all_slow).max(1) as f64, all_slow.max(1) as f64];
    let (mut roc, mut precision_recall, mut counts) = (vec![[0.0; 2]], Vec::new(), [0.0; 2]);
    for same in order.chunk_by(|&a, &b| probabilities[a] == probabilities[b]) {
        for &i in same {
            counts[usize::from(slow[i])] += 1.0;
        }
        let point = [counts[0] / all[0], counts[1] / all[1]];
        let last = roc[roc.len() - 1];
        if point == [1.0, 1.0] || (point[0] - last[0]) + (point[1] - last[1]) >= 0.02 {
            roc.push(point);
            precision_recall.push([point[1], counts[1] / (counts[0] + counts[1])]);
        }
    }
    (roc, precision_recall)
}
