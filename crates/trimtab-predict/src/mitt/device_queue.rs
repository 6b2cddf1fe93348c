//! A disk's device queue: when the request that is sent next will be served.

use trimtab_io::{Nanos, Op, Request};

use super::disk_times::ServiceTime;
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
        }
    }

    /// The predicted service time of a request, after one that ended at `previous_end`.
    #[inline]
    pub(super) fn time(&self, previous_end: u64, request: &Request) -> Nanos {
        self.time_of(previous_end, request.op, request.offset, request.length)
    }

    #[inline]
    fn time_of(&self, previous_end: u64, op: Op, offset: u64, length: u64) -> Nanos {
        let length = if self.precision.sizes { length } else { 4096 };
        self.times.expected(previous_end, op, offset, length)
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
        (self.began + current).max(now) + (self.pending - current)
    }

    /// Until a request that were sent now had completed.
    #[inline]
    pub(super) fn expected(&self, now: Nanos, request: &Request) -> Nanos {
        match self.order {
            QueueOrder::Sstf { depth } if self.precision.feedback && self.ios.len() < depth => {
                self.expected_in_order(now, request)
            }
            _ => self.next_free(now).since(now) + self.time(self.sent_end, request),
        }
    }

    /// The same in SSTF order. The arm's next request is the nearest on its left or on its right,
    /// so that one step along the sorted queue is taken for each request that is served first.
    fn expected_in_order(&self, now: Nanos, request: &Request) -> Nanos {
        let Some((current, time)) = self.serving else { return self.time(self.head, request) };
        let mut wait = (self.began + time).since(now);
        let Some(current) = self.ios.get(current) else { return wait };
        let mut head = current.end;
        let mut right = self.sorted.partition_point(|&(offset, _)| offset < head);
        let mut left = right;
        loop {
            let distance =
                |at: Option<&(u64, Ticket)>| at.map(|&(offset, _)| offset.abs_diff(head));
            let before = left.checked_sub(1).and_then(|left| self.sorted.get(left));
            let after = self.sorted.get(right);
            let nearest = match (distance(before), distance(after)) {
                (Some(l), Some(r)) => l.min(r),
                (Some(one), None) | (None, Some(one)) => one,
                (None, None) => u64::MAX,
            };
            if request.offset.abs_diff(head) < nearest {
                return wait + self.time(head, request);
            }
            let next = if distance(before) == Some(nearest) {
                left -= 1;
                before
            } else {
                right += 1;
                after
            };
            let Some(io) = next.and_then(|&(_, ticket)| self.ios.get(ticket)) else {
                return wait + self.time(head, request);
            };
            wait += self.time_of(head, io.op, io.offset, io.end - io.offset);
            head = io.end;
        }
    }

    pub(super) fn sent(&mut self, now: Nanos, request: &Request) -> Ticket {
        let time = self.time(self.sent_end, request);
        if self.ios.is_empty() {
            self.began = now;
        }
        self.free = self.free.max(now) + time;
        self.pending += time;
        self.sent_end = request.end();
        let io = Io { op: request.op, offset: request.offset, end: request.end(), time };
        let ticket = self.ios.add(io);
        if let QueueOrder::Sstf { depth } = self.order {
            if self.serving.is_none() {
                self.serve(ticket);
            } else if self.sorted.len() + 1 < depth {
                self.insert(io.offset, ticket);
            }
        }
        ticket
    }

    /// Returns the predicted time of the request.
    pub(super) fn completed(&mut self, now: Nanos, ticket: Ticket) -> Option<Nanos> {
        let io = self.ios.remove(ticket)?;
        self.pending = self.pending - io.time;
        self.head = io.end;
        self.began = now;
        if matches!(self.order, QueueOrder::Sstf { .. }) {
            self.next_in_order(ticket);
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
        let Some(&Io { op, offset, end, time }) = self.ios.get(ticket) else { return };
        let now = self.time_of(self.head, op, offset, end - offset);
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
