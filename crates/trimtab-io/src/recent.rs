//! Latencies of the last seconds.

use crate::{LatencyHistogram, Nanos};

/// A ring of histograms, one per second: about 34 KiB per second, for any rate. For percentiles
/// over a sliding window; the live figures of `trimtab top` use it.
///
/// ```
/// use trimtab_io::{Nanos, RecentLatencies};
///
/// let mut recent = RecentLatencies::new(10);
/// recent.record(Nanos::from_secs(3), Nanos::from_micros(80));
/// assert_eq!(recent.at(Nanos::from_secs(12)).count(), 1);
/// assert_eq!(recent.at(Nanos::from_secs(13)).count(), 0);
/// ```
#[derive(Clone, Debug)]
pub struct RecentLatencies {
    /// Histograms with the number of their second.
    seconds: Box<[(u64, LatencyHistogram)]>,
}

impl RecentLatencies {
    /// A window of `seconds` whole seconds, at least one.
    #[must_use]
    pub fn new(seconds: u32) -> Self {
        let seconds = (0..seconds.max(1)).map(|_| (0, LatencyHistogram::new()));
        Self { seconds: seconds.collect() }
    }

    /// Length of the window, seconds.
    #[must_use]
    pub const fn seconds(&self) -> u32 {
        self.seconds.len() as u32
    }

    /// Adds a latency completed at `at`. Completions may be out of order; those before the window
    /// are dropped.
    pub fn record(&mut self, at: Nanos, latency: Nanos) {
        let second = second(at);
        let place = (second % self.seconds.len() as u64) as usize;
        let (of, histogram) = &mut self.seconds[place];
        if *of < second {
            histogram.clear();
            *of = second;
        }
        if *of == second {
            histogram.record(latency);
        }
    }

    /// The latencies of the second of `now`, and of those before in the window.
    #[must_use]
    pub fn at(&self, now: Nanos) -> LatencyHistogram {
        let (now, count) = (second(now), self.seconds.len() as u64);
        let mut all = LatencyHistogram::new();
        for (of, histogram) in &self.seconds {
            if *of <= now && *of + count > now {
                all.merge(histogram);
            }
        }
        all
    }
}

const fn second(at: Nanos) -> u64 {
    at.0 / 1_000_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_seconds_leave_the_window() {
        let mut recent = RecentLatencies::new(3);
        for s in 0..10 {
            for _ in 0..=s {
                recent.record(Nanos::from_secs(s), Nanos(s + 1));
            }
        }
        let last = recent.at(Nanos::from_secs(9));
        assert_eq!((last.count(), last.max()), (8 + 9 + 10, Some(Nanos(10))));
        assert_eq!(recent.at(Nanos::from_secs(11)).count(), 10);
        assert_eq!(recent.at(Nanos::from_secs(12)).count(), 0);
    }

    #[test]
    fn late_completions_count_in_their_second() {
        let mut recent = RecentLatencies::new(3);
        recent.record(Nanos::from_secs(9), Nanos(1));
        recent.record(Nanos::from_secs(8), Nanos(1));
        // The ninth second has replaced its second.
        recent.record(Nanos::from_secs(6), Nanos(1));
        assert_eq!(recent.at(Nanos::from_secs(9)).count(), 2);
    }
}
