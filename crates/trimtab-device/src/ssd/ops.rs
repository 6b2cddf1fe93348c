//! Operations: what dies do, one or a few pages at a time.

use trimtab_io::Nanos;

use crate::slab::{NONE, Slab};
use crate::study::Explained;

/// One operation on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Op {
    pub(super) kind: Kind,
    /// The page's plane.
    pub(super) plane: u32,
    /// Whose it is; [`NONE`] if nobody waits for it.
    pub(super) request: u32,
    /// The page; for a cleaning none yet.
    pub(super) page: u32,
    /// Read: the first user unit.
    pub(super) user: u32,
    /// Units to be moved.
    pub(super) units: u32,
    /// Program: the first of its buffer slots, linked.
    pub(super) slots: u32,
    /// The next in the queue or group.
    pub(super) next: u32,
    /// How often blocks had been erased when it was queued.
    pub(super) erasures: u64,
    pub(super) queued: Nanos,
    /// How long its die had been busy cleaning when it was queued.
    pub(super) cleaning_then: Nanos,
    /// How long it waited for the die because of others, and of cleaning, and
    /// for the channel; with what it was before, if it came of another.
    pub(super) waited: Nanos,
    pub(super) cleaned: Nanos,
    pub(super) channel: Nanos,
    /// When it would be over the channel, were that free.
    pub(super) ready: Nanos,
    pub(super) retries: Nanos,
}

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Reads units of a page for a request.
    Read,
    /// Reads a page of the mapping table, and then the units.
    Lookup,
    /// Reads a page from which others' data is regenerated.
    Sibling,
    /// Writes a page.
    Program,
    /// Cleans a block.
    Clean,
}

impl Kind {
    pub(super) const fn is_read(self) -> bool {
        matches!(self, Self::Read | Self::Lookup | Self::Sibling)
    }
}

impl Op {
    pub(super) const fn new(kind: Kind, plane: u32) -> Self {
        Self {
            kind,
            plane,
            request: NONE,
            page: NONE,
            user: NONE,
            units: 0,
            slots: NONE,
            next: NONE,
            erasures: 0,
            queued: Nanos::ZERO,
            cleaning_then: Nanos::ZERO,
            waited: Nanos::ZERO,
            cleaned: Nanos::ZERO,
            channel: Nanos::ZERO,
            ready: Nanos::ZERO,
            retries: Nanos::ZERO,
        }
    }

    /// Where its time went.
    pub(super) const fn explained(&self) -> Explained {
        Explained {
            stalled: Nanos::ZERO,
            die: self.waited,
            cleaning: self.cleaned,
            channel: self.channel,
            buffer: Nanos::ZERO,
            retries: self.retries,
        }
    }

    /// An operation that goes on for another, which had waited so long.
    pub(super) const fn after(self, before: &Explained) -> Self {
        Self {
            waited: before.die,
            cleaned: before.cleaning,
            channel: before.channel,
            retries: before.retries,
            ..self
        }
    }
}

/// Operations in order, linked by [`Op::next`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Queue {
    head: u32,
    tail: u32,
}

impl Default for Queue {
    fn default() -> Self {
        Self { head: NONE, tail: NONE }
    }
}

impl Queue {
    pub(super) const fn is_empty(&self) -> bool {
        self.head == NONE
    }

    pub(super) const fn head(&self) -> u32 {
        self.head
    }

    pub(super) fn push(&mut self, ops: &mut Slab<Op>, op: u32) {
        ops[op].next = NONE;
        if self.head == NONE {
            self.head = op;
        } else {
            ops[self.tail].next = op;
        }
        self.tail = op;
    }

    /// Takes the first.
    pub(super) fn pop(&mut self, ops: &mut Slab<Op>) -> Option<u32> {
        let first = self.head;
        if first == NONE {
            return None;
        }
        self.head = ops[first].next;
        ops[first].next = NONE;
        Some(first)
    }

    /// Takes the first that fits.
    pub(super) fn take(
        &mut self,
        ops: &mut Slab<Op>,
        mut fits: impl FnMut(&Op) -> bool,
    ) -> Option<u32> {
        let (mut before, mut op) = (NONE, self.head);
        while op != NONE {
            let next = ops[op].next;
            if fits(&ops[op]) {
                if before == NONE {
                    self.head = next;
                } else {
                    ops[before].next = next;
                }
                if self.tail == op {
                    self.tail = before;
                }
                ops[op].next = NONE;
                return Some(op);
            }
            (before, op) = (op, next);
        }
        None
    }

    /// Whether one fits.
    pub(super) fn any(&self, ops: &Slab<Op>, fits: impl Fn(&Op) -> bool) -> bool {
        let mut op = self.head;
        while op != NONE {
            if fits(&ops[op]) {
                return true;
            }
            op = ops[op].next;
        }
        false
    }
}
