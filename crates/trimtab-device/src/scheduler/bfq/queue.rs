//! The queue of a process.

use trimtab_io::{IoClass, Issuer, Nanos, Request};

use crate::scheduler::is_sync;
use crate::scheduler::process_stats::{SeekHistory, ThinkTime};
use crate::scheduler::queue::SortedQueue;

/// The level that counts: the idle class has only one.
pub(super) const fn level_of(issuer: &Issuer) -> u8 {
    match issuer.class {
        IoClass::Idle => Issuer::LAST_LEVEL,
        IoClass::RealTime | IoClass::BestEffort => issuer.level,
    }
}

/// A process, or the shared writes of a level.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    /// The processes that have it: several share it if they began together.
    pub(super) processes: u32,
    /// Their requests.
    pub(super) requests: SortedQueue,
    /// The one to serve next.
    pub(super) next: Option<u32>,
    /// The place of its group, and its own there.
    pub(super) group: usize,
    pub(super) entity: usize,
    pub(super) class: IoClass,
    pub(super) level: u8,
    pub(super) is_sync: bool,
    /// Its requests in the device.
    pub(super) in_device: u32,
    /// Whether it waits for service or is served.
    pub(super) is_busy: bool,
    /// The budget that it gets, sectors.
    pub(super) max_budget: u64,
    /// Its weight times this is what counts: 1, or more while it is raised.
    pub(super) raised: u32,
    /// When its weight was last raised.
    pub(super) raised_at: Nanos,
    /// Sectors that it got since.
    pub(super) raised_service: u64,
    /// Since when it has had no request, here or in the device; `None` for a new one.
    pub(super) idle_since: Option<Nanos>,
    /// It was one of many that began together: not what a user waits for.
    pub(super) in_large_burst: bool,
    /// Whether this service has looked for expired requests.
    pub(super) oldest_checked: bool,
    /// It ran out of requests before its budget, through no fault of its own.
    pub(super) awaits_next: bool,
    /// The weight with which it counts among those with requests.
    pub(super) counted: Option<u32>,
    pub(super) think: ThinkTime,
    pub(super) seeks: SeekHistory,
}

/// A queue is seeky if more of its last 32 requests were seeks.
const SEEKY: u32 = 19;
/// Weight of one level.
const LEVEL_WEIGHT: u32 = 10;
/// The weight of a process that asked for no priority.
const DEFAULT_WEIGHT: u32 = 4 * LEVEL_WEIGHT;
/// A process that pauses for this long begins anew.
const LONG: Nanos = Nanos::from_millis(2000);

impl Queue {
    pub(super) fn new(request: &Request, group: usize, entity: usize, max_budget: u64) -> Self {
        Self {
            processes: 0,
            requests: SortedQueue::new(),
            next: None,
            group,
            entity,
            class: request.issuer.class,
            level: level_of(&request.issuer),
            is_sync: is_sync(request),
            in_device: 0,
            is_busy: false,
            max_budget,
            raised: 1,
            raised_at: Nanos::ZERO,
            raised_service: 0,
            idle_since: None,
            in_large_burst: false,
            oldest_checked: false,
            awaits_next: false,
            counted: None,
            think: ThinkTime::default(),
            seeks: SeekHistory::new(),
        }
    }

    /// Its weight, unless it is raised.
    pub(super) fn base_weight(&self) -> u32 {
        (u32::from(Issuer::LAST_LEVEL) + 1 - u32::from(self.level.min(Issuer::LAST_LEVEL)))
            * LEVEL_WEIGHT
    }

    pub(super) fn weight(&self) -> u32 {
        self.base_weight() * self.raised
    }

    pub(super) const fn is_idle_class(&self) -> bool {
        matches!(self.class, IoClass::Idle)
    }

    pub(super) const fn is_seeky(&self) -> bool {
        self.seeks.seeks() > SEEKY
    }

    /// Whether it was idle for so long that a user may be waiting for its first request.
    pub(super) fn is_interactive(&self, now: Nanos) -> bool {
        let was_idle = self.idle_since.is_none_or(|since| now.since(since) > LONG);
        let asked_for_none = self.base_weight() == DEFAULT_WEIGHT;
        self.in_device == 0 && was_idle && asked_for_none && !self.in_large_burst
    }
}
