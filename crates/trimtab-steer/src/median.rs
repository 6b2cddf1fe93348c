//! The median of what was seen lately.

use trimtab_io::Nanos;

/// A running median, by stochastic approximation (Robbins and Monro, 1951) in logarithms.
///
/// It begins with a value that may be of other times, when the drive was overloaded or idle. So at
/// first each latency on the same side doubles the step, until latencies have come on either side
/// a few times: as long as they do not, it is not near the median (Kesten, 1958).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RunningMedian {
    /// By which share a latency moves it.
    step: f64,
    nanos: f64,
    /// The side of the last latency, and how many came there in succession.
    was_above: bool,
    run: u8,
    /// How often latencies have changed sides, up to [`FOUND`].
    turns: u8,
}

/// The median is found when latencies have changed sides so often.
const FOUND: u8 = 4;
/// So many on one side are usual, and the longest step, by which later ones are doubled.
const USUAL_RUN: u8 = 3;
const MOST_STEP: f64 = 0.5;

impl RunningMedian {
    /// It takes some 1 / `step` latencies to follow.
    pub(crate) const fn new(step: f64, first: Nanos) -> Self {
        Self { step, nanos: first.0 as f64, was_above: false, run: 0, turns: 0 }
    }

    pub(crate) const fn get(self) -> Nanos {
        Nanos(self.nanos as u64)
    }

    pub(crate) fn record(&mut self, latency: Nanos) {
        let is_above = latency.0 as f64 > self.nanos;
        let mut step = self.step;
        if self.turns < FOUND {
            step = self.search(is_above);
        }
        let factor = if is_above { 1.0 + step } else { 1.0 - step };
        self.nanos = (self.nanos * factor).max(1.0);
    }

    /// The step while the median is not found.
    fn search(&mut self, is_above: bool) -> f64 {
        if is_above == self.was_above {
            self.run = self.run.saturating_add(1);
        } else {
            self.turns += u8::from(self.run > 0);
            (self.was_above, self.run) = (is_above, 1);
        }
        let doublings = self.run.saturating_sub(USUAL_RUN).min(16);
        (self.step * f64::from(1_u32 << doublings)).min(MOST_STEP)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: f64 = 0.02;

    /// Latencies between `from` and `from` + 100 µs.
    fn record(median: &mut RunningMedian, reads: u64, from: u64) -> u64 {
        for i in 0..reads {
            median.record(Nanos::from_micros(from + i * 7919 % 100));
        }
        median.get().0 / 1_000
    }

    #[test]
    fn the_median_follows_a_drive_that_changes() {
        let mut median = RunningMedian::new(STEP, Nanos::from_micros(100));
        let (before, after) = (record(&mut median, 2_000, 50), record(&mut median, 2_000, 950));
        assert!((80..120).contains(&before) && (970..1_030).contains(&after), "{before} {after}");
    }

    #[test]
    fn a_first_value_of_other_times_is_left_within_some_tens_of_reads() {
        for first in [Nanos::from_secs(1), Nanos(10)] {
            let mut median = RunningMedian::new(STEP, first);
            let after = record(&mut median, 60, 50);
            assert!((60..160).contains(&after), "{first}: {after}");
        }
    }
}
