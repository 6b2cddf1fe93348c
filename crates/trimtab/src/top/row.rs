//! One drive at a moment, as `trimtab top` shows it.

use std::collections::VecDeque;

use serde::Serialize;
use trimtab_io::{LatencyHistogram, Nanos, Op};
use trimtab_predict::OnlineScore;
use trimtab_read::Figures;
use trimtab_record::monitor::{Depth, Totals};
use trimtab_train::InflectionShift;

/// What is observed of a drive. Some of it requires privileges.
#[derive(Clone, Debug, Default)]
pub(super) struct Sight {
    pub(super) totals: Totals,
    pub(super) depth: Depth,
    /// The reads of the last seconds.
    pub(super) recent: Option<LatencyHistogram>,
    /// How accurate the model was, if there is one.
    pub(super) score: Option<OnlineScore>,
}

/// Earlier observations, from which rates are computed.
#[derive(Clone, Debug)]
pub(super) struct Past {
    /// The previous observation and its time.
    before: (Nanos, Totals, Depth),
    /// Scores at earlier updates, the oldest first, within the window.
    score: VecDeque<(Nanos, OnlineScore)>,
    window: Nanos,
}

/// A drive at a moment. Times are nanoseconds, shares are 0 to 1; an unknown figure is absent.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Row {
    pub(super) device: String,
    /// Since the previous update.
    pub(super) reads_per_second: f64,
    pub(super) writes_per_second: f64,
    pub(super) bytes_per_second: f64,
    /// Requests in flight, the mean since the previous update.
    pub(super) depth: f64,
    /// The reads of the last `window_s` seconds, and the percentiles that their number
    /// supports.
    pub(super) window_s: u64,
    pub(super) window_reads: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) p50_ns: Option<Nanos>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) p99_ns: Option<Nanos>,
    #[serde(rename = "p99.9_ns", skip_serializing_if = "Option::is_none")]
    pub(super) p999_ns: Option<Nanos>,
    /// Share of the window's reads that were predicted late.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) predicted_late_share: Option<f64>,
    /// Since the start: of the reads predicted fast, the share that was late; of those
    /// predicted late, the share that was fast; and all counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) false_submit_rate: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) false_revoke_rate: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) score: Option<OnlineScore>,
    /// How the inflection point has moved since training.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) drift: Option<InflectionShift>,
    /// Whether the model should be trained again.
    pub(super) retrain: bool,
    /// Counters of the processes that read through `trimtab_read`, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) readers: Option<Figures>,
    /// Requests missing from the figures, of all drives together, so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) lost: Option<u64>,
    /// Further facts, each with its label, for the selected drive.
    #[serde(serialize_with = "as_map")]
    pub(super) facts: Vec<(String, String)>,
}

fn as_map<S: serde::Serializer>(facts: &[(String, String)], to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(facts.iter().map(|(name, value)| (name, value)))
}

impl Past {
    pub(super) fn new(now: Nanos, sight: &Sight, window: Nanos) -> Self {
        let score = VecDeque::from([(now, sight.score.unwrap_or_default())]);
        Self { before: (now, sight.totals, sight.depth), score, window }
    }

    /// Makes a row of this observation, and stores it for the next one.
    pub(super) fn row(&mut self, device: &str, now: Nanos, sight: &Sight) -> Row {
        let (then, totals, depth) = self.before;
        let seconds = now.since(then).as_secs_f64().max(1e-9);
        let requests =
            |op| grown(totals.of(op).requests, sight.totals.of(op).requests) as f64 / seconds;
        let bytes = |op| grown(totals.of(op).bytes, sight.totals.of(op).bytes) as f64 / seconds;
        let recent = sight.recent.as_ref().map(LatencyHistogram::summary);
        let percentile = |name| recent.as_ref().and_then(|recent| recent.percentile(name));
        let row = Row {
            device: device.to_owned(),
            reads_per_second: requests(Op::Read),
            writes_per_second: requests(Op::Write),
            bytes_per_second: bytes(Op::Read) + bytes(Op::Write),
            depth: sight.depth.mean_since(&depth),
            window_s: self.window.0 / 1_000_000_000,
            window_reads: recent.as_ref().map_or(0, |recent| recent.count),
            p50_ns: percentile("p50"),
            p99_ns: percentile("p99"),
            p999_ns: percentile("p99.9"),
            predicted_late_share: self.predicted_late(now, sight),
            false_submit_rate: sight.score.and_then(|score| score.false_submit_rate()),
            false_revoke_rate: sight.score.and_then(|score| score.false_revoke_rate()),
            score: sight.score,
            ..Row::default()
        };
        self.before = (now, sight.totals, sight.depth);
        row
    }

    fn predicted_late(&mut self, now: Nanos, sight: &Sight) -> Option<f64> {
        let score = sight.score?;
        // The oldest one kept is the last before the window, if there is one.
        while self.score.get(1).is_some_and(|(at, _)| now.since(*at) >= self.window) {
            self.score.pop_front();
        }
        self.score.push_back((now, score));
        score.since(&self.score[0].1).predicted_late_share()
    }
}

/// By how much a counter has grown. A smaller value comes from another drive that was plugged
/// in under the same name: its counter started at 0.
const fn grown(before: u64, now: u64) -> u64 {
    if now < before { now } else { now - before }
}

impl Row {
    /// Adds a fact that is in no column: the model's card, or the readers' counters.
    pub(super) fn tell(&mut self, name: &str, value: impl Into<String>) {
        self.facts.push((name.to_owned(), value.into()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sight(reads: u64, late: u64) -> Sight {
        let mut sight = Sight::default();
        sight.totals.ops[Op::Read as usize].requests = reads;
        sight.totals.ops[Op::Read as usize].bytes = 4096 * reads;
        sight.score = Some(OnlineScore { reads, predicted_late: late, ..OnlineScore::default() });
        let mut recent = LatencyHistogram::new();
        recent.extend((0..reads.min(1000)).map(|_| Nanos::from_micros(100)));
        sight.recent = Some(recent);
        sight
    }

    #[test]
    fn rates_cover_the_time_since_the_previous_update() {
        let mut past = Past::new(Nanos::ZERO, &sight(0, 0), Nanos::from_secs(10));
        let row = past.row("sda", Nanos::from_secs(2), &sight(1000, 0));
        assert_eq!((row.reads_per_second, row.bytes_per_second), (500.0, 2_048_000.0));
        assert_eq!((row.window_reads, row.window_s), (1000, 10));
        assert!(row.p99_ns.is_some() && row.p999_ns.is_none());
        let row = past.row("sda", Nanos::from_secs(3), &sight(1000, 0));
        assert_eq!(row.reads_per_second, 0.0);
    }

    #[test]
    fn counters_that_restart_count_from_zero() {
        let sight = |reads| Sight { score: None, ..sight(reads, 0) };
        let mut past = Past::new(Nanos::ZERO, &sight(5000), Nanos::from_secs(10));
        let row = past.row("sda", Nanos::from_secs(2), &sight(100));
        assert_eq!((row.reads_per_second, row.bytes_per_second), (50.0, 204_800.0));
        let row = past.row("sda", Nanos::from_secs(3), &sight(300));
        assert_eq!(row.reads_per_second, 200.0);
    }

    #[test]
    fn predicted_late_share_covers_the_window() {
        let mut past = Past::new(Nanos::ZERO, &sight(0, 0), Nanos::from_secs(10));
        let mut share = |s, reads, late| {
            past.row("sda", Nanos::from_secs(s), &sight(reads, late)).predicted_late_share
        };
        assert_eq!(share(1, 100, 50), Some(0.5));
        assert_eq!(share(5, 200, 50), Some(0.25));
        // Since the first second: the update before the window is its start.
        assert_eq!(share(12, 300, 50), Some(0.0));
        assert_eq!(share(30, 300, 50), None);
    }

    #[test]
    fn figures_are_absent_without_model_or_latencies() {
        let bare = Sight { recent: None, score: None, ..sight(10, 0) };
        let mut past = Past::new(Nanos::ZERO, &bare, Nanos::from_secs(10));
        let row = past.row("sda", Nanos::from_secs(1), &bare);
        assert_eq!((row.p50_ns, row.predicted_late_share, row.score), (None, None, None));
    }
}
