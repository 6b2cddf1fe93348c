//! A disk's device queue: when the request that is sent next will be served.

use trimtab_io::{Nanos, Op, Request};

use super::disk_times::{Served, ServiceTime};
use super::reordering::Reordering;
use super::slots::Slots;
use crate::predictor::Ticket;

/// The order in which a disk serves its device queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueOrder {
    /// First come, first served.
    Fifo,
    /// Shortest seek first among this many requests at most (MittOS, §4.9); those beyond wait in
    /// the dispatch queue, first come, first served.
    Sstf {
        /// The device queue's depth.
        depth: usize,
    },
}

/// Terms of a disk's expected latency. For experiments: each can be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskPrecision {
    /// Completions correct the next free time (T_diff; MittOS, §4.2.1).
    pub feedback: bool,
    /// Requests take longer the larger they are. Without it each counts as one of 4 KiB.
    pub sizes: bool,
}

impl Default for DiskPrecision {
    fn default() -> Self {
        Self { feedback: true, sizes: true }
    }
}

/// A request on the disk.
#[derive(Clone, Copy, Debug)]
struct Io {
    op: Op,
    offset: u64,
    end: u64,
    /// Predicted service time: after the one before it, or, in SSTF order, after the one that was
    /// sent before it.
    time: Nanos,
    /// The same as it was when the request was sent.
    planned: Nanos,
}

impl Io {
    const fn range(&self) -> (Op, u64, u64) {
        (self.op, self.offset, self.end - self.offset)
    }
}

/// A request that was served, in the plan of an SSTF queue.
#[derive(Clone, Copy, Debug)]
struct Step {
    /// Where the arm then is, and how far the next request is from there; [`u64::MAX`]: none.
    head: u64,
    nearest: u64,
    end: Nanos,
}

/// All requests that the disk has, and when it will be free.
#[derive(Clone, Debug)]
pub(super) struct DeviceQueue<S> {
    times: S,
    order: QueueOrder,
    precision: DiskPrecision,
    ios: Slots<Io>,
    /// Without feedback: when the disk is free.
    free: Nanos,
    /// Start of the current service.
    began: Nanos,
    /// Predicted time of all requests, the current one included.
    pending: Nanos,
    /// The end of the request that was sent last, and of the one that completed last.
    sent_end: u64,
    head: u64,
    /// In SSTF order: the one in service with its predicted time, and the rest of the device
    /// queue by offset.
    serving: Option<(Ticket, Nanos)>,
    sorted: Vec<(u64, Ticket)>,
    /// The order of service, the current request first.
    steps: Vec<Step>,
    /// Of what is predicted in the order of sending.
    reordering: Reordering,
}

impl<S: ServiceTime> DeviceQueue<S> {
    pub(super) fn new(times: S, order: QueueOrder, precision: DiskPrecision) -> Self {
        let depth = match order {
            QueueOrder::Fifo => 0,
            QueueOrder::Sstf { depth } => depth,
        };
        Self {
            times,
            order,
            precision,
            ios: Slots::new(),
            free: Nanos::ZERO,
            began: Nanos::ZERO,
            pending: Nanos::ZERO,
            sent_end: 0,
            head: 0,
            serving: None,
            sorted: Vec::with_capacity(depth),
            steps: Vec::with_capacity(depth),
            reordering: Reordering::default(),
        }
    }

    /// The predicted service time of a request that begins at `begin`, after one that ended at
    /// `previous_end`.
    #[inline]
    fn time(&self, begin: Nanos, previous_end: u64, request: &Request) -> Nanos {
        self.time_of(begin, previous_end, (request.op, request.offset, request.length))
    }

    #[inline]
    fn time_of(&self, begin: Nanos, previous_end: u64, request: (Op, u64, u64)) -> Nanos {
        let (op, offset, length) = request;
        let length = if self.precision.sizes { length } else { 4096 };
        if self.precision.feedback {
            self.times.expected_from(begin, previous_end, op, offset, length)
        } else {
            self.times.expected(previous_end, op, offset, length)
        }
    }

    /// When the disk will have served all that it has.
    #[inline]
    pub(super) fn next_free(&self, now: Nanos) -> Nanos {
        if !self.precision.feedback {
            return self.free.max(now);
        }
        let current = match self.serving {
            Some((_, time)) => time,
            None => self.ios.oldest().map_or(Nanos::ZERO, |io| io.time),
        };
        // The current one may be overdue.
        (self.began + current).max(now) + self.reordering.scaled(self.pending - current)
    }

    /// Until a request that were sent now had completed.
    #[inline]
    pub(super) fn expected(&self, now: Nanos, request: &Request) -> Nanos {
        match self.order {
            QueueOrder::Sstf { depth } if self.precision.feedback && self.ios.len() < depth => {
                self.expected_in_order(now, request)
            }
            _ => {
                let begin = self.next_free(now);
                begin.since(now) + self.time(begin, self.sent_end, request)
            }
        }
    }

    /// The same in SSTF order: the request is served at the first step at which it is nearer than
    /// the next one.
    fn expected_in_order(&self, now: Nanos, request: &Request) -> Nanos {
        let Some(first) = self.steps.first() else {
            return self.time(now, self.head, request);
        };
        let is_next = |step: &&Step| request.offset.abs_diff(step.head) < step.nearest;
        let Some(step) = self.steps.iter().find(is_next) else { return first.end.since(now) };
        // The current one may be overdue.
        let begin = first.end.max(now) + step.end.since(first.end);
        begin.since(now) + self.time(begin, step.head, request)
    }

    /// Plans the order of service from the current request on. The arm's next request is the
    /// nearest on its left or on its right, so that one step along the sorted queue is taken for
    /// each.
    fn plan(&mut self) {
        self.steps.clear();
        let Some((current, time)) = self.serving else { return };
        let Some(current) = self.ios.get(current) else { return };
        let (mut head, mut end) = (current.end, self.began + time);
        let mut right = self.sorted.partition_point(|&(offset, _)| offset < head);
        let mut left = right;
        loop {
            let before = left.checked_sub(1).and_then(|left| self.sorted.get(left));
            let after = self.sorted.get(right);
            let distance = |at: Option<&(u64, Ticket)>| {
                at.map_or(u64::MAX, |&(offset, _)| offset.abs_diff(head))
            };
            let nearest = distance(before).min(distance(after));
            self.steps.push(Step { head, nearest, end });
            let next = if before.is_some() && distance(before) == nearest {
                left -= 1;
                before
            } else {
                right += 1;
                after
            };
            let Some(io) = next.and_then(|&(_, ticket)| self.ios.get(ticket)) else { return };
            end += self.time_of(end, head, io.range());
            head = io.end;
        }
    }

    pub(super) fn sent(&mut self, now: Nanos, request: &Request) -> Ticket {
        if self.ios.is_empty() {
            self.began = now;
        }
        let begin = self.next_free(now);
        let time = if self.order == QueueOrder::Fifo && self.precision == DiskPrecision::default() {
            let Request { op, offset, length, .. } = *request;
            self.times.sent(begin, self.sent_end, &Served { op, offset, length })
        } else {
            self.time(begin, self.sent_end, request)
        };
        self.free = self.free.max(now) + time;
        self.pending += time;
        self.sent_end = request.end();
        let io =
            Io { op: request.op, offset: request.offset, end: request.end(), time, planned: time };
        let ticket = self.ios.add(io);
        if let QueueOrder::Sstf { depth } = self.order {
            if self.serving.is_none() {
                self.serve(ticket);
            } else if self.sorted.len() + 1 < depth {
                self.insert(io.offset, ticket);
            }
            self.plan();
        }
        ticket
    }

    /// Returns the predicted time of the request.
    pub(super) fn completed(&mut self, now: Nanos, ticket: Ticket) -> Option<Nanos> {
        let io = self.ios.remove(ticket)?;
        self.pending = self.pending - io.time;
        if self.precision.feedback {
            let served = Served { op: io.op, offset: io.offset, length: io.end - io.offset };
            self.times.served(self.began, now, self.head, &served);
        }
        let took = now.since(self.began);
        self.head = io.end;
        self.began = now;
        match self.order {
            QueueOrder::Sstf { .. } => {
                self.reordering.learn(io.planned, took);
                self.next_in_order(ticket);
                self.plan();
            }
            QueueOrder::Fifo => {}
        }
        Some(io.time)
    }

    /// The disk begins with the nearest request.
    fn next_in_order(&mut self, completed: Ticket) {
        match self.serving.take() {
            Some((serving, _)) if serving != completed => {
                // It was not the one that was expected.
                self.sorted.retain(|&(_, ticket)| ticket != completed);
                if let Some(io) = self.ios.get(serving) {
                    self.insert(io.offset, serving);
                }
            }
            _ => {}
        }
        let after = self.sorted.partition_point(|&(offset, _)| offset < self.head);
        let near = [after.checked_sub(1), Some(after)].into_iter().flatten();
        let near = near.filter(|&at| at < self.sorted.len());
        let nearest = near.min_by_key(|&at| self.sorted[at].0.abs_diff(self.head));
        if let Some(nearest) = nearest {
            let (_, ticket) = self.sorted.remove(nearest);
            self.serve(ticket);
        }
        self.refill();
    }

    /// The oldest request of the dispatch queue enters the device queue.
    fn refill(&mut self) {
        let QueueOrder::Sstf { depth } = self.order else { return };
        let held = self.sorted.len() + usize::from(self.serving.is_some());
        if held >= depth || held >= self.ios.len() {
            return;
        }
        let (sorted, serving) = (&self.sorted, self.serving.map(|(ticket, _)| ticket));
        let waits = |ticket: &Ticket| {
            serving != Some(*ticket) && !sorted.iter().any(|(_, other)| other == ticket)
        };
        let next = self.ios.tickets().find(waits);
        match next.and_then(|ticket| Some((ticket, self.ios.get(ticket)?.offset))) {
            Some((ticket, _)) if self.serving.is_none() => self.serve(ticket),
            Some((ticket, offset)) => self.insert(offset, ticket),
            None => {}
        }
    }

    fn serve(&mut self, ticket: Ticket) {
        let Some(&io) = self.ios.get(ticket) else { return };
        let time = io.time;
        let now = self.time_of(self.began, self.head, io.range());
        self.pending = self.pending - time + now;
        if let Some(io) = self.ios.get_mut(ticket) {
            io.time = now;
        }
        self.serving = Some((ticket, now));
    }

    fn insert(&mut self, offset: u64, ticket: Ticket) {
        let at = self.sorted.partition_point(|&(other, _)| other < offset);
        self.sorted.insert(at, (offset, ticket));
    }

    /// Predicted time of all requests in the queue.
    #[cfg(test)]
    pub(super) const fn pending(&self) -> Nanos {
        self.pending
    }
}
