//! The progress line, on a terminal only.

use std::time::{Duration, Instant};

use trimtab_io::LatencyHistogram;
use trimtab_record::Recording;
use trimtab_report::count;
use trimtab_trace::Record;

use crate::console;

/// Long enough for a p99 at some 1,000 requests per second.
const PERIOD: Duration = Duration::from_secs(1);

/// IOPS, MB/s, p50 and p99 of the last second; requests in flight; lost.
pub(super) struct LiveLine {
    terminal: bool,
    since: Instant,
    requests: u64,
    bytes: u64,
    latency: LatencyHistogram,
    shown: bool,
}

impl LiveLine {
    pub(super) fn new() -> Self {
        Self {
            terminal: console::errors_are_on_terminal(),
            since: Instant::now(),
            requests: 0,
            bytes: 0,
            latency: LatencyHistogram::new(),
            shown: false,
        }
    }

    /// Counts new records, and rewrites the line once a second.
    pub(super) fn show(&mut self, records: &[Record], recording: &Recording) {
        if !self.terminal {
            return;
        }
        self.requests += records.len() as u64;
        self.bytes += records.iter().map(|record| record.length).sum::<u64>();
        self.latency.extend(records.iter().filter_map(Record::response_time));
        let elapsed = self.since.elapsed();
        if elapsed < PERIOD {
            return;
        }
        let line = self.line(elapsed, recording.in_flight(), recording.losses().total());
        // Recording continues even if its progress cannot be shown.
        console::rewrite_line(&line);
        self.shown = true;
        self.since = Instant::now();
        (self.requests, self.bytes) = (0, 0);
        self.latency.clear();
    }

    fn line(&self, elapsed: Duration, in_flight: u64, lost: u64) -> String {
        let seconds = elapsed.as_secs_f64();
        let summary = self.latency.summary();
        let percentile =
            |name| summary.percentile(name).map_or_else(|| "–".to_owned(), |p| p.to_string());
        format!(
            "{} IOPS  {:.1} MB/s  p50 {}  p99 {}  in flight {}  lost {}",
            count((self.requests as f64 / seconds).round() as u64),
            self.bytes as f64 / 1e6 / seconds,
            percentile("p50"),
            percentile("p99"),
            count(in_flight),
            count(lost),
        )
    }

    /// Erases the line.
    pub(super) fn wipe(&mut self) {
        if self.shown {
            console::rewrite_line("");
            self.shown = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_io::Nanos;

    #[test]
    fn rates_are_per_second_and_unsupported_percentiles_are_omitted() {
        let mut live = LiveLine::new();
        (live.requests, live.bytes) = (3_000, 12_288_000);
        live.latency.extend((0..500).map(|_| Nanos::from_micros(100)));
        let line = live.line(Duration::from_secs(2), 7, 0);
        assert_eq!(line, "1,500 IOPS  6.1 MB/s  p50 100 µs  p99 –  in flight 7  lost 0");
    }
}
