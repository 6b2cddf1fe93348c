//! The latencies of the last seconds.

use crate::{LatencyHistogram, Nanos};

/// Distributions of the latest seconds, one each, of which the oldest gives way to
/// the newest: about 34 KiB for each second, however much happens in it.
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
    /// Each with the number of its second.
    seconds: Box<[(u64, LatencyHistogram)]>,
}

impl RecentLatencies {
    /// Keeps so many whole seconds, at least one.
    #[must_use]
    pub fn new(seconds: u32) -> Self {
        let seconds = (0..seconds.max(1)).map(|_| (0, LatencyHistogram::new()));
        Self { seconds: seconds.collect() }
    }

    /// How many seconds are kept.
    #[must_use]
    pub const fn seconds(&self) -> u32 {
        self.seconds.len() as u32
    }

    /// Adds the latency of an answer that came at `at`. They need not come in order:
    /// one that is older than what is kept is left out.
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

    /// All answers of the second that `now` lies in, and of those kept before it.
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
    fn old_seconds_give_way() {
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
    fn what_comes_late_counts_where_it_belongs() {
        let mut recent = RecentLatencies::new(3);
        recent.record(Nanos::from_secs(9), Nanos(1));
        recent.record(Nanos::from_secs(8), Nanos(1));
        // Its place has been taken by the ninth second.
        recent.record(Nanos::from_secs(6), Nanos(1));
        assert_eq!(recent.at(Nanos::from_secs(9)).count(), 2);
    }
}
