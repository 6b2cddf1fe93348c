//! The pages that have been seen in memory: what tells an evicted page from one that was never
//! read.
//!
//! A read that expects memory is refused for contention, that is where a page was in memory and
//! is gone, and never at its first access (MittOS, dissertation §4.2.4). The kernel reports only
//! the present, so the past is recorded here.
//!
//! ```text
//!   word of 32 pages:   tag + 1 (32 bits) | one bit for each page (32 bits)
//! ```
//!
//! The words form a table that is indexed by the low bits of a chunk's number: a chunk replaces
//! the one that had its place. So the record is bounded, and it is wrong in one direction only:
//! a forgotten page counts as never seen, and its read is admitted.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Pages of a word.
const PAGES: u64 = 32;
/// The most words of a record: 1 MiB of memory, for 16 GiB in pages of 4 KiB.
const MOST_WORDS: u64 = 1 << 17;
const FEWEST_WORDS: u64 = 64;

/// Which pages of a file, of a drive, or of mapped memory were seen resident. Any number of
/// threads may use it: 8 bytes for 32 pages, at most 1 MiB.
///
/// Pages are added, and a page that was not is never reported; one whose place another has
/// taken is forgotten.
#[derive(Debug)]
pub struct PageRecord {
    /// A power of two.
    words: Box<[AtomicU64]>,
}

/// The part of a range that lies in one word.
struct Piece {
    index: usize,
    /// The number of the word's chunk among those of its place, plus one: 0 is an empty word.
    tag: u64,
    bits: u64,
}

impl PageRecord {
    /// The most pages that a record is exact for.
    pub const MOST_PAGES: u64 = MOST_WORDS * PAGES;

    /// An empty record for up to this many pages; at most [`MOST_PAGES`](Self::MOST_PAGES).
    #[must_use]
    pub fn new(pages: u64) -> Self {
        let words = pages.div_ceil(PAGES).clamp(FEWEST_WORDS, MOST_WORDS).next_power_of_two();
        Self { words: (0..words).map(|_| AtomicU64::new(0)).collect() }
    }

    /// The pieces of a range of pages; `None` if it is larger than the record, or lies too far
    /// for a tag.
    fn pieces(&self, first: u64, pages: u64) -> Option<impl Iterator<Item = Piece>> {
        let words = self.words.len() as u64;
        let end = first.checked_add(pages)?;
        let (begin, last) = (first / PAGES, end.saturating_sub(1) / PAGES);
        if last - begin >= words || last / words >= u64::from(u32::MAX) {
            return None;
        }
        Some((begin..=last).map(move |chunk| {
            let low = first.max(chunk * PAGES) % PAGES;
            let high = (end.min((chunk + 1) * PAGES)) - chunk * PAGES;
            let bits = (u64::from(u32::MAX) >> (PAGES - (high - low))) << low;
            let bits = if high > low { bits } else { 0 };
            Piece { index: (chunk % words) as usize, tag: chunk / words + 1, bits }
        }))
    }

    /// These pages are in memory.
    pub fn saw(&self, first: u64, pages: u64) {
        if pages == 0 {
            return;
        }
        let Some(pieces) = self.pieces(first, pages) else { return };
        for Piece { index, tag, bits } in pieces {
            let word = &self.words[index];
            let held = word.load(Relaxed);
            // Read first: a cache line that is not written stays in every core's cache.
            if held >> 32 != tag || held & bits != bits {
                let with = |held: u64| {
                    let before = if held >> 32 == tag { held } else { tag << 32 };
                    Some(before | bits)
                };
                _ = word.fetch_update(Relaxed, Relaxed, with);
            }
        }
    }

    /// These pages are to be forgotten.
    pub fn forget(&self, first: u64, pages: u64) {
        if pages == 0 {
            return;
        }
        let Some(pieces) = self.pieces(first, pages) else { return };
        for Piece { index, tag, bits } in pieces {
            let without = |held: u64| (held >> 32 == tag).then_some(held & !bits);
            _ = self.words[index].fetch_update(Relaxed, Relaxed, without);
        }
    }

    /// Whether all of these pages were seen in memory.
    #[must_use]
    pub fn has_seen(&self, first: u64, pages: u64) -> bool {
        if pages == 0 {
            return true;
        }
        let Some(mut pieces) = self.pieces(first, pages) else { return false };
        pieces.all(|Piece { index, tag, bits }| {
            let held = self.words[index].load(Relaxed);
            held >> 32 == tag && held & bits == bits
        })
    }

    /// Forgets all pages.
    pub fn clear(&self) {
        self.words.iter().for_each(|word| word.store(0, Relaxed));
    }
}

impl Clone for PageRecord {
    fn clone(&self) -> Self {
        let words = self.words.iter().map(|word| AtomicU64::new(word.load(Relaxed)));
        Self { words: words.collect() }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use trimtab_io::SplitMix64;

    use super::*;

    #[test]
    fn record_is_bounded_and_ranges_beyond_it_are_unseen() {
        assert_eq!(PageRecord::new(u64::MAX).words.len() as u64, MOST_WORDS);
        let record = PageRecord::new(0);
        assert_eq!(record.words.len() as u64, FEWEST_WORDS);
        let all = FEWEST_WORDS * PAGES;
        record.saw(0, all + PAGES);
        assert!(!record.has_seen(0, 1));
        record.saw(0, all);
        assert!(record.has_seen(0, all) && !record.has_seen(0, all + 1));
        for far in [u64::MAX, u64::MAX - 1, u64::MAX / 2] {
            record.saw(far, 1);
            assert!(!record.has_seen(far, 1) && !record.has_seen(far, 2));
        }
        assert!(record.has_seen(7, 0));
        record.clear();
        assert!(!record.has_seen(0, 1));
    }

    /// Against a set: what was not seen is never reported as seen, and what no other chunk has
    /// replaced is.
    #[test]
    fn unseen_pages_are_never_reported_as_seen() {
        let mut random = SplitMix64::new(7);
        let mut below = |n: u64| random.next() % n;
        for fits in [true, false] {
            let record = PageRecord::new(FEWEST_WORDS * PAGES);
            let space = FEWEST_WORDS * PAGES * if fits { 1 } else { 5 };
            let mut seen = BTreeSet::new();
            let mut found = 0;
            for _ in 0..20_000 {
                let (first, pages) = (below(space), 1 + below(70));
                let pages = pages.min(space - first);
                match below(6) {
                    0 | 1 => {
                        record.saw(first, pages);
                        seen.extend(first..first + pages);
                    }
                    2 if pages < 10 => {
                        record.forget(first, pages);
                        seen.retain(|page| !(first..first + pages).contains(page));
                    }
                    _ => {}
                }
                let (first, pages) = (below(space), (1 + below(40)).min(space));
                let pages = pages.min(space - first);
                let expected = (first..first + pages).all(|page| seen.contains(&page));
                let has = record.has_seen(first, pages);
                assert!(expected || !has, "{first} {pages}");
                assert!(!fits || expected == has, "{first} {pages}");
                found += u32::from(has);
            }
            assert!(found > 100, "{found}");
        }
    }

    #[test]
    fn threads_lose_no_bit_of_a_word() {
        let record = PageRecord::new(64);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let record = &record;
                scope.spawn(move || {
                    (0..64).filter(|p| p % 4 == thread).for_each(|p| record.saw(p, 1))
                });
            }
        });
        assert!(record.has_seen(0, 64));
    }
}
