//! Neighbours that take memory.

use trimtab_device::{CacheProfile, PageCache};
use trimtab_io::{Nanos, SplitMix64};

use super::spec::EvictionSpec;

/// Evicts a share of the pages at random times (a Poisson process): what a balloon driver does for
/// another tenant (MittOS, §4.4).
#[derive(Clone, Debug)]
pub(super) struct Eviction {
    random: SplitMix64,
    mean_ns: f64,
    /// Pages that are tried each time, of this many.
    count: u64,
    pages: u64,
    next: Nanos,
}

impl Eviction {
    pub(super) fn new(spec: &EvictionSpec, cache: &CacheProfile, seed: u64, now: Nanos) -> Self {
        let pages = u64::from(cache.pages);
        let mut eviction = Self {
            random: SplitMix64::new(seed),
            mean_ns: spec.every_ms * 1e6,
            count: (spec.share * pages as f64).round() as u64,
            pages,
            next: now,
        };
        eviction.draw_next();
        eviction
    }

    /// When they come next.
    pub(super) const fn next(&self) -> Nanos {
        self.next
    }

    /// They have come as often as they would up to `now`. Pages beyond the cache's size are not
    /// touched: a warm cache holds the beginning of the drive.
    pub(super) fn advance(&mut self, now: Nanos, cache: &mut PageCache) {
        while self.next <= now {
            for _ in 0..self.count {
                cache.drop_pages(self.random.next() % self.pages, 1);
            }
            self.draw_next();
        }
    }

    fn draw_next(&mut self) {
        // From (0, 1].
        let uniform = ((self.random.next() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        let gap = (-libm::log(uniform) * self.mean_ns).max(1.0);
        self.next += Nanos(gap as u64);
    }
}
