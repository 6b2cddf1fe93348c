//! Extra reads: how many may be sent.

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
