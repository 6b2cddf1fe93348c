//! The regions of the members: what is written, what has been lately, what may differ.

use std::collections::BTreeSet;
use std::ops::Range;

/// Rounds that a region must be without writes before its bit is cleared.
const QUIET_ROUNDS: u8 = 2;

/// A region: what a bit of the write-intent bitmap covers.
#[derive(Clone, Copy, Debug, Default)]
struct Region {
    /// Writes in flight.
    in_flight: u32,
    /// Rounds until its bit may be cleared.
    recent: u8,
    /// The members may differ.
    unsynced: bool,
}

/// All regions.
#[derive(Debug)]
pub(crate) struct Regions {
    /// Bytes of each member that a region covers; those of a member that the array uses.
    bytes: u64,
    size: u64,
    all: Vec<Region>,
    /// Those whose bits are set.
    marked: BTreeSet<usize>,
    unsynced: BTreeSet<usize>,
}

impl Regions {
    pub(crate) fn new(bytes: u64, size: u64) -> Self {
        let all = vec![Region::default(); size.div_ceil(bytes) as usize];
        Self { bytes, size, all, marked: BTreeSet::new(), unsynced: BTreeSet::new() }
    }

    fn of(&self, range: &Range<u64>) -> Range<usize> {
        (range.start / self.bytes) as usize..range.end.div_ceil(self.bytes) as usize
    }

    fn range(&self, region: usize) -> Range<u64> {
        let start = region as u64 * self.bytes;
        start..(start + self.bytes).min(self.size)
    }

    /// The bits of a range are set: something is to be written there.
    pub(crate) fn mark(&mut self, range: &Range<u64>) {
        for region in self.of(range) {
            self.all[region].recent = QUIET_ROUNDS;
            self.marked.insert(region);
        }
    }

    /// The members may differ in a range.
    pub(crate) fn set_unsynced(&mut self, range: &Range<u64>) {
        for region in self.of(range) {
            self.all[region].unsynced = true;
            self.unsynced.insert(region);
            self.marked.insert(region);
        }
    }

    /// A write begins.
    pub(crate) fn begin(&mut self, range: &Range<u64>) {
        for region in self.of(range) {
            self.all[region].in_flight += 1;
            self.marked.insert(region);
        }
    }

    /// A write has ended.
    pub(crate) fn end(&mut self, range: &Range<u64>) {
        for region in self.of(range) {
            let region = &mut self.all[region];
            region.in_flight -= 1;
            region.recent = QUIET_ROUNDS;
        }
    }

    /// Where members may differ.
    pub(crate) fn unsynced(&self) -> impl Iterator<Item = Range<u64>> {
        self.unsynced.iter().map(|&region| self.range(region))
    }

    /// Nothing is left that the members could be compared with. Bits stay.
    pub(crate) fn set_all_synced(&mut self) {
        while let Some(region) = self.unsynced.pop_first() {
            self.all[region].unsynced = false;
        }
    }

    /// The first region in which members may differ.
    pub(crate) fn first_unsynced(&self) -> Option<(usize, Range<u64>)> {
        self.unsynced.first().map(|&region| (region, self.range(region)))
    }

    /// Bytes in which members may differ.
    pub(crate) fn unsynced_bytes(&self) -> u64 {
        self.unsynced().map(|one| one.end - one.start).sum()
    }

    /// Bytes whose bits are set.
    pub(crate) fn marked_bytes(&self) -> u64 {
        self.marked.iter().map(|&region| self.range(region)).map(|one| one.end - one.start).sum()
    }

    pub(crate) fn is_unsynced(&self, at: u64) -> bool {
        self.all.get((at / self.bytes) as usize).is_some_and(|region| region.unsynced)
    }

    /// The members have the same in a region again.
    pub(crate) fn set_synced(&mut self, region: usize) {
        self.all[region].unsynced = false;
        self.unsynced.remove(&region);
    }

    /// A round: the ranges whose bits may be cleared now. `at_once`: without waiting for more writes.
    pub(crate) fn round(&mut self, at_once: bool) -> Vec<Range<u64>> {
        let mut quiet = Vec::new();
        for &number in &self.marked {
            let region = &mut self.all[number];
            if region.in_flight > 0 || region.unsynced {
                continue;
            }
            if at_once || region.recent == 0 {
                quiet.push(number);
            } else {
                region.recent -= 1;
            }
        }
        for region in &quiet {
            self.marked.remove(region);
        }
        quiet.into_iter().map(|region| self.range(region)).collect()
    }

    /// The first byte at or behind this one whose bit is set; the end if there is none.
    pub(crate) fn next_marked(&self, at: u64) -> u64 {
        let region = (at / self.bytes) as usize;
        let next = self.marked.range(region..).next();
        next.map_or(self.size, |&region| self.range(region).start.max(at))
    }

    /// Whether no bit is set.
    pub(crate) fn is_clean(&self) -> bool {
        self.marked.is_empty()
    }

    pub(crate) fn is_synced(&self) -> bool {
        self.unsynced.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ranges of a round: first and last byte.
    fn round(regions: &mut Regions, at_once: bool) -> Vec<(u64, u64)> {
        regions.round(at_once).into_iter().map(|range| (range.start, range.end)).collect()
    }

    #[test]
    fn bits_are_cleared_after_two_rounds_without_writes() {
        let mut regions = Regions::new(100, 250);
        regions.begin(&(90..110));
        assert_eq!(round(&mut regions, false), []);
        regions.end(&(90..110));
        assert_eq!(round(&mut regions, false), []);
        regions.begin(&(100..101));
        regions.end(&(100..101));
        assert_eq!(round(&mut regions, false), []);
        assert_eq!(round(&mut regions, false), [(0, 100)]);
        assert_eq!(round(&mut regions, false), [(100, 200)]);
        assert!(regions.is_clean());
    }

    #[test]
    fn unsynced_regions_keep_their_bits() {
        let mut regions = Regions::new(100, 250);
        regions.set_unsynced(&(200..250));
        assert_eq!((regions.unsynced_bytes(), regions.is_unsynced(249)), (50, true));
        assert_eq!(round(&mut regions, true), []);
        assert_eq!([0, 210, 249].map(|at| regions.next_marked(at)), [200, 210, 249]);
        let (region, range) = regions.first_unsynced().unwrap();
        assert_eq!(range, 200..250);
        regions.set_synced(region);
        assert!(regions.is_synced() && !regions.is_clean());
        assert_eq!(round(&mut regions, true), [(200, 250)]);
    }
}
