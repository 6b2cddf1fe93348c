//! The order in which a disk will serve what it has.

use trimtab_io::Nanos;

use super::super::disk_times::{Served, ServiceTime, Start};
use super::{DeviceQueue, QueueOrder, Step};
use crate::predictor::Ticket;

impl<S: ServiceTime> DeviceQueue<S> {
    /// What the next request is chosen by, if the arm is at `head`.
    #[inline]
    pub(super) fn cost(&self, start: Start, head: u64, request: &Served) -> u64 {
        match self.order {
            QueueOrder::Fifo => 0,
            QueueOrder::Sstf { .. } => request.offset.abs_diff(head),
            QueueOrder::Ncq { .. } => {
                // To the first sector: what follows does not count.
                let first = Served { length: 512, ..*request };
                self.times.expected_from(start, head, &first).0
            }
        }
    }

    /// Plans the order of service from the current request on.
    pub(super) fn plan(&mut self) {
        self.steps.clear();
        let Some((current, time)) = self.serving else { return };
        let Some(current) = self.ios.get(current) else { return };
        let (head, end) = (current.request.end(), self.began + time);
        match self.order {
            QueueOrder::Ncq { starvation, .. } => self.plan_by_time(head, end, starvation),
            _ => self.plan_by_distance(head, end),
        }
    }

    /// The arm's next request is the nearest on its left or on its right, so that one step along
    /// the sorted queue is taken for each.
    fn plan_by_distance(&mut self, mut head: u64, mut end: Nanos) {
        let mut right = self.sorted.partition_point(|&(offset, _)| offset < head);
        let mut left = right;
        loop {
            let before = left.checked_sub(1).and_then(|left| self.sorted.get(left));
            let after = self.sorted.get(right);
            let distance = |at: Option<&(u64, Ticket)>| {
                at.map_or(u64::MAX, |&(offset, _)| offset.abs_diff(head))
            };
            let least = distance(before).min(distance(after));
            self.steps.push(Step { head, least, end });
            let next = if before.is_some() && distance(before) == least {
                left -= 1;
                before
            } else {
                right += 1;
                after
            };
            let Some(io) = next.and_then(|&(_, ticket)| self.ios.get(ticket)) else { return };
            end += self.time(io.start(end), head, &io.request);
            head = io.request.end();
        }
    }

    /// The angle changes while the arm moves, so that all that are left are compared at each step.
    fn plan_by_time(&mut self, mut head: u64, mut end: Nanos, starvation: Nanos) {
        let mut unplanned = std::mem::take(&mut self.unplanned);
        let ios = self.sorted.iter().filter_map(|&(_, ticket)| self.ios.get(ticket));
        unplanned.clear();
        unplanned.extend(ios.map(|io| (io.entered, io.request)));
        loop {
            let next = self.next_by_time(unplanned.iter().copied(), end, head, starvation);
            self.steps.push(Step { head, least: next.map_or(u64::MAX, |(_, cost)| cost), end });
            let Some((at, _)) = next else { break };
            let (entered, request) = unplanned.swap_remove(at);
            end += self.time(Start { entered: entered.min(end), begin: end }, head, &request);
            head = request.end();
        }
        self.unplanned = unplanned;
    }

    /// Which of these, with the times at which they entered, the arm goes to if it is free at
    /// `begin`, and what that costs: no other one costs less than one that has waited too long.
    fn next_by_time(
        &self,
        waiting: impl Iterator<Item = (Nanos, Served)> + Clone,
        begin: Nanos,
        head: u64,
        starvation: Nanos,
    ) -> Option<(usize, u64)> {
        let entered = waiting.clone().map(|(entered, _)| entered).enumerate();
        let (oldest, since) = entered.min_by_key(|&(_, entered)| entered)?;
        if begin.since(since) >= starvation {
            return Some((oldest, 0));
        }
        let cost = |(entered, request): (Nanos, Served)| {
            self.cost(Start { entered: entered.min(begin), begin }, head, &request)
        };
        waiting.map(cost).enumerate().min_by_key(|&(_, cost)| cost)
    }

    /// The place in the sorted queue of the request that the arm goes to now.
    pub(super) fn nearest(&self) -> Option<usize> {
        if let QueueOrder::Ncq { starvation, .. } = self.order {
            // Each that is in the sorted queue is in flight.
            let ios = self.sorted.iter().filter_map(|&(_, ticket)| self.ios.get(ticket));
            let waiting = ios.map(|io| (io.entered, io.request));
            return Some(self.next_by_time(waiting, self.began, self.head, starvation)?.0);
        }
        let after = self.sorted.partition_point(|&(offset, _)| offset < self.head);
        let near = [after.checked_sub(1), Some(after)].into_iter().flatten();
        let near = near.filter(|&at| at < self.sorted.len());
        near.min_by_key(|&at| self.sorted[at].0.abs_diff(self.head))
    }
}
