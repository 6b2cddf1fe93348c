//! CFQ: time slices for processes, by priority.
//!
//! ```text
//!   group (share of time by weight)
//!     └─ service tree: real-time, then best-effort, then idle
//!          └─ node of a process: a slice of time by its level, 0 to 7
//!               └─ its requests by offset ──> dispatch queue ──> device
//! ```
//!
//! One node is served at a time. Its slice begins with its first completion and ends after its
//! time, or when it has no request and none is expected within `slice_idle`. Nodes take turns; a
//! node with a higher level has a longer slice and comes back sooner: its next turn is later than
//! now by what its slice lacks to a process's at level 0, for each other node. Real-time requests preempt
//! best-effort ones, and all preempt idle ones, within their group. Writes that no process waits
//! for are served from nodes that the processes of a group share, one for each class and level.
//!
//! So shares of time differ more than slices do. Two nodes alternate, and get what their slices
//! promise. Of three with levels 0, 4 and 7 (180, 100 and 40 ms) the last one misses some rounds:
//! 58.6, 32.7 and 8.7% of the time instead of 56.3, 31.3 and 12.5%. Time that a slice overran, up to
//! one request, is charged to the node's next turn.
//!
//! Sources: the dissertation on fast and stable storage (§4.2.2) for the structure; for what it
//! leaves open (lengths of slices, idling, the choice by offset, the number of requests in the
//! device) the kernel's documentation up to 4.20, Documentation/block/cfq-iosched.txt.
//!
//! Differences from Linux: a class has one tree, as in the dissertation, not one for each kind of
//! work; processes that read interleaved parts of one file are not merged; groups are not nested.

mod node;
mod options;
mod slice;
mod tree;

pub use options::CfqOptions;

use trimtab_io::{Nanos, Request, RequestId};

use self::node::Node;
use self::slice::Slice;
use self::tree::Group;
use super::Scheduler;
use super::processes::{ProcessKey, Processes};
use super::queue::Pool;
use crate::slab::Slab;

/// Time slices by priority. See the [module](self).
#[derive(Clone, Debug)]
pub struct Cfq {
    options: CfqOptions,
    pool: Pool,
    nodes: Slab<Node>,
    processes: Processes,
    groups: Vec<Group>,
    /// The node in service.
    active: Option<Slice>,
    /// Nodes with requests or in service, and those of them that are waited for.
    busy: u32,
    busy_sync: u32,
    /// Requests in the device: shared nodes', and others'.
    in_device: [u32; 2],
    /// The most requests that the device has had.
    deepest: u32,
    /// End of the last request that was dispatched, bytes.
    head: u64,
    /// When a request was last inserted or completed.
    now: Nanos,
}

/// A device that has had this many requests at a time has a queue of its own.
const QUEUEING_DEPTH: u32 = 5;

impl Cfq {
    /// An empty scheduler.
    #[must_use]
    pub fn new(options: &CfqOptions) -> Self {
        Self {
            options: options.clone(),
            pool: Pool::new(),
            nodes: Slab::new(),
            processes: Processes::new(),
            groups: Vec::new(),
            active: None,
            busy: 0,
            busy_sync: 0,
            in_device: [0; 2],
            deepest: 0,
            head: 0,
            now: Nanos::ZERO,
        }
    }

    /// The node of a request, made if there is none.
    fn node_of(&mut self, now: Nanos, request: &Request) -> u32 {
        let key = ProcessKey::of(request);
        self.processes.queue(key).unwrap_or_else(|| {
            self.forget(now);
            let group = self.group(request.issuer.group);
            let number = self.nodes.insert(Node::new(request, group));
            self.processes.add(now, key, number);
            number
        })
    }

    /// Frees nodes of processes that have been quiet for long.
    fn forget(&mut self, now: Nanos) {
        let active = self.active.map(|slice| slice.node);
        while let Some(number) = self.processes.forget_one(now, |node| active == Some(node)) {
            self.nodes.remove(number);
        }
    }

    /// The place of a group, made if there is none.
    fn group(&mut self, id: u16) -> usize {
        let found = self.groups.iter().position(|group| group.id == id);
        found.unwrap_or_else(|| {
            self.groups.push(Group::new(id, self.options.weight(id)));
            self.groups.len() - 1
        })
    }

    /// A node has got its first request.
    fn becomes_busy(&mut self, now: Nanos, node: u32, to_front: bool) {
        self.busy += 1;
        self.busy_sync += u32::from(self.nodes[node].is_sync);
        let (group, class) = (self.nodes[node].group, self.nodes[node].class as usize);
        let busy = self.groups.iter().filter(|group| group.is_busy());
        let least = busy.map(|group| group.time_served).min();
        self.groups[group].becomes_busy(class, least);
        self.enqueue(now, node, to_front);
    }

    /// Puts a node into its service tree, where its turn comes later for a lower level.
    fn enqueue(&mut self, now: Nanos, number: u32, to_front: bool) {
        let node = &mut self.nodes[number];
        let group = &mut self.groups[node.group];
        let class = node.class as usize;
        let others = group.busy[class].saturating_sub(1);
        let longest = self.options.slice(true, 0);
        let shorter = longest.since(self.options.slice(node.is_sync, node.level));
        let delay = shorter.0 as i64 * i64::from(others);
        let turn = now.0 as i64 + delay - node.left_over;
        node.left_over = 0;
        group.trees[class].insert(number, turn, to_front);
    }

    /// The slice of a node, shortened if so many take turns that none would come back within
    /// `target_latency`.
    fn slice_of(&self, number: u32) -> Nanos {
        let node = &self.nodes[number];
        let slice = self.options.slice(node.is_sync, node.level);
        if self.options.target_latency_ms == 0 {
            return slice;
        }
        let group = &self.groups[node.group];
        let weights =
            self.groups.iter().filter(|group| group.is_busy()).map(|g| u64::from(g.weight));
        let target = Nanos::from_millis(self.options.target_latency_ms).0;
        let share = target * u64::from(group.weight) / weights.sum::<u64>().max(1);
        let base = Nanos::from_millis(self.options.slice_sync_ms).0;
        let expected = base * u64::from(group.busy[node.class as usize]);
        if expected <= share {
            return slice;
        }
        let least = (2 * self.options.slice_idle().0 * slice.0 / base.max(1)).min(slice.0);
        Nanos((slice.0 * share / expected).max(least))
    }

    /// Ends the slice in service. What is left of it counts towards the next one if it was cut
    /// short (`resumes`).
    fn expire(&mut self, now: Nanos, resumes: bool) {
        let Some(slice) = self.active.take() else { return };
        let number = slice.node;
        if resumes {
            let end = slice.end.unwrap_or(now + self.slice_of(number));
            self.nodes[number].left_over = end.0 as i64 - now.0 as i64;
        }
        let group = self.nodes[number].group;
        self.groups[group].serve(now.since(slice.begun).0.max(1));
        if self.nodes[number].queue.is_empty() {
            self.busy -= 1;
            self.busy_sync -= u32::from(self.nodes[number].is_sync);
            self.groups[group].becomes_idle(self.nodes[number].class as usize);
        } else {
            self.enqueue(now, number, false);
        }
    }

    /// The node to serve; `None` if there is none, or one is waited for.
    fn select(&mut self, now: Nanos) -> Option<u32> {
        if let Some(slice) = &self.active {
            let node = &self.nodes[slice.node];
            let is_used = slice.is_used(now);
            if !is_used && !node.queue.is_empty() {
                return Some(slice.node);
            }
            if !is_used && node.queue.is_empty() {
                let idles = slice.idle_until.is_some_and(|until| now < until);
                let completes = node.in_device > 0 && self.should_idle(slice.node);
                if idles || completes {
                    return None;
                }
            }
            self.expire(now, is_used);
        }
        let busy = self.groups.iter_mut().filter(|group| group.waits());
        let group = busy.min_by_key(|group| group.time_served)?;
        let node = group.trees.iter_mut().find_map(tree::Tree::pop)?;
        self.active = Some(Slice::new(node, now));
        self.nodes[node].oldest_checked = false;
        Some(node)
    }

    /// Whether the device is kept idle for the next request of a node.
    fn should_idle(&self, number: u32) -> bool {
        let node = &self.nodes[number];
        let idle = self.options.slice_idle();
        if idle == Nanos::ZERO || !node.is_sync || node.is_idle_class() {
            return false;
        }
        if node.think.is_longer_than(idle) {
            return false;
        }
        let queues = !self.options.rotational && self.deepest >= QUEUEING_DEPTH;
        if !node.is_seeky() && !queues {
            return true;
        }
        // The last of a tree: nothing is lost by it within its class.
        self.groups[node.group].busy[node.class as usize] == 1
    }

    /// Whether a node may have one more request in the device.
    fn may_dispatch(&self, now: Nanos, number: u32) -> bool {
        let node = &self.nodes[number];
        let [shared, waited_for] = self.in_device;
        // Writes that no process waits for leave the device before the others enter it, and enter
        // it after them.
        if node.is_sync && shared > 0 && self.should_idle(number) {
            return false;
        }
        if !node.is_sync && waited_for > 0 {
            return false;
        }
        if node.is_idle_class() {
            return node.in_device == 0;
        }
        let quantum = self.options.quantum;
        if node.in_device < (quantum / 2).max(1) {
            return true;
        }
        if self.busy == 1 || node.is_sync && self.busy_sync == 1 {
            return true;
        }
        let ends_soon = self.active.as_ref().is_some_and(|slice| {
            slice.ends_before(now, self.options.slice_idle().0 * u64::from(node.in_device))
        });
        !ends_soon && node.in_device < quantum
    }

    /// Takes the next request of a node: the oldest if it has expired (once in a slice), or the
    /// nearest.
    fn take_from(&mut self, now: Nanos, number: u32) -> Option<Request> {
        let node = &mut self.nodes[number];
        let oldest = node.queue.oldest()?;
        let mut slot = node.next.unwrap_or(oldest);
        if !node.oldest_checked {
            node.oldest_checked = true;
            let expires = self.pool.get(oldest).inserted + self.options.fifo_expire(node.is_sync);
            if now >= expires {
                slot = oldest;
            }
        }
        let (next, previous) = node.queue.neighbours(&self.pool, slot);
        let end = self.pool.get(slot).request.end();
        node.next = self.options.back_seek().choose(&self.pool, next, previous, end);
        let request = node.queue.take(&mut self.pool, slot);
        node.in_device += 1;
        self.in_device[usize::from(node.is_sync)] += 1;
        self.head = end;
        Some(request)
    }

    /// Whether a request for `new` takes the device from the node in service.
    fn preempts(&self, now: Nanos, new: u32) -> bool {
        let Some(slice) = &self.active else { return false };
        let (old, new_node) = (&self.nodes[slice.node], &self.nodes[new]);
        if slice.node == new || new_node.is_idle_class() {
            return false;
        }
        if old.is_idle_class() {
            return true;
        }
        if old.class < new_node.class {
            return false;
        }
        if new_node.is_sync && !old.is_sync {
            return true;
        }
        old.group == new_node.group && (slice.is_used(now) || new_node.class < old.class)
    }
}

impl Scheduler for Cfq {
    fn insert(&mut self, now: Nanos, request: &Request) {
        self.now = now;
        let number = self.node_of(now, request);
        self.processes.arrived(ProcessKey::of(request));
        let slot = self.pool.insert(now, request, number);
        let is_active = self.active.as_ref().is_some_and(|slice| slice.node == number);
        let node = &mut self.nodes[number];
        let was_idle = node.queue.is_empty();
        if was_idle && !is_active {
            node.takes_priority_of(request);
        }
        node.queue.push(&mut self.pool, slot);
        let back_seek = self.options.back_seek();
        node.next = back_seek.choose(&self.pool, node.next, Some(slot), self.head);
        node.think.arrived(now, self.options.slice_idle());
        node.seeks.arrived(request.offset, request.length, self.options.rotational);
        if is_active {
            let slice = self.active.as_mut().expect("it is in service");
            slice.idle_until = None;
            return;
        }
        let preempts = self.preempts(now, number);
        if was_idle {
            self.becomes_busy(now, number, preempts);
        }
        if preempts {
            if !was_idle {
                let node = &self.nodes[number];
                let tree = &mut self.groups[node.group].trees[node.class as usize];
                tree.remove(number);
                tree.insert(number, now.0 as i64, true);
            }
            self.expire(now, true);
        }
    }

    fn dispatch(&mut self, now: Nanos, in_device: u32) -> Option<Request> {
        if self.pool.len() == 0 {
            // The idle time of a node that got no request ends here too.
            if self
                .active
                .as_ref()
                .is_some_and(|slice| slice.idle_until.is_some_and(|at| at <= now))
            {
                self.expire(now, false);
            }
            return None;
        }
        let number = self.select(now)?;
        if !self.may_dispatch(now, number) {
            return None;
        }
        let request = self.take_from(now, number)?;
        self.deepest = self.deepest.max(in_device + 1);
        let node = &self.nodes[number];
        let slice = self.active.as_mut().expect("it is in service");
        slice.dispatched += 1;
        let is_spent = !node.is_sync && slice.dispatched >= self.options.most_async(node.level);
        if self.busy > 1 && (is_spent || node.is_idle_class()) {
            self.expire(now, false);
        }
        Some(request)
    }

    fn completed(&mut self, now: Nanos, request: &Request, _: Nanos) {
        self.now = now;
        let Some(number) = self.processes.done(now, ProcessKey::of(request)) else { return };
        let node = &mut self.nodes[number];
        node.in_device = node.in_device.saturating_sub(1);
        node.think.completed(now);
        let (is_sync, is_empty, in_device) = (node.is_sync, node.queue.is_empty(), node.in_device);
        let count = &mut self.in_device[usize::from(is_sync)];
        *count = count.saturating_sub(1);
        let end = now + self.slice_of(number);
        let idles = is_empty && in_device == 0 && self.should_idle(number);
        let Some(slice) = self.active.as_mut().filter(|slice| slice.node == number) else { return };
        slice.end.get_or_insert(end);
        if slice.is_used(now) {
            self.expire(now, true);
        } else if idles {
            slice.idle_until = Some(now + self.options.slice_idle());
        }
    }

    fn next_timer(&self) -> Option<Nanos> {
        self.active.as_ref().and_then(|slice| slice.idle_until)
    }

    fn len(&self) -> usize {
        self.pool.len()
    }

    fn remove(&mut self, id: RequestId) -> Option<Request> {
        let (slot, number) = self.pool.find(id)?;
        let node = &mut self.nodes[number];
        if node.next == Some(slot) {
            let (next, previous) = node.queue.neighbours(&self.pool, slot);
            node.next = self.options.back_seek().choose(&self.pool, next, previous, self.head);
        }
        let request = node.queue.take(&mut self.pool, slot);
        self.processes.done(self.now, ProcessKey::of(&request));
        let is_active = self.active.as_ref().is_some_and(|slice| slice.node == number);
        if self.nodes[number].queue.is_empty() && !is_active {
            let node = &self.nodes[number];
            let (group, class) = (node.group, node.class as usize);
            self.groups[group].trees[class].remove(number);
            self.groups[group].becomes_idle(class);
            self.busy -= 1;
            self.busy_sync -= u32::from(self.nodes[number].is_sync);
        }
        Some(request)
    }
}
