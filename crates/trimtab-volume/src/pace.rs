//! How fast work beside requests may be, so that programs hardly notice it.
//!
//! While programs use the array, the work goes on in small windows with pauses between them, at a rate
//! that follows what it does to them: the requests during a window or shortly behind it are compared
//! with the others. If the 99th percentile of all is more than [`MOST`] of that of the others, the rate
//! is halved, otherwise it grows by a quarter; as TCP's does. The others are always there, because
//! windows may take a quarter of the time at most. While the array is not used, and has not been for
//! [`IDLE`], only the ceiling limits it.
//!
//! A state machine: it gets times, and gives the size of the next window and when that may begin.

#[cfg(test)]
mod tests;

use std::ops::Range;

use serde::{Deserialize, Serialize};
use trimtab_io::{LatencyHistogram, Nanos, Op};

/// The array is idle when it has not been used for this long.
const IDLE: Nanos = Nanos::from_millis(500);
/// Bytes of each member in a window, about: while the array is idle, and while it is used.
const LARGE: u64 = 1 << 20;
const SMALL: u64 = 64 << 10;
/// While the array is used, a window is followed by a pause of at least so many times its own length.
const PAUSES: u64 = 3;
/// How much larger the 99th percentile may be with the work than without: below what is to be kept
/// (1.5), because it varies.
const MOST: f64 = 1.25;
/// Requests of a kind that are compared at least, and the time after which it is done with fewer.
const COMPARED: u64 = 1000;
const LEAST_COMPARED: u64 = 100;
const PERIOD: Nanos = Nanos::from_secs(1);
const LONGEST_PERIOD: Nanos = Nanos::from_secs(10);

/// The bytes per second of each member that work beside requests may read and write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rates {
    /// It is never faster.
    pub most: u64,
    /// It is not made slower for the sake of programs.
    pub least: u64,
}

/// Latencies of a kind of requests: of those that the work may have delayed, and of the others.
#[derive(Debug, Default)]
struct Compared {
    all: LatencyHistogram,
    others: LatencyHistogram,
}

impl Compared {
    /// Whether the work does too much to them; none if too few are known.
    fn is_delayed(&self) -> Option<bool> {
        if self.all.count() < LEAST_COMPARED {
            return None;
        }
        if self.others.count() * 4 < self.all.count() {
            // Too few are left alone to compare with.
            return Some(true);
        }
        let [all, others] = [&self.all, &self.others].map(|some| some.quantile(0.99));
        let [all, others] = [all?, others?].map(|latency| latency.0 as f64);
        Some(all > MOST * others)
    }
}

/// The pace of the work.
#[derive(Debug)]
pub(crate) struct Pace {
    rates: Rates,
    /// While the array is used.
    rate: u64,
    reads: Compared,
    writes: Compared,
    compared_since: Nanos,
    last_used: Option<Nanos>,
    /// The last window, and until when it may still delay requests; one that goes on.
    window: Option<Nanos>,
    felt_until: Nanos,
    /// When the next window may begin.
    next: Nanos,
}

impl Pace {
    pub(crate) fn new(rates: Rates) -> Self {
        let most = rates.most.max(1);
        let rates = Rates { most, least: rates.least.clamp(1, most) };
        Self {
            rates,
            rate: rates.least,
            reads: Compared::default(),
            writes: Compared::default(),
            compared_since: Nanos::ZERO,
            last_used: None,
            window: None,
            felt_until: Nanos::ZERO,
            next: Nanos::ZERO,
        }
    }

    /// Bytes per second of each member that it may be at this time.
    pub(crate) fn rate(&self, now: Nanos) -> u64 {
        if self.is_idle(now) { self.rates.most } else { self.rate }
    }

    pub(crate) const fn rates(&self) -> Rates {
        self.rates
    }

    fn is_idle(&self, now: Nanos) -> bool {
        self.last_used.is_none_or(|last| now.since(last) > IDLE)
    }

    /// When the next window may begin.
    pub(crate) const fn next(&self) -> Nanos {
        self.next
    }

    /// Bytes of each member in the next window, about.
    pub(crate) fn window_bytes(&self, now: Nanos) -> u64 {
        if self.is_idle(now) { LARGE } else { SMALL }
    }

    /// A program uses the array.
    pub(crate) const fn used(&mut self, now: Nanos) {
        self.last_used = Some(now);
    }

    /// A window begins.
    pub(crate) const fn begin(&mut self, now: Nanos) {
        self.window = Some(now);
    }

    /// It has ended, with this many bytes of each member.
    pub(crate) fn end(&mut self, now: Nanos, bytes: u64) {
        let Some(begun) = self.window.take() else { return };
        let took = now.since(begun);
        // Drives write back what they have in their buffers.
        self.felt_until = now + took;
        let ns = u128::from(bytes) * 1_000_000_000 / u128::from(self.rate(now));
        self.next = begun + Nanos(u64::try_from(ns).unwrap_or(u64::MAX));
        if !self.is_idle(now) {
            self.next = self.next.max(now + Nanos(took.0.saturating_mul(PAUSES)));
        }
    }

    /// A request of a program has been answered.
    pub(crate) fn completed(&mut self, op: Op, time: Range<Nanos>) {
        let (begun, now) = (time.start, time.end);
        self.last_used = Some(now);
        let compared = match op {
            Op::Read => &mut self.reads,
            Op::Write => &mut self.writes,
            Op::Flush | Op::Discard => return,
        };
        let took = now.since(begun);
        compared.all.record(took);
        if self.window.is_none() && begun >= self.felt_until {
            compared.others.record(took);
        }
        let period = now.since(self.compared_since);
        let is_enough = compared.all.count() >= COMPARED && period >= PERIOD;
        if is_enough || period >= LONGEST_PERIOD {
            self.compare(now);
        }
    }

    fn compare(&mut self, now: Nanos) {
        let found = [self.reads.is_delayed(), self.writes.is_delayed()];
        if found.contains(&Some(true)) {
            self.rate /= 2;
        } else if found.contains(&Some(false)) {
            self.rate = self.rate.saturating_add(self.rate.div_ceil(4));
        }
        self.rate = self.rate.clamp(self.rates.least, self.rates.most);
        for kind in [&mut self.reads, &mut self.writes] {
            kind.all.clear();
            kind.others.clear();
        }
        self.compared_since = now;
    }
}
