//! A disk's device queue: when the request that is sent next will be served.

mod order;
mod plan;

use trimtab_io::Nanos;

use super::disk_times::{Served, ServiceTime, Start};
use super::reordering::Reordering;
use super::slots::Slots;
use crate::predictor::Ticket;
pub use order::{DiskPrecision, QueueOrder};

/// Of a request that waits outside the device queue.
const NOT_YET: Nanos = Nanos(u64::MAX);

/// A request on the disk.
#[derive(Clone, Copy, Debug)]
struct Io {
    request: Served,
    /// When it entered the device queue. Without one it enters when the disk is free.
    entered: Nanos,
    /// Predicted service time: after the one before it, or, if the disk sorts, after the one that was
    /// sent before it.
    time: Nanos,
    /// The same as it was when the request was sent.
    planned: Nanos,
}

impl Io {
    /// Of its service, if the arm is free at `began`.
    fn start(&self, began: Nanos) -> Start {
        Start { entered: self.entered.min(began), begin: began }
    }
}

/// A request that was served, in the plan of a queue that sorts.
#[derive(Clone, Copy, Debug)]
struct Step {
    /// Where the arm then is, and what the next request costs from there ([`DeviceQueue::cost`]);
    /// [`u64::MAX`]: none.
    head: u64,
    least: u64,
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
    /// If it sorts: the one in service with its predicted time, and the rest of the device
    /// queue by offset.
    serving: Option<(Ticket, Nanos)>,
    sorted: Vec<(u64, Ticket)>,
    /// The order of service, the current request first.
    steps: Vec<Step>,
    /// Kept for its memory.
    unplanned: Vec<(Nanos, Served)>,
    /// Of what is predicted in the order of sending.
    reordering: Reordering,
}

impl<S: ServiceTime> DeviceQueue<S> {
    pub(super) fn new(times: S, order: QueueOrder, precision: DiskPrecision) -> Self {
        let depth = order.depth().unwrap_or(0);
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
            unplanned: Vec::with_capacity(depth),
            reordering: Reordering::default(),
        }
    }

    /// The predicted service time of a request that starts then, after one that ended at
    /// `previous_end`.
    #[inline]
    fn time(&self, start: Start, previous_end: u64, request: &Served) -> Nanos {
        if self.precision.feedback {
            let counted = Served { length: self.counted(request), ..*request };
            self.times.expected_from(start, previous_end, &counted)
        } else {
            self.time_anyhow(previous_end, request)
        }
    }

    /// The same wherever the spindle then is.
    #[inline]
    pub(super) fn time_anyhow(&self, previous_end: u64, request: &Served) -> Nanos {
        let &Served { op, offset, .. } = request;
        self.times.expected(previous_end, op, offset, self.counted(request))
    }

    #[inline]
    const fn counted(&self, request: &Served) -> u64 {
        if self.precision.sizes { request.length } else { 4096 }
    }

    /// When the disk will have served all that it has.
    #[inline]
    pub(super) fn next_free(&self, now: Nanos) -> Nanos {
        if !self.precision.feedback {
            return self.free.max(now);
        }
        // All that it has is in the plan.
        if let (Some(first), Some(last)) = (self.steps.first(), self.steps.last())
            && self.steps.len() == self.ios.len()
        {
            return first.end.max(now) + last.end.since(first.end);
        }
        let current = match self.serving {
            Some((_, time)) => time,
            None => self.ios.oldest().map_or(Nanos::ZERO, |io| io.time),
        };
        // The current one may be overdue.
        (self.began + current).max(now)
            + self.reordering.scaled(self.ios.len(), self.pending - current)
    }

    /// Until a request that were sent now had completed.
    #[inline]
    pub(super) fn expected(&self, now: Nanos, request: &Served) -> Nanos {
        match self.order.depth() {
            Some(depth) if self.precision.feedback && self.ios.len() < depth => {
                self.expected_in_order(now, request, 0)
            }
            _ => self.expected_last(now, request),
        }
    }

    /// The same of a request that waits outside with so many before it, if the device sorts and
    /// they all enter while it has something to do.
    pub(super) fn expected_behind(
        &self,
        now: Nanos,
        request: &Served,
        before: usize,
    ) -> Option<Nanos> {
        let depth = self.order.depth().filter(|_| self.precision.feedback)?;
        // With no room it enters when the arm has already gone to the next one.
        let entered = (self.ios.len() + before + 1).saturating_sub(depth);
        (entered < self.steps.len().max(1)).then(|| self.expected_in_order(now, request, entered))
    }

    fn expected_last(&self, now: Nanos, request: &Served) -> Nanos {
        let begin = self.next_free(now);
        begin.since(now) + self.time(Start::at(begin), self.sent_end, request)
    }

    /// The same of a disk that sorts: the request is served at the first step from `entered` on at
    /// which it costs less than the next one.
    fn expected_in_order(&self, now: Nanos, request: &Served, entered: usize) -> Nanos {
        let Some(first) = self.steps.first() else {
            return self.time(Start::at(now), self.head, request);
        };
        // The current one may be overdue.
        let late = now.since(first.end);
        let before = entered.checked_sub(1).and_then(|before| self.steps.get(before));
        let entered_at = before.map_or(now, |step| step.end + late);
        let start = |step: &Step| Start { entered: entered_at, begin: step.end + late };
        let is_next = |step: &&Step| self.cost(start(step), step.head, request) < step.least;
        let mut steps = self.steps.iter().skip(entered);
        let Some(step) = steps.find(is_next) else { return first.end.since(now) };
        start(step).begin.since(now) + self.time(start(step), step.head, request)
    }

    pub(super) fn sent(&mut self, now: Nanos, request: &Served) -> Ticket {
        if self.ios.is_empty() {
            self.began = now;
        }
        let begin = self.next_free(now);
        let time = if self.order == QueueOrder::Fifo && self.precision == DiskPrecision::default() {
            self.times.sent(begin, self.sent_end, request)
        } else {
            self.time(Start::at(begin), self.sent_end, request)
        };
        self.free = self.free.max(now) + time;
        self.pending += time;
        self.sent_end = request.end();
        let has_room = self.order.depth().is_some_and(|depth| self.ios.len() < depth);
        let entered = if has_room { now } else { NOT_YET };
        let ticket = self.ios.add(Io { request: *request, entered, time, planned: time });
        if let Some(depth) = self.order.depth() {
            if self.serving.is_none() {
                self.serve(ticket);
            } else if self.sorted.len() + 1 < depth {
                self.insert(request.offset, ticket);
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
            self.times.served(io.start(self.began), now, self.head, &io.request);
        }
        let took = now.since(self.began);
        self.head = io.request.end();
        self.began = now;
        if self.order.depth().is_some() {
            self.reordering.learn(self.ios.len() + 1, io.planned, took);
            self.next_in_order(ticket);
            self.plan();
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
                    self.insert(io.request.offset, serving);
                }
            }
            _ => {}
        }
        if let Some(next) = self.nearest() {
            let (_, ticket) = self.sorted.remove(next);
            self.serve(ticket);
        }
        self.refill();
    }

    /// The oldest request of the dispatch queue enters the device queue.
    fn refill(&mut self) {
        let Some(depth) = self.order.depth() else { return };
        let held = self.sorted.len() + usize::from(self.serving.is_some());
        if held >= depth || held >= self.ios.len() {
            return;
        }
        let (sorted, serving) = (&self.sorted, self.serving.map(|(ticket, _)| ticket));
        let waits = |ticket: &Ticket| {
            serving != Some(*ticket) && !sorted.iter().any(|(_, other)| other == ticket)
        };
        let next = self.ios.tickets().find(waits);
        match next.and_then(|ticket| Some((ticket, self.ios.get(ticket)?.request.offset))) {
            Some((ticket, _)) if self.serving.is_none() => self.serve(ticket),
            Some((ticket, offset)) => {
                self.insert(offset, ticket);
                if let Some(io) = self.ios.get_mut(ticket) {
                    io.entered = self.began;
                }
            }
            None => {}
        }
    }

    fn serve(&mut self, ticket: Ticket) {
        let Some(&io) = self.ios.get(ticket) else { return };
        let time = io.time;
        let now = self.time(io.start(self.began), self.head, &io.request);
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

    pub(super) const fn is_empty(&self) -> bool {
        self.ios.is_empty()
    }

    /// Predicted time of all requests in the queue.
    pub(super) const fn pending(&self) -> Nanos {
        self.pending
    }
}
