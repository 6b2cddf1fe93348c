//! The index of the frames by page: a hash table with linear probing, made once.

use trimtab_io::mix64;

use super::frames::NONE;

/// At most half full, so a search takes few probes. Nothing depends on its order.
#[derive(Clone, Debug)]
pub(super) struct Index {
    buckets: Box<[u32]>,
}

impl Index {
    /// For at most this many frames.
    pub(super) fn new(frames: u32) -> Self {
        let buckets = (2 * frames as usize).next_power_of_two();
        Self { buckets: vec![NONE; buckets].into() }
    }

    fn home(&self, page: u64) -> usize {
        mix64(page) as usize & (self.buckets.len() - 1)
    }

    const fn next(&self, bucket: usize) -> usize {
        (bucket + 1) & (self.buckets.len() - 1)
    }

    /// The frame of a page; `page_of` gives the page of a frame.
    pub(super) fn find(&self, page: u64, page_of: impl Fn(u32) -> u64) -> Option<u32> {
        let mut bucket = self.home(page);
        loop {
            match self.buckets[bucket] {
                NONE => return None,
                frame if page_of(frame) == page => return Some(frame),
                _ => bucket = self.next(bucket),
            }
        }
    }

    /// Adds a frame whose page has none.
    pub(super) fn insert(&mut self, page: u64, frame: u32, page_of: impl Fn(u32) -> u64) {
        debug_assert!(self.find(page, page_of).is_none());
        let mut bucket = self.home(page);
        while self.buckets[bucket] != NONE {
            bucket = self.next(bucket);
        }
        self.buckets[bucket] = frame;
    }

    /// Removes a page that has a frame, and moves the entries behind it that it displaced.
    pub(super) fn remove(&mut self, page: u64, page_of: impl Fn(u32) -> u64) {
        let mut hole = self.home(page);
        while page_of(self.buckets[hole]) != page {
            hole = self.next(hole);
        }
        let mask = self.buckets.len() - 1;
        let mut bucket = hole;
        loop {
            bucket = self.next(bucket);
            let frame = self.buckets[bucket];
            if frame == NONE {
                break;
            }
            let distance = bucket.wrapping_sub(self.home(page_of(frame))) & mask;
            if distance >= (bucket.wrapping_sub(hole) & mask) {
                self.buckets[hole] = frame;
                hole = bucket;
            }
        }
        self.buckets[hole] = NONE;
    }
}
