//! Operations of dies: one or a few pages at a time.

use trimtab_io::Nanos;

use crate::slab::{NONE, Slab};
use crate::stats::LatencyBreakdown;

/// An operation in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Op {
    pub(super) kind: OpKind,
    /// The page's plane.
    pub(super) plane: u32,
    /// Its request; [`NONE`] if no request waits for it.
    pub(super) request: u32,
    /// The page; for a cleaning none yet.
    pub(super) page: u32,
    /// Read: the first user unit. Program: the first unit of parity, if it is a page of that.
    pub(super) user: u32,
    /// Units to transfer.
    pub(super) units: u32,
    /// Program: the first of its linked buffer slots.
    pub(super) slots: u32,
    /// The next in the queue or group.
    pub(super) next: u32,
    /// Total erases when it was queued.
    pub(super) erasures: u64,
    pub(super) queued: Nanos,
    /// Its die's total cleaning time when it was queued.
    pub(super) cleaning_then: Nanos,
    /// Waiting time for the die because of other requests and of cleaning, and for the channel;
    /// includes that of preceding operations.
    pub(super) waited: Nanos,
    pub(super) cleaned: Nanos,
    pub(super) channel: Nanos,
    /// When its transfer would end on a free channel.
    pub(super) ready: Nanos,
    pub(super) retries: Nanos,
    /// Whether it is a read whose data moved while it waited.
    pub(super) again: bool,
}

/// Type of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OpKind {
    /// Reads units of a page for a request.
    Read,
    /// Reads a page of the mapping table, and then the units.
    Lookup,
    /// Reads a page to regenerate another one's data.
    Sibling,
    /// Writes a page.
    Program,
    /// Cleans a block.
    Clean,
}

impl OpKind {
    pub(super) const fn is_read(self) -> bool {
        matches!(self, Self::Read | Self::Lookup | Self::Sibling)
    }
}

impl Op {
    pub(super) const fn new(kind: OpKind, plane: u32) -> Self {
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
            again: false,
        }
    }

    /// Latency by cause.
    pub(super) const fn breakdown(&self) -> LatencyBreakdown {
        LatencyBreakdown {
            stalled: Nanos::ZERO,
            die: self.waited,
            cleaning: self.cleaned,
            channel: self.channel,
            buffer: Nanos::ZERO,
            retries: self.retries,
        }
    }

    /// An operation that follows another, and inherits its waiting time.
    pub(super) const fn after(self, before: &LatencyBreakdown) -> Self {
        Self {
            waited: before.die,
            cleaned: before.cleaning,
            channel: before.channel,
            retries: before.retries,
            ..self
        }
    }
}

/// A queue of operations, linked by [`Op::next`].
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
