//! Means over recent requests, and over whole cycles.

use trimtab_io::Nanos;

/// A mean over fewer stripes says nothing.
const ENOUGH: f64 = 8_000.0;

/// The mean over the stripes of recent requests, and the most that it was.
///
/// It is forgotten by the user's requests: hundreds of stripes of one of them have one fate.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Recent {
    sum: f64,
    stripes: f64,
    pub(super) peak: f64,
}

impl Recent {
    /// A request begins. The mean is that of so many.
    pub(super) fn forget(&mut self, requests: f64) {
        let kept = 1.0 - 1.0 / requests;
        self.sum *= kept;
        self.stripes *= kept;
        // As slowly as turns are made.
        self.peak *= 1.0 - 0.1 / requests;
    }

    pub(super) fn add(&mut self, value: f64) {
        self.sum += value;
        self.stripes += 1.0;
        if self.is_enough() {
            self.peak = self.peak.max(self.mean());
        }
    }

    pub(super) fn is_enough(&self) -> bool {
        self.stripes >= ENOUGH
    }

    pub(super) fn mean(&self) -> f64 {
        if self.stripes > 0.0 { self.sum / self.stripes } else { 0.0 }
    }
}

/// The mean over whole cycles. Where bursts are rare the mean of recent requests falls between two of
/// them and rises in each.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OfCycles {
    pub(super) mean: Recent,
    /// What it was at the ends of the last two.
    noted: [Option<f64>; 2],
}

impl OfCycles {
    /// A cycle has ended.
    pub(super) fn note(&mut self) {
        if self.mean.is_enough() {
            self.noted = [Some(self.mean.mean()), self.noted[0]];
        }
    }

    pub(super) fn least(&self) -> Option<f64> {
        Some(self.noted[0]?.min(self.noted[1].unwrap_or(f64::INFINITY)))
    }

    pub(super) fn most(&self) -> Option<f64> {
        Some(self.noted[0]?.max(self.noted[1].unwrap_or(0.0)))
    }
}

/// How many members requests go to, with all their stripes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RequestWidth {
    pub(super) mean: Recent,
    /// When the last request began, its last stripe that ended, and members so far.
    begun: Nanos,
    stripe: u64,
    members: f64,
}

impl RequestWidth {
    /// A stripe's part of a request has ended. Requests may begin at the same time, and stripes of one are
    /// in a row.
    pub(super) fn add(&mut self, begun: Nanos, stripe: u64, members: u32) {
        if begun != self.begun || stripe.abs_diff(self.stripe) > 1 {
            if self.members > 0.0 {
                self.mean.add(self.members);
            }
            self.members = 0.0;
        }
        (self.begun, self.stripe) = (begun, stripe);
        self.members += f64::from(members);
    }
}
