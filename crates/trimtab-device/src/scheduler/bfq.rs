//! BFQ: budgets of service for processes, by weight.
//!
//! Each process has a queue with a budget of sectors, and queues are served in the order of
//! B-WF2Q+ (wf2q.rs): one until its budget is used, its time is up (`timeout_sync`), or it has no
//! request. Then its next budget is set by how it ended. Weights follow the levels 0 to 7 (80 to
//! 10), real-time queues come before best-effort ones, and these before idle ones, which get one
//! request every 200 ms nevertheless. Groups share by their weights.
//!
//! - **Idling.** The device is kept idle for the next request of the queue in service if its share
//!   would be lost otherwise (weights or classes differ), or if it reads sequentially from a disk.
//! - **Weight raising** (`low_latency`). A process that was idle for two seconds, or is new, counts
//!   30-fold for some seconds, unless it belongs to a large burst of new processes.
//! - **Charging time.** A queue that seeks, or was slow, is charged for its time as if it had been
//!   served at full rate, so that it cannot take the device from others by being slow.
//! - **Sharing.** On a device without a head, processes of one priority that begin within 180 ms share
//!   a queue.
//!
//! Sources: Valente and Checconi, "High throughput disk scheduling with fair bandwidth
//! distribution"; the kernel's documentation (Documentation/block/bfq-iosched.rst); and the order
//! in which a running kernel dispatches (docs/measurements/schedulers.md).
//!
//! Differences from Linux: no injection of requests while the device is kept idle, no merging of
//! queues because they read interleaved parts of a file, no raising of soft real-time processes, and no
//! adaptation of the largest budget to the device's rate. Groups are not nested.

mod burst;
mod expire;
mod idling;
mod membership;
mod options;
mod queue;
mod wf2q;

pub use options::BfqOptions;

use trimtab_io::{Nanos, Request, RequestId};

use self::burst::Burst;
use self::expire::Reason;
use self::queue::{Queue, level_of};
use self::wf2q::Wf2q;
use super::Scheduler;
use super::processes::{ProcessKey, Processes};
use super::queue::Pool;
use crate::slab::Slab;

/// Budgets of service by weight. See the [module](self).
#[derive(Clone, Debug)]
pub struct Bfq {
    options: BfqOptions,
    pool: Pool,
    queues: Slab<Queue>,
    processes: Processes,
    groups: Vec<Group>,
    /// The groups' order.
    root: Wf2q,
    service: Option<Service>,
    burst: Burst,
    /// The queue that a process which begins now may share, and when it was made.
    shareable: Option<(u32, Nanos)>,
    /// Busy queues by class (1 to 3), and those of them that are raised.
    busy: [u32; 4],
    busy_raised: u32,
    /// Weights of queues with requests here or in the device that are not raised, with their
    /// numbers; sorted.
    weights: Vec<(u32, u32)>,
    /// Requests in the device.
    in_device: u32,
    /// Whether the device has a queue of its own: the most requests that it has had lately.
    deepest: u32,
    depth_samples: u32,
    queueing: bool,
    /// End of the last request that was dispatched, bytes.
    head: u64,
    /// When a request was last inserted or completed.
    now: Nanos,
}

/// A control group: its queues' order.
#[derive(Clone, Debug)]
struct Group {
    id: u16,
    queues: Wf2q,
    /// The queue of each entity.
    members: Vec<u32>,
    /// Its queues with requests here or in the device.
    pending: u32,
}

/// The queue in service.
#[derive(Clone, Copy, Debug)]
struct Service {
    queue: u32,
    begun: Nanos,
    /// When its time is up.
    timeout: Nanos,
    /// How long the device is kept idle for its next request.
    idle_until: Option<Nanos>,
}

/// Bytes of a sector, the unit of budgets.
const SECTOR: u64 = 512;
/// Shared writes are charged so many times their size.
const ASYNC_CHARGE: u64 = 3;
/// How many times the weight of a raised queue counts.
const RAISE: u32 = 30;
/// A raised queue that got so many sectors is not one that a user waits for.
const MOST_RAISED_SERVICE: u64 = 120_000;
/// A device with more requests than this has a queue of its own.
const QUEUEING_DEPTH: u32 = 3;
/// Samples for that decision.
const DEPTH_SAMPLES: u32 = 32;

impl Bfq {
    /// An empty scheduler.
    #[must_use]
    pub fn new(options: &BfqOptions) -> Self {
        Self {
            options: options.clone(),
            pool: Pool::new(),
            queues: Slab::new(),
            processes: Processes::new(),
            groups: Vec::new(),
            root: Wf2q::default(),
            service: None,
            burst: Burst::default(),
            shareable: None,
            busy: [0; 4],
            busy_raised: 0,
            weights: Vec::new(),
            in_device: 0,
            deepest: 0,
            depth_samples: 0,
            queueing: true,
            head: 0,
            now: Nanos::ZERO,
        }
    }

    /// What a request costs its queue, sectors.
    fn charge(&self, slot: u32, number: u32) -> u64 {
        let sectors = self.pool.get(slot).request.length.div_ceil(SECTOR).max(1);
        let queue = &self.queues[number];
        if queue.is_sync || queue.raised > 1 || self.is_asymmetric(Some(number)) {
            sectors
        } else {
            sectors * ASYNC_CHARGE
        }
    }

    /// The budget that suffices for a queue's next request.
    fn sufficient_budget(&self, number: u32) -> u64 {
        let queue = &self.queues[number];
        let next = queue.next.map_or(0, |next| self.charge(next, number));
        queue.max_budget.max(next)
    }

    fn entity(&self, number: u32) -> &wf2q::Entity {
        let queue = &self.queues[number];
        self.groups[queue.group].queues.get(queue.entity)
    }

    fn budget_left(&self, number: u32) -> u64 {
        let entity = self.entity(number);
        entity.budget.saturating_sub(entity.service)
    }

    /// A queue without requests has got one.
    fn becomes_busy(&mut self, now: Nanos, number: u32, request: &Request) {
        let queue = &mut self.queues[number];
        (queue.class, queue.level) = (request.issuer.class, level_of(&request.issuer));
        let in_time = now <= queue.think.last_completion() + Nanos(3 * self.options.slice_idle().0);
        let continues = queue.awaits_next && in_time;
        queue.awaits_next = false;
        let mut budget = if continues {
            self.budget_left(number).min(self.queues[number].max_budget)
        } else {
            self.sufficient_budget(number)
        };
        if self.raise(now, number) {
            budget = budget.min(2 * self.options.min_budget());
        }
        let queue = &mut self.queues[number];
        queue.is_busy = true;
        self.busy[queue.class as usize] += 1;
        self.busy_raised += u32::from(queue.raised > 1);
        let (group, entity, class, weight, raised) =
            (queue.group, queue.entity, queue.class, queue.weight(), queue.raised);
        if queue.in_device == 0 {
            self.groups[group].pending += 1;
            self.count_weight(number);
        }
        let queues = &mut self.groups[group].queues;
        queues.get_mut(entity).service = 0;
        queues.set_weight(entity, class, weight);
        queues.activate(entity, budget, continues, raised);
        if !self.root.is_busy(group) {
            self.root.get_mut(group).service = 0;
            self.root.activate(group, budget, false, 1);
        }
        if self.preempts(number, continues) {
            self.expire(now, Reason::Preempted);
        }
    }

    /// Raises the weight of a queue, if a user may be waiting for it. Says whether it was raised
    /// now.
    fn raise(&mut self, now: Nanos, number: u32) -> bool {
        let period = self.options.raised();
        let queue = &mut self.queues[number];
        if !self.options.low_latency || !queue.is_sync {
            return false;
        }
        if queue.raised > 1 && now.since(queue.raised_at) > period {
            queue.raised = 1;
        }
        let was_raised = queue.raised > 1;
        if queue.is_interactive(now) {
            queue.raised = RAISE;
            queue.raised_at = now;
            queue.raised_service = 0;
        }
        queue.raised > 1 && !was_raised
    }

    /// Ends the raising of a queue whose time or service is up.
    fn end_raising(&mut self, now: Nanos, number: u32) {
        let period = self.options.raised();
        let queue = &mut self.queues[number];
        let is_over = queue.in_large_burst
            || now.since(queue.raised_at) > period
            || queue.raised_service > MOST_RAISED_SERVICE;
        if queue.raised == 1 || !is_over {
            return;
        }
        queue.raised = 1;
        self.busy_raised -= 1;
        let (class, weight) = (queue.class, queue.weight());
        let (group, entity) = (queue.group, queue.entity);
        self.groups[group].queues.set_weight(entity, class, weight);
        self.count_weight(number);
    }

    /// Counts the weight of a queue that has requests, unless it is raised.
    fn count_weight(&mut self, number: u32) {
        let queue = &mut self.queues[number];
        if queue.raised > 1 || queue.counted.is_some() {
            return;
        }
        let weight = queue.base_weight();
        queue.counted = Some(weight);
        match self.weights.binary_search_by_key(&weight, |(weight, _)| *weight) {
            Ok(at) => self.weights[at].1 += 1,
            Err(at) => self.weights.insert(at, (weight, 1)),
        }
    }

    /// A queue has no request any more, here or in the device.
    fn becomes_quiet(&mut self, now: Nanos, number: u32) {
        let queue = &mut self.queues[number];
        queue.idle_since = Some(now);
        self.groups[queue.group].pending -= 1;
        let Some(weight) = queue.counted.take() else { return };
        if let Ok(at) = self.weights.binary_search_by_key(&weight, |(weight, _)| *weight) {
            self.weights[at].1 -= 1;
            if self.weights[at].1 == 0 {
                self.weights.remove(at);
            }
        }
    }

    /// Selects the queue to serve.
    fn begin_service(&mut self, now: Nanos) -> bool {
        let Some(group) = self.root.select(now) else { return false };
        let chosen = self.groups[group].queues.select(now);
        let entity = chosen.expect("a group in the order has a queue that waits");
        let queue = self.groups[group].members[entity];
        self.queues[queue].oldest_checked = false;
        let raised = u64::from(self.queues[queue].raised);
        let timeout = now + Nanos(Nanos::from_millis(self.options.timeout_sync_ms).0 * raised);
        self.service = Some(Service { queue, begun: now, timeout, idle_until: None });
        true
    }

    /// The queue to serve; `None` if there is none, or one is waited for.
    fn select(&mut self, now: Nanos) -> Option<u32> {
        if self.has_timed_out(now) {
            self.expire(now, Reason::BudgetTimeout);
        }
        loop {
            let Some(service) = self.service else {
                if self.begin_service(now) {
                    continue;
                }
                return None;
            };
            let number = service.queue;
            let reason = match self.queues[number].next {
                Some(next) if self.charge(next, number) <= self.budget_left(number) => {
                    self.service.as_mut().expect("it is in service").idle_until = None;
                    return Some(number);
                }
                Some(_) => Reason::BudgetExhausted,
                None => {
                    let in_device = self.queues[number].in_device;
                    if service.idle_until.is_some() || in_device > 0 && self.better_to_idle(number)
                    {
                        return None;
                    }
                    Reason::NoMoreRequests
                }
            };
            self.expire(now, reason);
        }
    }

    /// Whether the time of the queue in service is up, and it is to make way.
    fn has_timed_out(&self, now: Nanos) -> bool {
        let Some(service) = &self.service else { return false };
        let entity = self.entity(service.queue);
        let much_left = self.budget_left(service.queue) >= entity.budget / 3;
        let may = service.idle_until.is_none() || much_left;
        may && now >= service.timeout && !self.must_idle(service.queue)
    }

    /// Takes the next request of the queue in service.
    fn take_from(&mut self, now: Nanos, number: u32) -> Option<Request> {
        let slot = self.queues[number].next?;
        let sectors = self.charge(slot, number);
        let queue = &mut self.queues[number];
        let end = self.pool.get(slot).request.end();
        let mut next = None;
        if !queue.oldest_checked {
            queue.oldest_checked = true;
            let oldest = queue.requests.oldest().filter(|&oldest| oldest != slot);
            let expire = self.options.fifo_expire(queue.is_sync);
            next = oldest.filter(|&oldest| now >= self.pool.get(oldest).inserted + expire);
        }
        if next.is_none() {
            let (after, before) = queue.requests.neighbours(&self.pool, slot);
            // As the kernel does: seen from where the request began.
            let from = self.pool.get(slot).request.offset;
            next = self.options.back_seek().choose(&self.pool, after, before, from);
        }
        queue.next = next;
        let request = queue.requests.take(&mut self.pool, slot);
        queue.in_device += 1;
        if queue.raised > 1 {
            queue.raised_service += sectors;
        }
        self.head = end;
        let (group, entity) = (queue.group, queue.entity);
        self.groups[group].queues.serve(entity, sectors);
        self.root.serve(group, sectors);
        Some(request)
    }

    /// Learns whether the device has a queue of its own.
    fn sample_depth(&mut self) {
        self.deepest = self.deepest.max(self.in_device);
        if self.in_device as usize + self.pool.len() <= QUEUEING_DEPTH as usize {
            return;
        }
        self.depth_samples += 1;
        if self.depth_samples > DEPTH_SAMPLES {
            self.queueing = self.deepest > QUEUEING_DEPTH;
            (self.depth_samples, self.deepest) = (0, 0);
        }
    }

    /// The device was kept idle, and no request came.
    fn end_idling(&mut self, now: Nanos) {
        let Some(service) = &self.service else { return };
        if service.idle_until.is_none_or(|until| now < until) {
            return;
        }
        let reason = if now >= service.timeout {
            Reason::BudgetTimeout
        } else if self.queues[service.queue].requests.is_empty() {
            Reason::TooIdle
        } else {
            return;
        };
        self.expire(now, reason);
    }
}

impl Scheduler for Bfq {
    fn insert(&mut self, now: Nanos, request: &Request) {
        self.now = now;
        self.end_idling(now);
        let number = self.queue_of(now, request);
        self.processes.arrived(ProcessKey::of(request));
        let slot = self.pool.insert(now, request, number);
        self.sample_depth();
        let (slice_idle, rotational) = (self.options.slice_idle(), self.options.rotational);
        let queue = &mut self.queues[number];
        if queue.in_device == 0 && !queue.is_busy {
            queue.think.arrived(now, slice_idle);
        }
        queue.seeks.arrived(request.offset, request.length, rotational);
        queue.requests.push(&mut self.pool, slot);
        let back_seek = self.options.back_seek();
        let before = queue.next;
        queue.next = back_seek.choose(&self.pool, before, Some(slot), self.head);
        let has_changed = queue.next != before;
        if !queue.is_busy {
            self.becomes_busy(now, number, request);
            return;
        }
        if let Some(service) = self.service.as_mut().filter(|service| service.queue == number) {
            let was_awaited = service.idle_until.take().is_some();
            if was_awaited && now >= service.timeout {
                self.expire(now, Reason::BudgetTimeout);
            }
        } else if has_changed {
            self.next_has_changed(number);
        }
    }

    fn dispatch(&mut self, now: Nanos, in_device: u32) -> Option<Request> {
        self.end_idling(now);
        if self.pool.len() == 0 {
            return None;
        }
        let number = self.select(now)?;
        let request = self.take_from(now, number)?;
        self.in_device = in_device + 1;
        self.deepest = self.deepest.max(self.in_device);
        self.end_raising(now, number);
        let others = self.busy.iter().sum::<u32>() > 1;
        if others && self.queues[number].is_idle_class() {
            self.expire(now, Reason::BudgetExhausted);
        }
        Some(request)
    }

    fn completed(&mut self, now: Nanos, request: &Request, _: Nanos) {
        self.now = now;
        let Some(number) = self.processes.done(now, ProcessKey::of(request)) else { return };
        self.sample_depth();
        self.in_device = self.in_device.saturating_sub(1);
        let queue = &mut self.queues[number];
        queue.in_device = queue.in_device.saturating_sub(1);
        queue.think.completed(now);
        let (in_device, is_busy) = (queue.in_device, queue.is_busy);
        if in_device == 0 && !is_busy {
            self.becomes_quiet(now, number);
        }
        let Some(service) = self.service.filter(|service| service.queue == number) else { return };
        if self.must_idle(number) {
            if in_device == 0 {
                let until = now + self.idle_time(number);
                self.service = Some(Service { idle_until: Some(until), ..service });
            }
        } else if self.has_timed_out(now) {
            self.expire(now, Reason::BudgetTimeout);
        } else if self.queues[number].requests.is_empty() {
            self.expire(now, Reason::NoMoreRequests);
        }
    }

    fn next_timer(&self) -> Option<Nanos> {
        self.service.and_then(|service| service.idle_until)
    }

    fn len(&self) -> usize {
        self.pool.len()
    }

    fn remove(&mut self, id: RequestId) -> Option<Request> {
        let (slot, number) = self.pool.find(id)?;
        let queue = &mut self.queues[number];
        if queue.next == Some(slot) {
            let (next, previous) = queue.requests.neighbours(&self.pool, slot);
            queue.next = self.options.back_seek().choose(&self.pool, next, previous, self.head);
        }
        let request = queue.requests.take(&mut self.pool, slot);
        self.processes.done(self.now, ProcessKey::of(&request));
        let is_served = self.service.is_some_and(|service| service.queue == number);
        if queue.requests.is_empty() && queue.is_busy && !is_served {
            self.becomes_idle(self.now, number);
        }
        Some(request)
    }
}
