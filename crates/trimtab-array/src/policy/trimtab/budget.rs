//! Extra reads: how many may be sent, and how many it would take.

/// Extra reads that can be saved up: bursts last longer than it takes to earn them.
const MOST: f64 = 6_000.0;
/// With so many saved up, or more, none is spared.
const PLENTY: f64 = 3_000.0;

/// Each read earns a part of an extra read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Budget {
    saved: f64,
}

impl Budget {
    pub(super) fn earn(&mut self, reads: f64) {
        self.saved = (self.saved + reads).min(MOST);
    }

    /// Spends so many, if they are there.
    pub(super) fn spend(&mut self, reads: f64) -> bool {
        let can = reads <= self.saved;
        if can {
            self.saved -= reads;
        }
        can
    }

    /// From 0, none is left, to 1.
    pub(super) fn plenty(&self) -> f64 {
        (self.saved / PLENTY).min(1.0)
    }
}

/// What it would cost to go around all that is late, in extra reads for each read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Demand {
    mean: f64,
    /// The most that it was, of enough reads.
    peak: f64,
    reads: f64,
}

/// Reads over which the demand is a mean: those of several bursts.
const REMEMBERED: f64 = 50_000.0;

/// A mean of fewer says nothing.
const ENOUGH: f64 = 8_000.0;

impl Demand {
    /// A read has ended, and these would have been its extra reads.
    pub(super) fn add(&mut self, extra: f64) {
        self.reads = (self.reads + 1.0).min(REMEMBERED);
        self.mean += (extra - self.mean) / self.reads;
        if self.reads >= ENOUGH {
            // It is forgotten as slowly as turns are made.
            self.peak = (self.peak * (1.0 - 0.1 / REMEMBERED)).max(self.mean);
        }
    }

    /// The most that is to be expected; none before enough is known.
    pub(super) fn peak(&self) -> Option<f64> {
        (self.reads >= ENOUGH).then_some(self.peak)
    }
}
