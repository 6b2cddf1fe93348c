//! A quantile of what was seen lately.

use trimtab_io::Nanos;

/// A running quantile, by stochastic approximation (Robbins and Monro, 1951) in logarithms.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RunningQuantile {
    share: f64,
    /// The step of the logarithm between the latencies on either side.
    step: f64,
    nanos: f64,
}

impl RunningQuantile {
    /// The quantile below which this share of the latencies lies. It takes some 1 / `step`
    /// latencies to follow.
    pub(crate) const fn new(share: f64, step: f64, first: Nanos) -> Self {
        Self { share, step, nanos: first.0 as f64 }
    }

    pub(crate) const fn get(self) -> Nanos {
        Nanos(self.nanos as u64)
    }

    pub(crate) fn record(&mut self, latency: Nanos) {
        let is_above = latency.0 as f64 > self.nanos;
        let step = if is_above { self.share } else { self.share - 1.0 };
        self.nanos = (self.nanos * (1.0 + self.step * step)).max(1.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_follows_a_drive_that_changes() {
        let mut median = RunningQuantile::new(0.5, 0.04, Nanos::from_micros(100));
        let mut record = |from: u64| {
            for i in 0..2_000 {
                median.record(Nanos::from_micros(from + i * 7919 % 100));
            }
            median.get().0 / 1_000
        };
        let (before, after) = (record(50), record(950));
        assert!((80..120).contains(&before) && (970..1_030).contains(&after), "{before} {after}");
    }
}
