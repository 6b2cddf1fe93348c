//! A drive's figures: a state machine from records to figures, without clock or thread.

use std::collections::VecDeque;
use std::sync::Arc;

use serde::Serialize;
use trimtab_io::{Flags, LatencyHistogram, Nanos, Op, RecentLatencies, RequestId};
use trimtab_predict::{DriftReport, Model, OnlineEvaluator, OnlineScore, Recorded};
use trimtab_trace::Record;

use super::buckets::LatencyBuckets;

/// The last reads whose latencies are kept for the inflection point: 800 KB.
const LATEST: usize = 100_000;

/// Completed requests of one op.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OpTotal {
    /// Their number.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// A drive's counters since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Totals by the number of the [`Op`].
    pub ops: [OpTotal; Op::ALL.len()],
    /// Requests that ended in an error.
    pub errors: u64,
}

impl Totals {
    /// The totals of one op.
    #[must_use]
    pub const fn of(&self, op: Op) -> OpTotal {
        self.ops[op as usize]
    }
}

/// Samples of the number of requests at the driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Depth {
    /// Reads and writes at the last sample.
    pub now: [u32; 2],
    /// Sum of both over all samples.
    pub sum: u64,
    /// The number of samples.
    pub looks: u64,
}

impl Depth {
    /// Adds a sample of reads and writes in flight.
    pub fn saw(&mut self, now: [u32; 2]) {
        *self = Self { now, sum: self.sum + u64::from(now[0] + now[1]), looks: self.looks + 1 };
    }

    /// The mean since an earlier state of the samples.
    #[must_use]
    pub fn mean_since(&self, earlier: &Self) -> f64 {
        (self.sum - earlier.sum) as f64 / (self.looks - earlier.looks).max(1) as f64
    }
}

/// All figures of a drive.
pub struct DriveFigures {
    totals: Totals,
    depth: Depth,
    reads: LatencyBuckets,
    writes: LatencyBuckets,
    recent: RecentLatencies,
    latest: VecDeque<Nanos>,
    model: Option<(Arc<Model>, OnlineEvaluator)>,
    /// The scores of earlier models.
    score_before: OnlineScore,
    kept: VecDeque<Recorded>,
    keep: usize,
}

impl DriveFigures {
    /// The figures of a drive without requests yet; latencies cover the last `seconds`.
    #[must_use]
    pub fn new(seconds: u32) -> Self {
        Self {
            totals: Totals::default(),
            depth: Depth::default(),
            reads: LatencyBuckets::default(),
            writes: LatencyBuckets::default(),
            recent: RecentLatencies::new(seconds),
            latest: VecDeque::new(),
            model: None,
            score_before: OnlineScore::default(),
            kept: VecDeque::new(),
            keep: 0,
        }
    }

    /// Scores this model from now on. The previous model's scores stay counted; latencies are
    /// reset, so that drift is measured from now.
    pub fn set_model(&mut self, model: Option<Arc<Model>>) {
        self.score_before = self.score();
        self.latest.clear();
        self.model = model.map(|model| (Arc::clone(&model), OnlineEvaluator::new(&model)));
    }

    /// From now on, keeps the last `requests` completed requests for training; each takes the
    /// memory of a [`Recorded`].
    pub fn keep(&mut self, requests: usize) {
        self.keep = requests;
        self.kept.truncate(requests);
    }

    /// Processes a completed request, in order of arrival.
    pub fn take(&mut self, record: &Record) {
        let number = RequestId(self.totals.ops.iter().map(|op| op.requests).sum());
        let Some(completion) = record.completion(number) else { return };
        let total = &mut self.totals.ops[record.op as usize];
        total.requests += 1;
        total.bytes += record.length;
        let error = record.flags.contains(Flags::ERROR);
        self.totals.errors += u64::from(error);
        let (request, complete) = (record.request(number), completion.complete);
        let data = !error && matches!(record.op, Op::Read | Op::Write);
        let recorded = Recorded { request, complete, data };
        if data {
            self.measured(&recorded);
        }
        if let Some((_, evaluator)) = &mut self.model {
            evaluator.take(&recorded);
        }
        if self.keep > 0 {
            if self.kept.len() == self.keep {
                self.kept.pop_front();
            }
            self.kept.push_back(recorded);
        }
    }

    fn measured(&mut self, recorded: &Recorded) {
        let latency = recorded.latency();
        if recorded.request.op == Op::Write {
            return self.writes.record(latency);
        }
        self.reads.record(latency);
        self.recent.record(recorded.complete, latency);
        if self.latest.len() == LATEST {
            self.latest.pop_front();
        }
        self.latest.push_back(latency);
    }

    /// Declares that all requests that arrived before `until` have been passed.
    pub fn settle(&mut self, until: Nanos) {
        if let Some((_, evaluator)) = &mut self.model {
            evaluator.settle(until);
        }
    }

    /// Records the number of reads and writes in flight.
    pub fn saw_in_flight(&mut self, now: [u32; 2]) {
        self.depth.saw(now);
    }

    /// The counters.
    #[must_use]
    pub const fn totals(&self) -> &Totals {
        &self.totals
    }

    /// The samples of requests in flight.
    #[must_use]
    pub const fn depth(&self) -> Depth {
        self.depth
    }

    /// Latencies of all successful reads, from arrival to completion.
    #[must_use]
    pub const fn reads(&self) -> &LatencyBuckets {
        &self.reads
    }

    /// Latencies of writes.
    #[must_use]
    pub const fn writes(&self) -> &LatencyBuckets {
        &self.writes
    }

    /// Latencies of the reads of the last seconds before `now`, on the records' clock.
    #[must_use]
    pub fn recent(&self, now: Nanos) -> LatencyHistogram {
        self.recent.at(now)
    }

    /// Latencies of the last reads since the model was set, ascending: at most 100,000.
    #[must_use]
    pub fn latest(&self) -> Vec<Nanos> {
        let mut latest: Vec<Nanos> = self.latest.iter().copied().collect();
        latest.sort_unstable();
        latest
    }

    /// Their number.
    #[must_use]
    pub fn latest_len(&self) -> usize {
        self.latest.len()
    }

    /// The model that is scored.
    #[must_use]
    pub fn model(&self) -> Option<&Arc<Model>> {
        self.model.as_ref().map(|(model, _)| model)
    }

    /// The scores of all models, since the start.
    #[must_use]
    pub fn score(&self) -> OnlineScore {
        let now = self.model.as_ref().map(|(_, evaluator)| evaluator.score()).unwrap_or_default();
        self.score_before.and(&now)
    }

    /// Whether the model's probabilities remain calibrated, if it gives any.
    #[must_use]
    pub fn calibration(&self) -> Option<DriftReport> {
        self.model.as_ref().and_then(|(_, evaluator)| evaluator.drift())
    }

    /// The requests kept, in order of arrival.
    #[must_use]
    pub fn kept(&self) -> Vec<Recorded> {
        self.kept.iter().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_io::DeviceId;
    use trimtab_predict::{LabelRule, PredictorKind};
    use trimtab_train::{TrainingJob, TrainingOptions, reads};

    /// One read at a time, every 100 µs; each 20th takes 5 ms and is late.
    fn record(i: u64, op: Op) -> Record {
        let arrival = Nanos::from_micros(6000 * i);
        let latency = if i.is_multiple_of(20) { 5_000 } else { 80 + i % 10 };
        Record {
            complete: Some(arrival + Nanos::from_micros(latency)),
            ..Record::arriving(arrival, DeviceId(0), op, 4096 * i, 4096)
        }
    }

    fn recorded(count: u64) -> Vec<Recorded> {
        let mut figures = DriveFigures::new(10);
        figures.keep(count as usize);
        (0..count).for_each(|i| figures.take(&record(i, Op::Read)));
        figures.kept()
    }

    fn model() -> Arc<Model> {
        let recorded = recorded(4000);
        let job = TrainingJob {
            kind: PredictorKind::HeurSim,
            rule: LabelRule::Knee,
            name: "test",
            recorded: &recorded,
            past: &reads(&recorded),
            peers: &[],
            timed: &[],
            options: &TrainingOptions::default(),
        };
        Arc::new(job.run(|_, _| {}).unwrap().model)
    }

    #[test]
    fn counts_completed_requests() {
        let mut figures = DriveFigures::new(10);
        for i in 0..100 {
            let op = if i % 4 == 3 { Op::Write } else { Op::Read };
            figures.take(&record(i, op));
        }
        figures.take(&Record { complete: None, ..record(100, Op::Read) });
        figures.take(&Record { flags: Flags::ERROR, ..record(101, Op::Read) });
        let totals = figures.totals();
        assert_eq!(totals.of(Op::Read), OpTotal { requests: 76, bytes: 76 * 4096 });
        assert_eq!(totals.of(Op::Write), OpTotal { requests: 25, bytes: 25 * 4096 });
        assert_eq!(totals.errors, 1);
        // The latency of a failed request is not a drive's service time.
        assert_eq!((figures.reads().count(), figures.writes().count()), (75, 25));
        assert_eq!(figures.recent(Nanos::from_secs(1)).count(), 75);
        assert_eq!(figures.recent(Nanos::from_secs(10)).count(), 0);
    }

    #[test]
    fn scores_remain_when_the_model_changes() {
        let mut figures = DriveFigures::new(10);
        let model = model();
        figures.take(&record(0, Op::Read));
        assert_eq!(figures.score(), OnlineScore::default());
        let mut taken = 1;
        for _ in 0..2 {
            figures.set_model(Some(Arc::clone(&model)));
            for i in 0..100 {
                figures.take(&record(taken + i, Op::Read));
            }
            taken += 100;
            figures.settle(Nanos::MAX);
        }
        // The heuristic uses the queue depth, which is zero: it never refuses.
        let expected =
            OnlineScore { reads: 200, late: 10, false_submits: 10, ..OnlineScore::default() };
        assert_eq!(figures.score(), expected);
        assert_eq!(figures.latest_len(), 100);
        assert!(figures.latest().is_sorted());
    }

    #[test]
    fn kept_requests_are_limited() {
        let mut figures = DriveFigures::new(10);
        figures.keep(10);
        (0..100).for_each(|i| figures.take(&record(i, Op::Read)));
        let kept = figures.kept();
        assert_eq!(kept.len(), 10);
        assert_eq!(kept[0].request.offset, 90 * 4096);
    }

    #[test]
    fn depth_is_the_mean_of_samples() {
        let mut figures = DriveFigures::new(1);
        figures.saw_in_flight([7, 0]);
        let before = figures.depth();
        figures.saw_in_flight([1, 2]);
        figures.saw_in_flight([4, 1]);
        assert_eq!(figures.depth().now, [4, 1]);
        assert_eq!(figures.depth().mean_since(&before), 4.0);
        assert_eq!(before.mean_since(&before), 0.0);
    }
}
