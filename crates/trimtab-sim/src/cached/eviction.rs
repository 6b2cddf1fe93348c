//! Neighbours that take memory.

use trimtab_device::PageCache;
use trimtab_io::{Nanos, SplitMix64};

use super::spec::EvictionSpec;

/// Evicts a share of the pages at random times (a Poisson process): what a balloon driver does for
/// another tenant (MittOS, §4.4).
#[derive(Clone, Debug)]
pub(super) struct Eviction {
    random: SplitMix64,
    mean_ns: f64,
    share: f64,
    next: Nanos,
}

impl Eviction {
    pub(super) fn new(spec: &EvictionSpec, seed: u64, now: Nanos) -> Self {
        let (random, mean_ns) = (SplitMix64::new(seed), spec.every_ms * 1e6);
        let mut eviction = Self { random, mean_ns, share: spec.share, next: now };
        eviction.draw_next();
        eviction
    }

    /// When they come next.
    pub(super) const fn next(&self) -> Nanos {
        self.next
    }

    /// They come as often as they would up to `now`.
    pub(super) fn advance(&mut self, now: Nanos, cache: &mut PageCache) {
        while self.next <= now {
            let mut pages: Vec<u64> = cache.resident().collect();
            pages.sort_unstable();
            let count = (self.share * pages.len() as f64).round() as usize;
            for taken in 0..count {
                let left = (pages.len() - taken) as u64;
                pages.swap(taken, taken + (self.random.next() % left) as usize);
                cache.drop_pages(pages[taken], 1);
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
