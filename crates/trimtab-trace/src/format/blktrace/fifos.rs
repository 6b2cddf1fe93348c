//! Many short queues, by key, in one allocation.

use rustc_hash::FxHashMap;
use trimtab_io::Nanos;

/// Bound of all queued values. The largest machines have some 130,000 requests in flight; the rest
/// is for bios that wait to be merged.
pub(super) const MAX_VALUES: usize = 1 << 18;
/// Bound per key: the queue depth of a common drive, all for the same location.
const MAX_PER_KEY: u32 = 1024;

/// A value this much older than the newest is not preferred for being first.
///
/// When several requests are in flight for one location, the next events most likely belong to the
/// first of them. But if an event was lost, its request stays in the queue, and the next one would
/// inherit its arrival time, and leave its own to the one after. A value this much older than the
/// newest is taken to be stale.
const STALE_AFTER: Nanos = Nanos::from_secs(1);

/// A queued value's time.
pub(super) trait QueuedAt {
    fn since(&self) -> Nanos;
}

/// How well a value matches.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum MatchQuality {
    /// Not at all.
    No,
    /// Acceptable, unless another matches exactly.
    Loose,
    /// Exactly.
    Exact,
}

/// Queues of `T` by a location on a device.
///
/// Memory is bounded by [`MAX_VALUES`] and [`MAX_PER_KEY`]: a value beyond that evicts the oldest,
/// which the caller gets.
pub(super) struct Fifos<T> {
    queues: FxHashMap<Key, Queue>,
    slots: Vec<Slot<T>>,
    /// The first unused slot; unused slots are chained by `next`.
    free: u32,
    len: usize,
}

/// A location (byte offset and op in one number) and a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key(pub(super) u64, pub(super) u32);

#[derive(Clone, Copy)]
struct Queue {
    first: u32,
    last: u32,
    len: u32,
}

struct Slot<T> {
    value: Option<T>,
    next: u32,
}

/// No slot.
const NONE: u32 = u32::MAX;

impl<T> Default for Fifos<T> {
    fn default() -> Self {
        Self { queues: FxHashMap::default(), slots: Vec::new(), free: NONE, len: 0 }
    }
}

impl<T: QueuedAt> Fifos<T> {
    /// Appends a value; `pushed_out` gets evicted values.
    pub(super) fn push(&mut self, key: Key, value: T, mut pushed_out: impl FnMut(T)) {
        if self.len >= MAX_VALUES {
            self.halve(&mut pushed_out);
        }
        if self.queues.get(&key).is_some_and(|queue| queue.len >= MAX_PER_KEY) {
            let first = self.queues[&key].first;
            pushed_out(self.remove(key, NONE, first));
        }
        self.append(key, value);
    }

    fn append(&mut self, key: Key, value: T) {
        let slot = Slot { value: Some(value), next: NONE };
        let index = if self.free == NONE {
            self.slots.push(slot);
            (self.slots.len() - 1) as u32
        } else {
            let index = self.free;
            self.free = self.slots[index as usize].next;
            self.slots[index as usize] = slot;
            index
        };
        let queue = self.queues.entry(key).or_insert(Queue { first: index, last: index, len: 0 });
        if queue.len > 0 {
            self.slots[queue.last as usize].next = index;
            queue.last = index;
        }
        queue.len += 1;
        self.len += 1;
    }

    /// The oldest value under `key` that is wanted.
    pub(super) fn find(&mut self, key: Key, wanted: impl Fn(&T) -> bool) -> Option<&mut T> {
        let mut at = self.queues.get(&key)?.first;
        while at != NONE {
            if wanted(self.value(at)) {
                return self.slots[at as usize].value.as_mut();
            }
            at = self.slots[at as usize].next;
        }
        None
    }

    /// Removes the oldest of the best matches under `key` that are not [stale](STALE_AFTER).
    pub(super) fn take(&mut self, key: Key, fit: impl Fn(&T) -> MatchQuality) -> Option<T> {
        let queue = *self.queues.get(&key)?;
        let newest = self.value(queue.last).since();
        let (mut before, mut at) = (NONE, queue.first);
        let mut best: Option<(u32, u32, bool)> = None;
        while at != NONE {
            let value = self.value(at);
            let left_behind = newest.since(value.since()) > STALE_AFTER;
            match fit(value) {
                MatchQuality::No => {}
                MatchQuality::Exact if !left_behind => {
                    best = Some((before, at, false));
                    break;
                }
                // Of stale values, the last is the most likely.
                _ if best.is_none_or(|(.., best_left_behind)| best_left_behind) => {
                    best = Some((before, at, left_behind));
                }
                _ => {}
            }
            before = at;
            at = self.slots[at as usize].next;
        }
        let (before, at, _) = best?;
        Some(self.remove(key, before, at))
    }

    fn value(&self, at: u32) -> &T {
        self.slots[at as usize].value.as_ref().expect("a queue holds used slots only")
    }

    /// Takes out slot `at`, which stands behind slot `before` in its queue.
    fn remove(&mut self, key: Key, before: u32, at: u32) -> T {
        let slot = &mut self.slots[at as usize];
        let value = slot.value.take().expect("a queue holds used slots only");
        let next = std::mem::replace(&mut slot.next, self.free);
        self.free = at;
        self.len -= 1;
        if before == NONE && next == NONE {
            self.queues.remove(&key);
            return value;
        }
        let queue = self.queues.get_mut(&key).expect("its queue is there");
        queue.len -= 1;
        if before == NONE {
            queue.first = next;
        } else {
            self.slots[before as usize].next = next;
        }
        if next == NONE {
            queue.last = before;
        }
        value
    }

    /// Pushes the older half out. Rare, so it may take its time.
    fn halve(&mut self, pushed_out: &mut impl FnMut(T)) {
        let mut all = self.drain();
        all.sort_by_key(|(_, value)| value.since());
        let newer = all.split_off(all.len() / 2);
        all.into_iter().for_each(|(_, value)| pushed_out(value));
        newer.into_iter().for_each(|(key, value)| self.append(key, value));
    }

    /// Takes everything out.
    pub(super) fn drain(&mut self) -> Vec<(Key, T)> {
        let mut all = Vec::with_capacity(self.len);
        for (key, queue) in std::mem::take(&mut self.queues) {
            let mut at = queue.first;
            while at != NONE {
                let slot = &mut self.slots[at as usize];
                all.extend(slot.value.take().map(|value| (key, value)));
                at = slot.next;
            }
        }
        self.slots.clear();
        (self.free, self.len) = (NONE, 0);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Copy, Debug, PartialEq)]
    struct At(u64);

    impl QueuedAt for At {
        fn since(&self) -> Nanos {
            Nanos(self.0)
        }
    }

    const KEY: Key = Key(4096, 1);

    fn with(values: &[u64]) -> Fifos<At> {
        let mut fifos = Fifos::default();
        for &value in values {
            fifos.push(KEY, At(value), |_| panic!("there is room"));
        }
        fifos
    }

    #[test]
    fn queue_is_fifo() {
        let mut fifos = with(&[1, 2, 3]);
        assert_eq!(fifos.take(KEY, |_| MatchQuality::Loose), Some(At(1)));
        assert_eq!(
            fifos.take(KEY, |v| if v.0 == 3 { MatchQuality::Exact } else { MatchQuality::Loose }),
            Some(At(3))
        );
        assert_eq!(fifos.take(KEY, |_| MatchQuality::No), None);
        assert_eq!(fifos.take(KEY, |_| MatchQuality::Loose), Some(At(2)));
        assert_eq!(fifos.take(KEY, |_| MatchQuality::Loose), None);
    }

    #[test]
    fn stale_value_is_skipped() {
        let second = 1_000_000_000;
        let mut fifos = with(&[0, 5 * second, 5 * second + 1]);
        assert_eq!(fifos.take(KEY, |_| MatchQuality::Loose), Some(At(5 * second)));
        assert_eq!(fifos.take(KEY, |_| MatchQuality::Loose), Some(At(5 * second + 1)));
        // Alone it may just be slow.
        assert_eq!(fifos.take(KEY, |_| MatchQuality::Loose), Some(At(0)));
    }

    #[test]
    fn memory_is_bounded() {
        let (mut fifos, mut out) = (Fifos::default(), Vec::new());
        for i in 0..=MAX_VALUES as u64 {
            fifos.push(Key(i, 0), At(i), |v| out.push(v));
        }
        assert_eq!(out.len(), MAX_VALUES / 2);
        assert!(out.iter().all(|v| v.0 < MAX_VALUES as u64 / 2));

        let (mut fifos, mut out) = (Fifos::default(), Vec::new());
        for i in 0..=u64::from(MAX_PER_KEY) {
            fifos.push(KEY, At(i), |v| out.push(v));
        }
        assert_eq!(out, [At(0)]);
    }

    proptest! {
        /// Against a plain list.
        #[test]
        fn fifos_agree_with_a_list(steps in prop::collection::vec((0_u64..3, prop::bool::ANY), 0..200)) {
            let (mut fifos, mut list) = (Fifos::default(), Vec::new());
            for (i, (key, push)) in (0_u64..).zip(steps) {
                if push {
                    fifos.push(Key(key, 0), At(i), |_| {});
                    list.push((key, At(i)));
                } else {
                    // Odd ones are preferred.
                    let fit = |v: &At| if v.0 % 2 == 1 { MatchQuality::Exact } else { MatchQuality::Loose };
                    let place = |odd| list.iter().position(|&(k, v)| k == key && v.0 % 2 >= odd);
                    let expected = place(1).or_else(|| place(0)).map(|at| list.remove(at).1);
                    prop_assert_eq!(fifos.take(Key(key, 0), fit), expected);
                }
            }
            prop_assert_eq!(fifos.drain().len(), list.len());
        }
    }
}
