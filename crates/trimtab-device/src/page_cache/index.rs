//! The index of the frames by page: a hash table with linear probing, made once.

use trimtab_io::mix64;

use super::frames::NONE;

/// At most half full, so a search takes few probes. Nothing depends on its order.
#[derive(Clone, Debug)]
pub(super) struct Index {
    buckets: Box<[Bucket]>,
}

/// A frame, and the low half of the hash of its page: most probes need not look at the frame,
/// which is elsewhere in memory.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    hash: u32,
    frame: u32,
}

const EMPTY: Bucket = Bucket { hash: 0, frame: NONE };

const fn hash(page: u64) -> u32 {
    mix64(page) as u32
}

impl Index {
    /// For at most this many frames.
    pub(super) fn new(frames: u32) -> Self {
        let buckets = (2 * frames as usize).next_power_of_two();
        Self { buckets: vec![EMPTY; buckets].into() }
    }

    const fn home(&self, hash: u32) -> usize {
        hash as usize & (self.buckets.len() - 1)
    }

    const fn next(&self, bucket: usize) -> usize {
        (bucket + 1) & (self.buckets.len() - 1)
    }

    /// The frame of a page; `page_of` gives the page of a frame.
    pub(super) fn find(&self, page: u64, page_of: impl Fn(u32) -> u64) -> Option<u32> {
        let hash = hash(page);
        let mut at = self.home(hash);
        loop {
            match self.buckets[at] {
                Bucket { frame: NONE, .. } => return None,
                Bucket { hash: of, frame } if of == hash && page_of(frame) == page => {
                    return Some(frame);
                }
                _ => at = self.next(at),
            }
        }
    }

    /// Adds a frame whose page has none.
    pub(super) fn insert(&mut self, page: u64, frame: u32) {
        let hash = hash(page);
        let mut at = self.home(hash);
        while self.buckets[at].frame != NONE {
            at = self.next(at);
        }
        self.buckets[at] = Bucket { hash, frame };
    }

    /// Removes a frame and its page, and moves the entries behind it that it displaced.
    pub(super) fn remove(&mut self, page: u64, frame: u32) {
        let mut hole = self.home(hash(page));
        while self.buckets[hole].frame != frame {
            hole = self.next(hole);
        }
        let mask = self.buckets.len() - 1;
        let mut at = hole;
        loop {
            at = self.next(at);
            let bucket = self.buckets[at];
            if bucket.frame == NONE {
                break;
            }
            let distance = at.wrapping_sub(self.home(bucket.hash)) & mask;
            if distance >= (at.wrapping_sub(hole) & mask) {
                self.buckets[hole] = bucket;
                hole = at;
            }
        }
        self.buckets[hole] = EMPTY;
    }
}
