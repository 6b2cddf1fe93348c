//! Extra reads: how many may be sent.

/// Extra reads that can be saved up: bursts last longer than it takes to earn them.
pub(super) const MOST: f64 = 6_000.0;
/// With so many saved up, or more, none is spared.
const PLENTY: f64 = 3_000.0;
/// Extra reads that are there at first: a member may be stuck then.
const FIRST: f64 = 200.0;

/// Each read earns a part of an extra read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    saved: f64,
}

impl Default for Budget {
    fn default() -> Self {
        Self { saved: FIRST }
    }
}

impl Budget {
    pub(super) fn earn(&mut self, reads: f64) {
        self.saved = (self.saved + reads).min(MOST);
    }

    /// Spends so many, if they are there or it must be: they are owed then, up to a limit.
    pub(super) fn spend(&mut self, reads: f64, must: bool) -> bool {
        let can = must || reads <= self.saved;
        if can {
            self.saved = (self.saved - reads).max(-PLENTY);
        }
        can
    }

    /// From 0, none is left, to 1.
    pub(super) fn plenty(&self) -> f64 {
        (self.saved / PLENTY).clamp(0.0, 1.0)
    }
}
