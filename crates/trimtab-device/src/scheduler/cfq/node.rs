//! The node of a process: its requests, and what is known of it.

use trimtab_io::{IoClass, Request};

use crate::scheduler::is_sync;
use crate::scheduler::process_stats::{SeekHistory, ThinkTime};
use crate::scheduler::queue::SortedQueue;

/// A process, or the shared writes of a level.
#[derive(Clone, Debug)]
pub(super) struct Node {
    /// Its requests.
    pub(super) queue: SortedQueue,
    /// The one to serve next.
    pub(super) next: Option<u32>,
    /// The place of its group.
    pub(super) group: usize,
    pub(super) class: IoClass,
    pub(super) level: u8,
    pub(super) is_sync: bool,
    /// Its requests in the device.
    pub(super) in_device: u32,
    /// Time that its last slice was cut by; negative if it overran. ns.
    pub(super) left_over: i64,
    /// Whether this slice has looked for expired requests.
    pub(super) oldest_checked: bool,
    pub(super) think: ThinkTime,
    pub(super) seeks: SeekHistory,
}

/// A node is seeky if more than an eighth of its last 32 requests were seeks.
const SEEKY: u32 = 4;

impl Node {
    pub(super) fn new(request: &Request, group: usize) -> Self {
        Self {
            queue: SortedQueue::new(),
            next: None,
            group,
            class: request.issuer.class,
            level: request.issuer.level,
            is_sync: is_sync(request),
            in_device: 0,
            left_over: 0,
            oldest_checked: false,
            think: ThinkTime::default(),
            seeks: SeekHistory::new(),
        }
    }

    /// A process may have changed its priority since its last request. While requests of it wait,
    /// they stay where they are.
    pub(super) const fn takes_priority_of(&mut self, request: &Request) {
        self.class = request.issuer.class;
        self.level = request.issuer.level;
    }

    pub(super) const fn is_idle_class(&self) -> bool {
        matches!(self.class, IoClass::Idle)
    }

    pub(super) const fn is_seeky(&self) -> bool {
        self.seeks.seeks() > SEEKY
    }
}
