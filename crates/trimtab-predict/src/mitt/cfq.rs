//! `mitt-cfq`: a disk behind CFQ (MittOS, §4.2.2).

mod process;
mod weights;

use trimtab_io::{Flags, IoClass, Nanos, Op, Request};

use super::device_queue::{DeviceQueue, DiskPrecision, QueueOrder};
use super::disk_times::{Served, ServiceTime};
use super::limit::{Limit, Sureness};
use super::reordering::Reordering;
use super::slots::Slots;
use super::tolerance::ToleranceTable;
use crate::predictor::{Forecast, Predictor, Ticket};
use process::Node;
pub use weights::CfqWeights;

/// A control group.
#[derive(Clone, Debug)]
struct Group {
    number: u16,
    weight: u64,
    pending: Nanos,
    /// By class, accepted reads that may still be bumped.
    tables: [ToleranceTable; 3],
}

/// A request that was sent.
#[derive(Clone, Copy, Debug)]
struct Io {
    sent: Nanos,
    time: Nanos,
    expected: Nanos,
    node: u32,
    /// Its ticket in the device queue, once it has been dispatched.
    on_device: Option<Ticket>,
    request: Served,
}

/// Predicts a disk's latency behind CFQ.
///
/// Writes that no process waits for are in nodes that processes share by level, and are not before
/// requests that are waited for. The wait is the sum of what is on the device, of the nodes of
/// higher classes in the same group, of the peers' slices that come before, of other groups' shares
/// by weight, and of those requests of its own process that are before it on the arm's way. Each
/// process node carries the predicted time of its requests, so the sum has one term for each
/// process and not for each request. Reads that were accepted and are then bumped by a higher class are cancelled
/// when their tolerable time is negative ([`Predictor::next_cancelled`]).
///
/// It follows the queue by [`Request::issuer`] and completions. Where the scheduler reports
/// dispatches ([`Predictor::dispatched`]), requests on the device count first, in the order in which
/// the disk serves them, and can no more be bumped.
#[derive(Clone, Debug)]
pub struct MittCfq<S> {
    /// What has been dispatched.
    device: DeviceQueue<S>,
    weights: CfqWeights,
    limit: Limit,
    precision: DiskPrecision,
    sureness: Sureness,
    /// Places of processes without requests are given away.
    nodes: Vec<Node>,
    groups: Vec<Group>,
    ios: Slots<Io>,
    /// The start of the current service.
    began: Nanos,
    /// The node that is being served, and since when.
    served: Option<(u32, Nanos)>,
    cancelled: Vec<Ticket>,
    /// The end of the request that went to the disk last.
    position: u64,
    /// Requests of a process are served by place.
    reordering: Reordering,
}

/// Whether the issuer waits for a request, as CFQ has it.
const fn is_sync(request: &Request) -> bool {
    matches!(request.op, Op::Read) || request.flags.contains(Flags::SYNC)
}

/// The process of a node.
const fn process_of(request: &Request) -> u32 {
    if is_sync(request) { request.issuer.process } else { request.issuer.level as u32 }
}

const fn tree(class: IoClass) -> usize {
    class as usize - 1
}

impl<S: ServiceTime> MittCfq<S> {
    /// A predictor for an idle disk with these service times, that serves what has been dispatched
    /// in this order.
    #[must_use]
    pub fn new(
        times: S,
        order: QueueOrder,
        weights: CfqWeights,
        limit: Limit,
        precision: DiskPrecision,
    ) -> Self {
        Self {
            device: DeviceQueue::new(times, order, precision),
            weights,
            limit,
            precision,
            sureness: Sureness::default(),
            nodes: Vec::new(),
            groups: Vec::new(),
            ios: Slots::new(),
            began: Nanos::ZERO,
            served: None,
            cancelled: Vec::new(),
            position: 0,
            reordering: Reordering::default(),
        }
    }

    /// Predicted time of all requests in flight.
    #[must_use]
    pub fn pending(&self) -> Nanos {
        self.groups.iter().fold(self.device.pending(), |sum, group| sum + group.pending)
    }

    fn group_of(&self, number: u16) -> Option<usize> {
        self.groups.iter().position(|group| group.number == number)
    }

    /// What of the current service is over, as far as it was predicted, if the scheduler does not
    /// report what it dispatches.
    fn elapsed(&self, now: Nanos) -> Nanos {
        if !self.precision.feedback || !self.device.is_empty() {
            return Nanos::ZERO;
        }
        let current = self.ios.oldest().map_or(Nanos::ZERO, |io| io.time);
        now.since(self.began).min(current)
    }

    /// The expected latency of a request, and its service time. One pass over the processes.
    fn expected(&self, now: Nanos, request: &Request) -> (Nanos, Nanos) {
        let issuer = &request.issuer;
        let own_group = self.group_of(issuer.group).unwrap_or(usize::MAX);
        let (process, is_sync) = (process_of(request), is_sync(request));
        let is_own = |node: &Node| {
            node.process == process
                && node.is_sync == is_sync
                && node.class == issuer.class
                && usize::from(node.group) == own_group
        };
        let (mut own, mut number) = (None, 0);
        let (mut higher, mut peers) = (Nanos::ZERO, Nanos::ZERO);
        // A request that needs one slice waits for one of each peer.
        let own_slice = self.weights.slice_of(issuer.level);
        if let Some(at) = self.nodes.iter().position(is_own) {
            (own, number) = (Some(&self.nodes[at]), at);
        }
        let end = own.map_or(0, |node| node.end);
        let before = own.map_or(0, |node| node.before(request.offset, self.position));
        let ahead = own.map_or(Nanos::ZERO, |node| node.time_of(before));
        let service = self.device.time_anyhow(end, &request.into());
        let used = |node: usize| match self.served {
            Some((served, since)) if served as usize == node => now.since(since),
            _ => Nanos::ZERO,
        };
        let own_used = if own.is_some() { used(number).min(own_slice) } else { Nanos::ZERO };
        let is_served = own.is_some() && own_used > Nanos::ZERO;
        let needed = own_used + ahead + service;
        let rounds = needed.0.div_ceil(own_slice.0.max(1)).max(1) - u64::from(is_served);
        for (at, node) in self.nodes.iter().enumerate() {
            if usize::from(node.group) != own_group || node.requests == 0 {
                continue;
            }
            if node.class < issuer.class {
                higher += node.pending;
            } else if node.class == issuer.class && !is_own(node) && (node.is_sync || !is_sync) {
                // Requests that are waited for take the disk from those that are not.
                let slices = Nanos(node.slice.0.saturating_mul(rounds)) - used(at);
                peers += node.pending.min(slices);
            }
        }
        let inside = higher + peers + ahead;
        let others = self.others(own_group, issuer.group, inside + service);
        let is_alone = higher + peers + others == Nanos::ZERO;
        if is_alone
            && let Some(expected) = self.device.expected_behind(now, &request.into(), before)
        {
            return (expected, service);
        }
        let on_device = self.device.next_free(now).since(now);
        let wait = on_device + self.reordering.scaled(self.ios.len(), inside + others);
        (wait.since(self.elapsed(now)) + service, service)
    }

    /// What other groups are served meanwhile, by weight.
    fn others(&self, own: usize, number: u16, needed: Nanos) -> Nanos {
        let weight = match self.groups.get(own) {
            Some(group) => group.weight,
            None => self.weights.weight_of(number),
        };
        let others = self.groups.iter().enumerate().filter(|(at, _)| *at != own);
        let share = |group: &Group| Nanos(needed.0.saturating_mul(group.weight) / weight);
        others.fold(Nanos::ZERO, |sum, (_, group)| sum + group.pending.min(share(group)))
    }

    /// The node of an issuer, as one that has requests or gets one.
    fn node(&mut self, request: &Request) -> u32 {
        let issuer = &request.issuer;
        let group = self.group_of(issuer.group).unwrap_or_else(|| {
            let weight = self.weights.weight_of(issuer.group);
            let tables = [const { ToleranceTable::new() }; 3];
            let number = issuer.group;
            self.groups.push(Group { number, weight, pending: Nanos::ZERO, tables });
            self.groups.len() - 1
        }) as u16;
        let slice = self.weights.slice_of(issuer.level);
        let (process, is_sync, class) = (process_of(request), is_sync(request), issuer.class);
        let same = |node: &Node| {
            node.process == process
                && node.is_sync == is_sync
                && node.group == group
                && node.class == class
        };
        let found = self.nodes.iter().position(same);
        if let Some(found) = found {
            self.nodes[found].slice = slice;
            return found as u32;
        }
        let (pending, requests, end) = (Nanos::ZERO, 0, 0);
        let waiting = Vec::new();
        let mut node =
            Node { process, is_sync, group, class, slice, pending, requests, waiting, end };
        // A process that has no requests gives its place away.
        let unused = self.nodes.iter().position(|node| node.requests == 0);
        if let Some(unused) = unused {
            node.waiting = std::mem::take(&mut self.nodes[unused].waiting);
            if self.served.is_some_and(|(served, _)| served as usize == unused) {
                self.served = None;
            }
            self.nodes[unused] = node;
            return unused as u32;
        }
        self.nodes.push(node);
        (self.nodes.len() - 1) as u32
    }

    /// Takes a request's time out of its node.
    fn remove_time(&mut self, io: &Io) {
        let node = &mut self.nodes[io.node as usize];
        node.remove(io.request.offset, io.time);
        self.groups[usize::from(node.group)].pending =
            self.groups[usize::from(node.group)].pending - io.time;
    }

    fn forget_tolerance(&mut self, node: u32, ticket: Ticket) {
        let Node { group, class, .. } = self.nodes[node as usize];
        self.groups[usize::from(group)].tables[tree(class)].remove(ticket);
    }

    /// A request of a class bumps those of lower classes in its group.
    fn bump(&mut self, group: u16, class: IoClass, time: Nanos) {
        let cancelled = &mut self.cancelled;
        for table in &mut self.groups[usize::from(group)].tables[tree(class) + 1..] {
            table.shrink(time, |ticket| cancelled.push(ticket));
        }
    }
}

impl<S: ServiceTime + Clone + Send + 'static> Predictor for MittCfq<S> {
    fn name(&self) -> &'static str {
        "mitt-cfq"
    }

    fn predict(&self, now: Nanos, request: &Request) -> Forecast {
        let (expected, _) = self.expected(now, request);
        self.sureness.forecast(expected, self.limit.of(now, request))
    }

    fn sent(&mut self, now: Nanos, request: &Request) -> Ticket {
        let (expected, time) = self.expected(now, request);
        if self.ios.is_empty() {
            (self.began, self.served) = (now, None);
        }
        let node = self.node(request);
        let Node { group, class, .. } = self.nodes[node as usize];
        let request_of = request.into();
        let io = Io { sent: now, time, expected, node, on_device: None, request: request_of };
        let ticket = self.ios.add(io);
        // At most all of them are cancelled at once.
        self.cancelled.reserve(self.ios.len().saturating_sub(self.cancelled.len()));
        let entry = &mut self.nodes[node as usize];
        entry.insert(request.offset, time);
        entry.requests += 1;
        entry.end = request.end();
        self.groups[usize::from(group)].pending += time;
        self.bump(group, class, time);
        if let Some(limit) = self.limit.of(now, request)
            && limit >= expected
        {
            let tables = &mut self.groups[usize::from(group)].tables;
            tables[tree(class)].insert(ticket, limit - expected);
        }
        ticket
    }

    fn completed(&mut self, now: Nanos, ticket: Ticket, data: bool) {
        let Some(&io) = self.ios.get(ticket) else { return };
        self.forget_tolerance(io.node, ticket);
        self.cancelled.retain(|cancelled| *cancelled != ticket);
        self.ios.remove(ticket);
        self.nodes[io.node as usize].requests -= 1;
        let began = self.began.max(io.sent);
        let on_device = match io.on_device {
            Some(on_device) => on_device,
            None => {
                self.remove_time(&io);
                if !data {
                    return;
                }
                // It was on the disk, and nobody said so.
                self.position = io.request.end();
                self.device.sent(began, &io.request)
            }
        };
        self.device.completed(now, on_device);
        if !data {
            return;
        }
        if self.served.is_none_or(|(served, _)| served != io.node) {
            self.served = Some((io.node, began));
        }
        if self.precision.feedback {
            self.reordering.learn(self.ios.len() + 1, io.time, now.since(self.began));
        }
        self.began = now;
        if io.request.op == Op::Read {
            self.sureness.learn(io.expected, now.since(io.sent));
        }
    }

    fn dispatched(&mut self, now: Nanos, ticket: Ticket) {
        let Some(&io) = self.ios.get(ticket).filter(|io| io.on_device.is_none()) else { return };
        self.forget_tolerance(io.node, ticket);
        self.cancelled.retain(|cancelled| *cancelled != ticket);
        self.remove_time(&io);
        self.position = io.request.end();
        let on_device = self.device.sent(now, &io.request);
        if let Some(io) = self.ios.get_mut(ticket) {
            io.on_device = Some(on_device);
        }
    }

    fn next_cancelled(&mut self) -> Option<Ticket> {
        self.cancelled.pop()
    }

    fn boxed_clone(&self) -> Box<dyn Predictor> {
        Box::new(self.clone())
    }
}
