//! Locks of stripes.
//!
//! Strips that were read at different times can be combined only if nothing was written to their
//! stripe between. So a write holds its stripe alone, from what it reads for the parity until all
//! is written, and a read that combines strips shares the stripe with other reads. Reads that
//! combine nothing take no lock.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use trimtab_io::mix64;

/// No operation.
const NOBODY: u32 = u32::MAX;

/// Stripes share counters, so that a read may see a write that was to another stripe: it then reads
/// once more than it must. Reads of busy members are in flight for long, and others write thousands of
/// stripes then: there must be many more counters.
const COUNTERS: usize = 1 << 18;

/// How an operation holds its stripe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Lock {
    /// Not at all.
    #[default]
    None,
    /// It waits for it.
    Waiting,
    /// With other reads.
    Shared,
    /// Alone.
    Exclusive,
}

/// The stripes that are held, and the operations that wait for them.
#[derive(Debug)]
pub(crate) struct Locks {
    held: HashMap<u64, Held, BuildHasherDefault<StripeHasher>>,
    /// Writes to stripes so far: one that begins and one that ends count.
    writes: Box<[u32]>,
    /// By operation.
    waiters: Vec<Waiter>,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    readers: u32,
    writer: bool,
    /// Those that wait, first come, first served, linked by [`Waiter::next`]; [`NOBODY`]: none.
    first: u32,
    last: u32,
}

/// An operation that waits.
#[derive(Clone, Copy, Debug)]
struct Waiter {
    /// The one behind it.
    next: u32,
    /// Whether it wants the stripe alone.
    exclusive: bool,
}

impl Waiter {
    const NONE: Self = Self { next: NOBODY, exclusive: false };
}

impl Locks {
    pub(crate) fn new() -> Self {
        Self {
            held: HashMap::default(),
            writes: vec![0; COUNTERS].into_boxed_slice(),
            waiters: Vec::new(),
        }
    }

    /// How often the stripe has been written to, more or less.
    pub(crate) fn writes(&self, stripe: u64) -> u32 {
        self.writes[counter(stripe)]
    }

    /// The stripe will be asked for soon: brings its counter into the processor's cache.
    pub(crate) fn expect(&self, stripe: u64) {
        std::hint::black_box(self.writes(stripe));
    }

    /// The holder begins to write, or has written all.
    pub(crate) fn written(&mut self, stripe: u64) {
        let count = &mut self.writes[counter(stripe)];
        *count = count.wrapping_add(1);
    }

    /// Takes the stripe for an operation, or puts the operation in line. Returns whether it has it.
    pub(crate) fn take(&mut self, stripe: u64, operation: u32, exclusive: bool) -> bool {
        let free = Held { readers: 0, writer: false, first: NOBODY, last: NOBODY };
        let held = self.held.entry(stripe).or_insert(free);
        if held.may_take(exclusive) {
            held.add(exclusive);
            return true;
        }
        let place = operation as usize;
        if place >= self.waiters.len() {
            self.waiters.resize(place + 1, Waiter::NONE);
        }
        self.waiters[place] = Waiter { next: NOBODY, exclusive };
        match held.first {
            NOBODY => held.first = operation,
            _ => self.waiters[held.last as usize].next = operation,
        }
        held.last = operation;
        false
    }

    /// Gives the stripe back.
    pub(crate) fn release(&mut self, stripe: u64, exclusive: bool) {
        let Some(held) = self.held.get_mut(&stripe) else { return };
        match exclusive {
            true => held.writer = false,
            false => held.readers -= 1,
        }
        if held.readers == 0 && !held.writer && held.first == NOBODY {
            self.held.remove(&stripe);
        }
    }

    /// The next operation in line, if it gets the stripe now.
    pub(crate) fn grant(&mut self, stripe: u64) -> Option<u32> {
        let held = self.held.get_mut(&stripe)?;
        let operation = (held.first != NOBODY).then_some(held.first)?;
        let Waiter { next, exclusive } = self.waiters[operation as usize];
        if held.writer || exclusive && held.readers > 0 {
            return None;
        }
        held.first = next;
        held.add(exclusive);
        Some(operation)
    }

    /// Takes an operation out of the line.
    pub(crate) fn leave(&mut self, stripe: u64, operation: u32) {
        let Some(held) = self.held.get_mut(&stripe) else { return };
        let (mut before, mut at) = (NOBODY, held.first);
        while at != operation && at != NOBODY {
            (before, at) = (at, self.waiters[at as usize].next);
        }
        if at == NOBODY {
            return;
        }
        let after = self.waiters[operation as usize].next;
        match before {
            NOBODY => held.first = after,
            _ => self.waiters[before as usize].next = after,
        }
        if after == NOBODY {
            held.last = before;
        }
    }

    /// Whether no stripe is held.
    #[cfg(test)]
    pub(crate) fn is_idle(&self) -> bool {
        self.held.is_empty()
    }
}

impl Held {
    const fn may_take(&self, exclusive: bool) -> bool {
        // Behind one that waits, so that reads do not keep a write out for ever.
        let in_line = self.first != NOBODY;
        !(in_line || self.writer || exclusive && self.readers > 0)
    }

    const fn add(&mut self, exclusive: bool) {
        match exclusive {
            true => self.writer = true,
            false => self.readers += 1,
        }
    }
}

fn counter(stripe: u64) -> usize {
    mix64(stripe) as usize % COUNTERS
}

/// Stripes are chosen by the user's offsets, not by an attacker who could not have it simpler.
#[derive(Default)]
pub(crate) struct StripeHasher(u64);

impl Hasher for StripeHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(byte.into());
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = mix64(self.0 ^ number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_hold_a_stripe_alone_and_are_not_kept_out() {
        let mut locks = Locks::new();
        assert!(locks.take(7, 0, false) && locks.take(7, 1, false) && locks.take(8, 2, true));
        assert!(!locks.take(7, 3, true), "two reads hold it");
        assert!(!locks.take(7, 4, false), "behind the write");
        assert!(!locks.take(7, 5, false));
        locks.release(7, false);
        assert_eq!(locks.grant(7), None);
        locks.release(7, false);
        assert_eq!((locks.grant(7), locks.grant(7)), (Some(3), None));
        locks.release(7, true);
        assert_eq!((locks.grant(7), locks.grant(7), locks.grant(7)), (Some(4), Some(5), None));
        for _ in 0..2 {
            locks.release(7, false);
        }
        locks.release(8, true);
        assert!(locks.is_idle());
    }

    #[test]
    fn operations_can_leave_the_line() {
        for leaver in [1, 2, 3] {
            let mut locks = Locks::new();
            assert!(locks.take(7, 0, true));
            (1..4).for_each(|operation| assert!(!locks.take(7, operation, true)));
            locks.leave(7, leaver);
            assert!(!locks.take(7, 4, true));
            let mut served = Vec::new();
            locks.release(7, true);
            while let Some(operation) = locks.grant(7) {
                served.push(operation);
                locks.release(7, true);
            }
            assert_eq!(served, (1..5).filter(|&o| o != leaver).collect::<Vec<_>>());
            assert!(locks.is_idle());
        }
    }
}
