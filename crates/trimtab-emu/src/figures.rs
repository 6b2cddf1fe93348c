//! A drive's counters and latency distributions.

use serde::{Deserialize, Serialize};
use trimtab_io::{LatencyHistogram, Nanos, Op, Summary};

/// One answered read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// Its first byte.
    pub offset: u64,
    /// Latency by the model, in nanoseconds.
    pub model: Nanos,
    /// How much later than the model and faults ask for the server answered, from its receipt of
    /// the request on; in nanoseconds.
    pub added: Nanos,
}

/// A completed read, to be matched with what the block layer saw of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct CompletedRead {
    pub(super) offset: u64,
    pub(super) length: u64,
    /// When the server received and answered it.
    pub(super) arrival: Nanos,
    pub(super) answered: Nanos,
    /// Latency by the model and the faults.
    pub(super) due: Nanos,
    /// The compensation: how much earlier than that it was answered.
    pub(super) compensation: Nanos,
    /// Requests in flight when it arrived, itself included.
    pub(super) depth: usize,
}

/// A read, as the server and the block layer saw it.
#[derive(Clone, Copy, Debug)]
pub(super) struct ObservedRead {
    pub(super) answer: CompletedRead,
    /// When the block layer sent it and had it back.
    pub(super) sent: Nanos,
    pub(super) completed: Nanos,
}

impl ObservedRead {
    /// Latency at the block layer.
    pub(super) fn took(&self) -> Nanos {
        self.completed.since(self.sent)
    }

    /// Latency beyond the model and the faults, in ns.
    pub(super) fn beyond(&self) -> i64 {
        self.took().0 as i64 - self.answer.due.0 as i64
    }

    /// How much later than planned the server answered.
    fn late(&self) -> Nanos {
        let answer = &self.answer;
        answer.answered.since(answer.arrival + answer.due.since(answer.compensation))
    }
}

/// End-to-end latency of a drive's reads at the block layer, compared with the model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PathStat {
    /// Reads observed at both ends.
    pub reads: u64,
    /// Their latency.
    pub seen: Latencies,
    /// Latency beyond the model and the faults; 0 for reads that took less.
    pub beyond: Latencies,
    /// From the block layer to the server.
    #[serde(default)]
    pub to_server: Latencies,
    /// In the server, beyond the model and the faults less the compensation.
    #[serde(default)]
    pub in_server: Latencies,
    /// From the server's answer to the block layer's completion.
    #[serde(default)]
    pub from_server: Latencies,
    /// The compensation.
    #[serde(default)]
    pub compensation: Latencies,
    /// Reads answered too early, by more than [`TOO_EARLY`].
    pub early: u64,
    /// How early these were.
    pub early_by: Latencies,
    /// Reads in periods in which the machine was saturated: more than half of the reads were later
    /// than [`SATURATED`].
    pub saturated: u64,
    /// Whether the last period was saturated.
    pub saturated_now: bool,
}

/// Reads of an interval, with those that came too early or in saturated periods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathCounts {
    /// Reads observed at both ends.
    pub reads: u64,
    /// As [`PathStat::early`].
    pub early: u64,
    /// As [`PathStat::saturated`].
    pub saturated: u64,
}

impl PathCounts {
    /// The difference between two snapshots of a drive.
    #[must_use]
    pub fn between(before: Option<PathStat>, now: Option<PathStat>) -> Self {
        let (before, now) = (before.unwrap_or_default(), now.unwrap_or_default());
        Self {
            reads: now.reads.saturating_sub(before.reads),
            early: now.early.saturating_sub(before.early),
            saturated: now.saturated.saturating_sub(before.saturated),
        }
    }

    /// The sum with another drive's.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            reads: self.reads + other.reads,
            early: self.early + other.early,
            saturated: self.saturated + other.saturated,
        }
    }

    /// The share that came too early; `None` without reads.
    #[must_use]
    pub fn early_share(&self) -> Option<f64> {
        (self.reads > 0).then(|| self.early as f64 / self.reads as f64)
    }

    /// The share in saturated periods; `None` without reads.
    #[must_use]
    pub fn saturated_share(&self) -> Option<f64> {
        (self.reads > 0).then(|| self.saturated as f64 / self.reads as f64)
    }
}

/// An answer counts as early beyond this: the accuracy of the clocks and the tracepoints.
pub const TOO_EARLY: Nanos = Nanos::from_micros(2);
/// A period is saturated if its median read is later than this: the machine cannot keep up.
pub const SATURATED: Nanos = Nanos::from_micros(30);
/// With fewer reads, saturation cannot be determined.
const MIN_READS: usize = 32;

/// The accumulator of a [`PathStat`].
#[derive(Default)]
pub(super) struct PathFigures {
    seen: LatencyHistogram,
    beyond: LatencyHistogram,
    to_server: LatencyHistogram,
    in_server: LatencyHistogram,
    from_server: LatencyHistogram,
    compensation: LatencyHistogram,
    early: LatencyHistogram,
    saturated: u64,
    saturated_now: bool,
}

impl PathFigures {
    /// Counts the reads of one period.
    fn count(&mut self, seen: &[ObservedRead]) {
        let mut beyond: Vec<i64> = seen.iter().map(ObservedRead::beyond).collect();
        for (seen, &beyond) in seen.iter().zip(&beyond) {
            self.seen.record(seen.took());
            self.beyond.record(Nanos(beyond.max(0) as u64));
            self.to_server.record(seen.answer.arrival.since(seen.sent));
            self.in_server.record(seen.late());
            self.from_server.record(seen.completed.since(seen.answer.answered));
            self.compensation.record(seen.answer.compensation);
            if beyond < -(TOO_EARLY.0 as i64) {
                self.early.record(Nanos(beyond.unsigned_abs()));
            }
        }
        if beyond.len() >= MIN_READS {
            let middle = beyond.len() / 2;
            let (_, median, _) = beyond.select_nth_unstable(middle);
            self.saturated_now = *median > SATURATED.0 as i64;
        }
        if self.saturated_now {
            self.saturated += seen.len() as u64;
        }
    }

    fn stat(&self) -> PathStat {
        PathStat {
            reads: self.seen.count(),
            seen: (&self.seen.summary()).into(),
            beyond: (&self.beyond.summary()).into(),
            to_server: (&self.to_server.summary()).into(),
            in_server: (&self.in_server.summary()).into(),
            from_server: (&self.from_server.summary()).into(),
            compensation: (&self.compensation.summary()).into(),
            early: self.early.count(),
            early_by: (&self.early.summary()).into(),
            saturated: self.saturated,
            saturated_now: self.saturated_now,
        }
    }
}

/// Requests of one type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpCount {
    /// Requests answered, with or without success.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Requests failed by a fault.
    pub errors: u64,
}

/// A latency distribution. Percentiles need enough samples: p99 needs 1,000.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latencies {
    /// Samples.
    pub count: u64,
    /// Mean, µs.
    pub mean_us: Option<f64>,
    /// Median, µs.
    pub p50_us: Option<f64>,
    /// 99th percentile, µs.
    pub p99_us: Option<f64>,
    /// 99.9th percentile, µs.
    pub p999_us: Option<f64>,
    /// Maximum, µs.
    pub max_us: Option<f64>,
}

impl From<&Summary> for Latencies {
    fn from(summary: &Summary) -> Self {
        let us = |time: Nanos| time.as_micros_f64();
        let percentile = |name| summary.percentile(name).map(us);
        Self {
            count: summary.count,
            mean_us: summary.mean.map(us),
            p50_us: percentile("p50"),
            p99_us: percentile("p99"),
            p999_us: percentile("p99.9"),
            max_us: summary.max.map(us),
        }
    }
}

/// Counters and distributions since the drive was made.
pub(super) struct Figures {
    pub(super) since: Nanos,
    counts: [OpCount; Op::ALL.len()],
    pub(super) reads: LatencyHistogram,
    pub(super) added: LatencyHistogram,
    /// Writes without space for their data.
    pub(super) no_room: u64,
    /// Flagged reads that were refused.
    pub(super) refused: u64,
    /// Each read, while a log is kept.
    log: Option<Vec<Sample>>,
    /// Reads not yet matched with the block layer's, while these are observed.
    answered: Option<Vec<CompletedRead>>,
    path: PathFigures,
    /// The same since the log began.
    logged_path: PathFigures,
}

/// Bound of that list: some seconds of reads.
const MAX_ANSWERED: usize = 1 << 17;

/// A longer log is dropped: its client is gone.
const MAX_LOG: usize = 4 << 20;

impl Figures {
    pub(super) fn new(since: Nanos) -> Self {
        Self {
            since,
            counts: Default::default(),
            reads: LatencyHistogram::new(),
            added: LatencyHistogram::new(),
            no_room: 0,
            refused: 0,
            log: None,
            answered: None,
            path: PathFigures::default(),
            logged_path: PathFigures::default(),
        }
    }

    pub(super) const fn counts(&self, op: Op) -> OpCount {
        self.counts[op as usize]
    }

    /// Counts an answer.
    pub(super) fn count(&mut self, op: Op, bytes: u64, failed: bool, sample: &Sample) {
        let count = &mut self.counts[op as usize];
        count.requests += 1;
        count.bytes += bytes;
        count.errors += u64::from(failed);
        self.added.record(sample.added);
        if op == Op::Read {
            self.reads.record(sample.model);
            match &mut self.log {
                Some(log) if log.len() < MAX_LOG => log.push(*sample),
                _ => self.log = None,
            }
        }
    }

    /// Notes a completed read, if reads are observed at the block layer.
    pub(super) fn note(&mut self, answered: CompletedRead) {
        if let Some(all) = self.answered.as_mut().filter(|all| all.len() < MAX_ANSWERED) {
            all.push(answered);
        }
    }

    /// The reads completed since the last call. The first call returns none and starts noting.
    pub(super) fn take_answered(&mut self) -> Vec<CompletedRead> {
        self.answered.replace(Vec::new()).unwrap_or_default()
    }

    /// Stops noting.
    pub(super) fn stop_noting(&mut self) {
        self.answered = None;
    }

    /// Counts the observed reads of one period.
    pub(super) fn record_path(&mut self, seen: &[ObservedRead]) {
        self.path.count(seen);
        self.logged_path.count(seen);
    }

    /// The path so far, if reads were observed.
    pub(super) fn path(&self) -> Option<PathStat> {
        Some(self.path.stat()).filter(|path| path.reads > 0)
    }

    /// The path since the log began, if reads were observed.
    pub(super) fn logged_path(&self) -> Option<PathStat> {
        Some(self.logged_path.stat()).filter(|path| path.reads > 0)
    }

    /// Starts the log of reads.
    pub(super) fn begin_log(&mut self) {
        self.log = Some(Vec::new());
        self.logged_path = PathFigures::default();
    }

    /// Ends the log, and returns it in order of the answers.
    pub(super) fn end_log(&mut self) -> Vec<Sample> {
        self.log.take().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(due: u64, took: u64) -> ObservedRead {
        let (due, took) = (Nanos::from_micros(due), Nanos::from_micros(took));
        let (arrival, answered) = (Nanos::ZERO, took);
        let compensation = Nanos::ZERO;
        let answer = CompletedRead {
            offset: 0,
            length: 4096,
            arrival,
            answered,
            due,
            compensation,
            depth: 1,
        };
        ObservedRead { answer, sent: arrival, completed: took }
    }

    #[test]
    fn path_stat_counts_early_reads_and_saturation() {
        let mut path = PathFigures::default();
        path.count(&[seen(64, 44), seen(64, 63), seen(64, 80)]);
        let stat = path.stat();
        assert_eq!((stat.reads, stat.early, stat.saturated), (3, 1, 0));
        // 40 reads, 21 of them later than the bound: a saturated period.
        let late = std::iter::repeat_n(seen(64, 95), 21);
        let moment: Vec<ObservedRead> = late.chain(std::iter::repeat_n(seen(64, 66), 19)).collect();
        path.count(&moment);
        assert_eq!((path.stat().saturated, path.stat().saturated_now), (40, true));
        let calm: Vec<ObservedRead> = std::iter::repeat_n(seen(64, 66), 40).collect();
        path.count(&calm);
        assert_eq!((path.stat().saturated, path.stat().saturated_now), (40, false));
    }

    /// Sent at 100 µs, received 9 µs later, due after 64 µs less 20 µs of compensation, answered
    /// 6 µs late, completed 5 µs after that.
    #[test]
    fn path_stat_divides_a_read_into_its_parts() {
        let us = Nanos::from_micros;
        let answer = CompletedRead {
            offset: 0,
            length: 4096,
            arrival: us(109),
            answered: us(159),
            due: us(64),
            compensation: us(20),
            depth: 1,
        };
        let read = ObservedRead { answer, sent: us(100), completed: us(164) };
        let mut figures = Figures::new(Nanos::ZERO);
        figures.record_path(&[seen(64, 300)]);
        // The log's path begins with the log.
        figures.begin_log();
        assert!(figures.logged_path().is_none());
        figures.record_path(&[read]);
        let path = figures.logged_path().expect("one read");
        let mean = |part: Latencies| part.mean_us.expect("one read").round();
        let parts = [path.to_server, path.in_server, path.from_server, path.compensation];
        assert_eq!(parts.map(mean), [9.0, 6.0, 5.0, 20.0]);
        assert_eq!((mean(path.seen), mean(path.beyond)), (64.0, 0.0));
        assert_eq!(figures.path().expect("two reads").reads, 2);
    }
}
