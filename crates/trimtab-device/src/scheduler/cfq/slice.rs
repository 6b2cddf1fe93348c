//! The slice in service.

use trimtab_io::Nanos;

/// The time slice of the node in service.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slice {
    pub(super) node: u32,
    /// When the node was selected.
    pub(super) begun: Nanos,
    /// When its time is up; `None` until its first request completes, so that the seek to it is
    /// not charged.
    pub(super) end: Option<Nanos>,
    /// How long the device is kept idle for its next request.
    pub(super) idle_until: Option<Nanos>,
    /// Requests dispatched.
    pub(super) dispatched: u32,
}

impl Slice {
    pub(super) const fn new(node: u32, now: Nanos) -> Self {
        Self { node, begun: now, end: None, idle_until: None, dispatched: 0 }
    }

    pub(super) fn is_used(&self, now: Nanos) -> bool {
        self.end.is_some_and(|end| now > end)
    }

    /// Whether it ends within `ns` nanoseconds. One that has not begun does not.
    pub(super) fn ends_before(&self, now: Nanos, ns: u64) -> bool {
        self.end.is_some_and(|end| now + Nanos(ns) > end)
    }
}
