//! How accurate is a predictor?

use std::time::Instant;

use serde::Serialize;
use trimtab_learn::metrics::{
    Bin, average_precision, brier, calibration, expected_calibration_error, roc_auc,
};
use trimtab_predict::{
    DriftDetector, DriftReport, Forecast, Label, Predictor, PredictorKind, Recorded, Trained,
    Verdict,
};

use crate::reads::{Read, mask};
use crate::replay::{Event, events, replay};

/// Bins of the calibration.
const BINS: usize = 10;

/// A predictor's figures over the reads that it was evaluated on.
///
/// Rates are `None` where they have no reads to be of.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Score {
    /// Its name.
    pub predictor: &'static str,
    /// The area under the ROC curve: the probability that a slow read is given a greater
    /// probability than a fast one.
    pub auc: Option<f64>,
    /// The area under the curve of precision over recall (average precision).
    pub pr_auc: Option<f64>,
    /// The share of right verdicts.
    pub accuracy: Option<f64>,
    /// Of the reads predicted fast, the share that was slow.
    pub false_submit_rate: Option<f64>,
    /// Of the reads predicted late, the share that was fast.
    pub false_revoke_rate: Option<f64>,
    /// The same two, as shares of all reads.
    pub false_submits_of_all: f64,
    /// See `false_submits_of_all`.
    pub false_revokes_of_all: f64,
    /// The share of reads predicted late, which it would have refused.
    pub refused: f64,
    /// The mean distance between the probability and the share of slow reads, over tenths of
    /// the range.
    pub calibration_error: Option<f64>,
    /// The mean squared error of the probability.
    pub brier: Option<f64>,
    /// Whether its probabilities kept fitting, if it gives any.
    pub drift: Option<DriftReport>,
    /// The median time of a decision, with its features, ns.
    pub ns_per_decision: f64,
    /// The calibration, and the ROC curve as pairs of false and true positive rates, for
    /// charts.
    pub bins: Vec<CalibrationBin>,
    /// See `bins`.
    pub roc: Vec<[f64; 2]>,
    /// The curve of precision over recall, as pairs of recall and precision.
    pub precision_recall: Vec<[f64; 2]>,
}

/// Reads with about the same probability.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CalibrationBin {
    /// Their mean probability.
    pub probability: f64,
    /// The share of them that was slow.
    pub slow: f64,
    /// How many there are.
    pub count: u64,
}

/// A predictor's forecasts for some reads of a recording.
#[derive(Clone, Debug)]
pub struct Forecasts {
    /// One for each read, in the same order.
    pub all: Vec<Forecast>,
    /// The median time of a decision, with its features, ns.
    pub ns_per_decision: f64,
}

/// Replays a recording to a predictor, from its beginning, and asks for forecasts of some of
/// its reads.
#[must_use]
pub fn forecasts(trained: &Trained, recorded: &[Recorded], asked: &[Read]) -> Forecasts {
    forecasts_of(trained.predictor(), recorded, asked)
}

/// [`forecasts`] of a predictor in its initial state.
pub(crate) fn forecasts_of(
    mut predictor: Box<dyn Predictor>,
    recorded: &[Recorded],
    asked: &[Read],
) -> Forecasts {
    let asked_of = mask(recorded, asked);
    let mut all = Vec::with_capacity(asked.len());
    let mut times = Vec::with_capacity(asked.len());
    replay(recorded, &mut predictor, |i, predictor| {
        if asked_of[i] {
            let request = &recorded[i].request;
            let start = Instant::now();
            let forecast = std::hint::black_box(predictor.predict(request.arrival, request));
            times.push(start.elapsed());
            all.push(forecast);
        }
    });
    times.sort_unstable();
    let median = times.get(times.len() / 2).map_or(0.0, |time| time.as_nanos() as f64);
    Forecasts { all, ns_per_decision: (median - clock_cost()).max(0.0) }
}

/// Evaluates a predictor on some reads of a recording: [`forecasts`], and their [`score`].
#[must_use]
pub fn evaluate(trained: &Trained, recorded: &[Recorded], reads: &[Read], label: &Label) -> Score {
    score(trained.kind().name(), &forecasts(trained, recorded, reads), recorded, reads, label)
}

/// Compares a predictor's forecasts of some reads of a recording with their outcomes.
#[must_use]
pub fn score(
    predictor: &'static str,
    forecasts: &Forecasts,
    recorded: &[Recorded],
    reads: &[Read],
    label: &Label,
) -> Score {
    let slow: Vec<bool> = reads.iter().map(|read| read.is_slow(label)).collect();
    let all = &forecasts.all;
    let probabilities: Vec<f64> = all.iter().map(|f| f64::from(f.probability)).collect();
    let refused: Vec<bool> = all.iter().map(|f| f.verdict == Verdict::Late).collect();
    // By any label, not only that of the training: probabilities must come true.
    let drift = (predictor == PredictorKind::Trimtab.name())
        .then(|| drift(DriftDetector::default(), recorded, reads, all, label));
    let counted = counted(predictor, &probabilities, &refused, &slow);
    Score { drift, ns_per_decision: forecasts.ns_per_decision, ..counted }
}

/// Gives a drift detector the forecasts and outcomes of reads in order of completion.
pub(crate) fn drift(
    mut detector: DriftDetector,
    recorded: &[Recorded],
    reads: &[Read],
    forecasts: &[Forecast],
    label: &Label,
) -> DriftReport {
    let mut asked = vec![None; recorded.len()];
    reads.iter().zip(forecasts).for_each(|asks| asked[asks.0.index] = Some(asks));
    for event in events(recorded) {
        if let Event::Completed(i) = event
            && let Some((read, forecast)) = asked[i]
        {
            let threshold = label.limit_ns(read.pages, read.load);
            detector.completed(forecast, read.latency, read.is_slow(label), threshold);
        }
    }
    detector.report()
}

/// The cost of reading the clock, ns.
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

/// The figures that are counts and areas.
fn counted(
    predictor: &'static str,
    probabilities: &[f64],
    refused: &[bool],
    slow: &[bool],
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
        ns_per_decision: 0.0,
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
