//! What a drive counts of itself.

use serde::{Deserialize, Serialize};
use trimtab_io::{LatencyHistogram, Nanos, Op, Summary};

/// One answered read, in full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// Its first byte.
    pub offset: u64,
    /// How long the model says it takes, in nanoseconds.
    pub model: Nanos,
    /// How much later than that, and than faults ask for, the server answered,
    /// counted from when it had the request; in nanoseconds.
    pub added: Nanos,
}

/// A read that was answered, for whoever saw it from outside.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answered {
    pub(super) offset: u64,
    pub(super) length: u64,
    /// When the server had it, and when it answered.
    pub(super) arrival: Nanos,
    pub(super) answered: Nanos,
    /// How long the model and the faults say it takes.
    pub(super) due: Nanos,
    /// How much earlier than that the answer was given.
    pub(super) lead: Nanos,
    /// Requests in flight when it came, with itself.
    pub(super) depth: usize,
}

/// A read, seen from both ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) answer: Answered,
    /// From the block layer's sending it to its having the answer.
    pub(super) took: Nanos,
}

impl Seen {
    /// How much later it was answered than the model and the faults say, in ns.
    pub(super) const fn beyond(&self) -> i64 {
        self.took.0 as i64 - self.answer.due.0 as i64
    }
}

/// What the block layer saw of a drive's reads, beside what the model says. Its path, from
/// end to end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PathStat {
    /// Reads that were seen from both ends.
    pub reads: u64,
    /// How long they took.
    pub seen: Latencies,
    /// How much longer than the model and the faults say; 0 for those that took less.
    pub beyond: Latencies,
    /// Reads that were answered too early, by more than [`TOO_EARLY`].
    pub early: u64,
    /// By how much.
    pub early_by: Latencies,
    /// Reads in moments in which the machine was saturated: half of them came more than
    /// [`SATURATED`] too late.
    pub saturated: u64,
    /// Whether it was so when it was looked last.
    pub saturated_now: bool,
}

/// Of the reads of some time, how many came too early or while the machine was saturated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathCounts {
    /// Reads that were seen from both ends.
    pub reads: u64,
    /// As [`PathStat::early`].
    pub early: u64,
    /// As [`PathStat::saturated`].
    pub saturated: u64,
}

impl PathCounts {
    /// What was counted between two looks at a drive.
    #[must_use]
    pub fn between(before: Option<PathStat>, now: Option<PathStat>) -> Self {
        let (before, now) = (before.unwrap_or_default(), now.unwrap_or_default());
        Self {
            reads: now.reads.saturating_sub(before.reads),
            early: now.early.saturating_sub(before.early),
            saturated: now.saturated.saturating_sub(before.saturated),
        }
    }

    /// Of several drives together.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            reads: self.reads + other.reads,
            early: self.early + other.early,
            saturated: self.saturated + other.saturated,
        }
    }

    /// The share that came too early; none of no reads.
    #[must_use]
    pub fn early_share(&self) -> Option<f64> {
        (self.reads > 0).then(|| self.early as f64 / self.reads as f64)
    }

    /// The share in moments in which the machine was saturated; none of no reads.
    #[must_use]
    pub fn saturated_share(&self) -> Option<f64> {
        (self.reads > 0).then(|| self.saturated as f64 / self.reads as f64)
    }
}

/// How much too early an answer may be before it counts as that: what the clocks and the
/// tracepoints are good for.
pub const TOO_EARLY: Nanos = Nanos::from_micros(2);
/// Where half of the reads of a moment are later than this, the machine cannot serve them in
/// time.
pub const SATURATED: Nanos = Nanos::from_micros(30);
/// Reads by which that can be told.
const LEAST_READS: usize = 32;

/// The same, as it is counted.
#[derive(Default)]
pub(super) struct PathFigures {
    seen: LatencyHistogram,
    beyond: LatencyHistogram,
    early: LatencyHistogram,
    saturated: u64,
    saturated_now: bool,
}

impl PathFigures {
    /// Counts the reads of a moment.
    fn count(&mut self, seen: &[Seen]) {
        let mut beyond: Vec<i64> = seen.iter().map(Seen::beyond).collect();
        for (seen, &beyond) in seen.iter().zip(&beyond) {
            self.seen.record(seen.took);
            self.beyond.record(Nanos(beyond.max(0) as u64));
            if beyond < -(TOO_EARLY.0 as i64) {
                self.early.record(Nanos(beyond.unsigned_abs()));
            }
        }
        if beyond.len() >= LEAST_READS {
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
            early: self.early.count(),
            early_by: (&self.early.summary()).into(),
            saturated: self.saturated,
            saturated_now: self.saturated_now,
        }
    }
}

/// Requests of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    /// Answered, whichever way.
    pub requests: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Answered with an error by a fault.
    pub errors: u64,
}

/// A distribution of latencies, as far as the samples support it: p99 needs 1,000.
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
    counts: [Count; Op::ALL.len()],
    pub(super) reads: LatencyHistogram,
    pub(super) added: LatencyHistogram,
    /// Writes that found no room for their data.
    pub(super) no_room: u64,
    /// Reads, one by one, while someone wants to know.
    log: Option<Vec<Sample>>,
    /// Reads that have not been seen from outside yet, where that is looked at.
    answered: Option<Vec<Answered>>,
    path: PathFigures,
}

/// No more than these wait to be seen: some seconds of them.
const MOST_ANSWERED: usize = 1 << 17;

/// A log is given up beyond so many: whoever asked has forgotten it.
const LONGEST_LOG: usize = 4 << 20;

impl Figures {
    pub(super) fn new(since: Nanos) -> Self {
        Self {
            since,
            counts: Default::default(),
            reads: LatencyHistogram::new(),
            added: LatencyHistogram::new(),
            no_room: 0,
            log: None,
            answered: None,
            path: PathFigures::default(),
        }
    }

    pub(super) const fn counts(&self, op: Op) -> Count {
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
                Some(log) if log.len() < LONGEST_LOG => log.push(*sample),
                _ => self.log = None,
            }
        }
    }

    /// Notes a read that is answered, if reads are looked at from outside.
    pub(super) fn note(&mut self, answered: Answered) {
        if let Some(all) = self.answered.as_mut().filter(|all| all.len() < MOST_ANSWERED) {
            all.push(answered);
        }
    }

    /// The reads that were answered since the last call. The first one gives none.
    pub(super) fn take_answered(&mut self) -> Vec<Answered> {
        self.answered.replace(Vec::new()).unwrap_or_default()
    }

    /// Notes none any more.
    pub(super) fn end_noting(&mut self) {
        self.answered = None;
    }

    /// Counts reads of a moment that were seen from both ends.
    pub(super) fn see(&mut self, seen: &[Seen]) {
        self.path.count(seen);
    }

    /// What was seen so far, if anything was.
    pub(super) fn path(&self) -> Option<PathStat> {
        Some(self.path.stat()).filter(|path| path.reads > 0)
    }

    /// Begins to note reads one by one.
    pub(super) fn begin_log(&mut self) {
        self.log = Some(Vec::new());
    }

    /// Ends that, and gives them in order of their answers.
    pub(super) fn end_log(&mut self) -> Vec<Sample> {
        self.log.take().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(due: u64, took: u64) -> Seen {
        let (due, took) = (Nanos::from_micros(due), Nanos::from_micros(took));
        let (arrival, answered) = (Nanos::ZERO, took);
        let lead = Nanos::ZERO;
        let answer = Answered { offset: 0, length: 4096, arrival, answered, due, lead, depth: 1 };
        Seen { answer, took }
    }

    #[test]
    fn reads_that_come_too_early_and_saturation_are_told() {
        let mut path = PathFigures::default();
        path.count(&[seen(64, 44), seen(64, 63), seen(64, 80)]);
        let stat = path.stat();
        assert_eq!((stat.reads, stat.early, stat.saturated), (3, 1, 0));
        // 40 reads, 21 of them late by more than the bound: a moment of saturation.
        let late = std::iter::repeat_n(seen(64, 95), 21);
        let moment: Vec<Seen> = late.chain(std::iter::repeat_n(seen(64, 66), 19)).collect();
        path.count(&moment);
        assert_eq!((path.stat().saturated, path.stat().saturated_now), (40, true));
        let calm: Vec<Seen> = std::iter::repeat_n(seen(64, 66), 40).collect();
        path.count(&calm);
        assert_eq!((path.stat().saturated, path.stat().saturated_now), (40, false));
    }
}
