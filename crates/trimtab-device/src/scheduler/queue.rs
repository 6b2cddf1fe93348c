//! Requests that wait, by offset and by age.

use std::cmp::Ordering;

use trimtab_io::{Flags, Nanos, Request, RequestId};

use super::is_sync;
use crate::slab::{NONE, Slab};

/// The waiting requests of all queues of a scheduler.
#[derive(Clone, Debug)]
pub(super) struct Pool {
    entries: Slab<Entry>,
    /// Insertions so far.
    inserted: u64,
}

/// A waiting request.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) request: Request,
    /// When it was inserted.
    pub(super) inserted: Nanos,
    /// Orders requests of one offset.
    sequence: u64,
    /// Its queue, as its scheduler numbers them; [`NONE`] once it is removed.
    queue: u32,
    older: u32,
    newer: u32,
}

impl Pool {
    pub(super) const fn new() -> Self {
        Self { entries: Slab::new(), inserted: 0 }
    }

    /// Stores a request. It must be pushed into `queue` next.
    pub(super) fn insert(&mut self, now: Nanos, request: &Request, queue: u32) -> u32 {
        self.inserted += 1;
        self.entries.insert(Entry {
            request: *request,
            inserted: now,
            sequence: self.inserted,
            queue,
            older: NONE,
            newer: NONE,
        })
    }

    pub(super) const fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn get(&self, slot: u32) -> &Entry {
        &self.entries[slot]
    }

    /// The slot of a waiting request, and its queue.
    pub(super) fn find(&self, id: RequestId) -> Option<(u32, u32)> {
        let mut entries = self.entries.iter();
        let found = entries.find(|(_, entry)| entry.queue != NONE && entry.request.id == id);
        found.map(|(slot, entry)| (slot, entry.queue))
    }

    fn key(&self, slot: u32) -> Key {
        let entry = &self.entries[slot];
        Key { offset: entry.request.offset, sequence: entry.sequence, slot }
    }
}

/// Sorts by offset; of one offset the first to arrive comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    offset: u64,
    sequence: u64,
    slot: u32,
}

/// A queue of requests of a [`Pool`], sorted by offset and linked by age.
#[derive(Clone, Debug)]
pub(super) struct SortedQueue {
    sorted: Vec<Key>,
    oldest: u32,
    newest: u32,
}

impl SortedQueue {
    pub(super) const fn new() -> Self {
        Self { sorted: Vec::new(), oldest: NONE, newest: NONE }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }

    pub(super) fn push(&mut self, pool: &mut Pool, slot: u32) {
        let key = pool.key(slot);
        let at = self.sorted.partition_point(|other| *other < key);
        self.sorted.insert(at, key);
        pool.entries[slot].older = self.newest;
        match self.newest {
            NONE => self.oldest = slot,
            newest => pool.entries[newest].newer = slot,
        }
        self.newest = slot;
    }

    /// Takes a request out of the queue and of the pool.
    pub(super) fn take(&mut self, pool: &mut Pool, slot: u32) -> Request {
        self.sorted.remove(self.position(pool, slot));
        let Entry { older, newer, request, .. } = pool.entries[slot];
        match older {
            NONE => self.oldest = newer,
            older => pool.entries[older].newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            newer => pool.entries[newer].older = older,
        }
        pool.entries[slot].queue = NONE;
        pool.entries.remove(slot);
        request
    }

    fn position(&self, pool: &Pool, slot: u32) -> usize {
        self.sorted.binary_search(&pool.key(slot)).expect("the request is in its queue")
    }

    /// The request that has waited longest.
    pub(super) fn oldest(&self) -> Option<u32> {
        (self.oldest != NONE).then_some(self.oldest)
    }

    /// The first request at or after an offset.
    pub(super) fn at_or_after(&self, offset: u64) -> Option<u32> {
        let at = self.sorted.partition_point(|key| key.offset < offset);
        self.sorted.get(at).map(|key| key.slot)
    }

    /// The candidates after a request was served: the next one by offset, or the first one if it
    /// was the last, and the one before.
    pub(super) fn neighbours(&self, pool: &Pool, slot: u32) -> (Option<u32>, Option<u32>) {
        let at = self.position(pool, slot);
        let other = |key: &Key| (key.slot != slot).then_some(key.slot);
        let next = self.sorted.get(at + 1).or_else(|| self.sorted.first()).and_then(other);
        let previous = at.checked_sub(1).map(|before| self.sorted[before].slot);
        (next, previous)
    }
}

/// How a head that sweeps forward weighs requests behind it (CFQ and BFQ).
#[derive(Clone, Copy, Debug)]
pub(super) struct BackSeek {
    /// The farthest that it goes back, bytes.
    pub(super) most: u64,
    /// How many times as far a request behind the head counts.
    pub(super) penalty: u64,
}

impl BackSeek {
    /// The better of two requests for a head at `last`.
    ///
    /// Requests that are waited for come first, then metadata. Then the nearer one is better. One
    /// that is too far behind belongs to the next sweep; of two such the first by offset is better.
    pub(super) fn choose(
        self,
        pool: &Pool,
        one: Option<u32>,
        two: Option<u32>,
        last: u64,
    ) -> Option<u32> {
        let (Some(a), Some(b)) = (one, two) else { return one.or(two) };
        let (first, second) = (&pool.get(a).request, &pool.get(b).request);
        let urgency = |request: &Request| (is_sync(request), request.flags.contains(Flags::META));
        match urgency(first).cmp(&urgency(second)) {
            Ordering::Greater => return Some(a),
            Ordering::Less => return Some(b),
            Ordering::Equal => {}
        }
        let nearer = match (self.distance(first, last), self.distance(second, last)) {
            (None, None) => first.offset <= second.offset,
            // At one distance the one ahead is better.
            (Some(to_a), Some(to_b)) if to_a == to_b => first.offset >= second.offset,
            (to_a, to_b) => to_a.unwrap_or(u64::MAX) < to_b.unwrap_or(u64::MAX),
        };
        Some(if nearer { a } else { b })
    }

    /// The distance from the head, weighted; `None` if the request is too far behind.
    const fn distance(self, request: &Request, last: u64) -> Option<u64> {
        if request.offset >= last {
            return Some(request.offset - last);
        }
        let behind = last - request.offset;
        if behind <= self.most { Some(behind.saturating_mul(self.penalty)) } else { None }
    }
}
