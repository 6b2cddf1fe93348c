//! The end of a queue's service, and its next budget.

use trimtab_io::Nanos;

use super::Bfq;

/// Why a queue's service ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// No request came while the device was kept idle.
    TooIdle,
    /// Its time is up.
    BudgetTimeout,
    /// What is left of its budget is less than its next request.
    BudgetExhausted,
    /// It has no request, and is not waited for.
    NoMoreRequests,
    /// Another queue comes first.
    Preempted,
}

/// From this time on a queue's rate shows whether it is slow; before, whether it seeks.
const RATE_SHOWS: Nanos = Nanos::from_millis(20);
/// A shorter service than this is charged as one of a default length.
const SHORT: Nanos = Nanos::from_millis(1);

impl Bfq {
    /// Ends the service of the queue in service.
    pub(super) fn expire(&mut self, now: Nanos, reason: Reason) {
        let Some(service) = self.service else { return };
        let number = service.queue;
        let time = now.since(service.begun);
        if self.queues[number].raised == 1 {
            let unused = self.budget_left(number) >= self.entity(number).budget / 3;
            if self.is_slow(number, time) || reason == Reason::BudgetTimeout && unused {
                self.charge_time(number, time);
            }
        }
        self.queues[number].max_budget = self.next_budget(number, reason);
        self.service = None;
        let stays = reason == Reason::Preempted && self.stays_when_preempted(number);
        let queue = &self.queues[number];
        if queue.requests.is_empty() && !stays {
            self.becomes_idle(now, number);
            let by_itself = !matches!(reason, Reason::BudgetTimeout | Reason::BudgetExhausted);
            self.queues[number].awaits_next = by_itself;
            return;
        }
        let (group, entity) = (queue.group, queue.entity);
        let budget = match queue.next {
            Some(_) => self.sufficient_budget(number),
            None => self.entity(number).budget,
        };
        self.groups[group].queues.requeue(entity, budget);
        self.groups[group].queues.get_mut(entity).service = 0;
        self.requeue_group(group);
    }

    /// A queue leaves the order.
    pub(super) fn becomes_idle(&mut self, now: Nanos, number: u32) {
        let queue = &mut self.queues[number];
        queue.is_busy = false;
        self.busy[queue.class as usize] -= 1;
        self.busy_raised -= u32::from(queue.raised > 1);
        let (group, entity, in_device) = (queue.group, queue.entity, queue.in_device);
        self.groups[group].queues.deactivate(entity);
        self.requeue_group(group);
        if in_device == 0 {
            self.becomes_quiet(now, number);
        }
    }

    /// Brings the order of groups up to date with the queues of one. While one of them is in
    /// service, so is the group.
    fn requeue_group(&mut self, group: usize) {
        let queues = &self.groups[group].queues;
        if queues.has_in_service() {
            return;
        }
        match queues.peek() {
            Some(next) if self.root.is_in_service(group) => {
                let budget = queues.get(next).budget;
                self.root.requeue(group, budget);
                self.root.get_mut(group).service = 0;
            }
            Some(_) => {}
            None => self.root.deactivate(group),
        }
    }

    /// The next request of a queue that waits has changed: its budget must suffice for it.
    pub(super) fn next_has_changed(&mut self, number: u32) {
        let budget = self.sufficient_budget(number).max(self.entity(number).service);
        let (group, entity) = (self.queues[number].group, self.queues[number].entity);
        self.groups[group].queues.set_budget(entity, budget);
    }

    /// Whether a queue got little for the time that it took.
    fn is_slow(&self, number: u32, time: Nanos) -> bool {
        if time < RATE_SHOWS {
            return self.queues[number].is_seeky();
        }
        self.entity(number).service < self.options.max_budget() / 2
    }

    /// Charges a queue as if it had been served at full rate all the time.
    fn charge_time(&mut self, number: u32, time: Nanos) {
        let time = if time >= SHORT {
            time
        } else if self.options.rotational {
            self.options.slice_idle()
        } else {
            Nanos::from_millis(2)
        };
        let timeout = Nanos::from_millis(self.options.timeout_sync_ms);
        let entity = self.entity(number);
        let mut total = entity.service;
        if time < timeout {
            // Whole milliseconds, as the kernel counts.
            let (time_ms, timeout_ms) = (time.0 / 1_000_000, timeout.0 / 1_000_000);
            total = total.max(self.options.max_budget() * time_ms / timeout_ms);
        }
        let more = total - entity.service;
        let (group, number) = (self.queues[number].group, self.queues[number].entity);
        let queues = &mut self.groups[group].queues;
        let entity = queues.get_mut(number);
        entity.budget = entity.budget.max(total);
        queues.serve(number, more);
        self.root.serve(group, more);
    }

    /// A queue's largest budget after a service that ended so.
    fn next_budget(&self, number: u32, reason: Reason) -> u64 {
        let queue = &self.queues[number];
        let (least, most) = (self.options.min_budget(), self.options.max_budget());
        if !queue.is_sync {
            return most;
        }
        if queue.raised > 1 {
            return 2 * least;
        }
        let budget = queue.max_budget;
        let next = match reason {
            // Requests in the device: the next one depends on them, and the queue on its share.
            Reason::TooIdle if queue.in_device > 0 => budget * 2,
            Reason::TooIdle if budget > 5 * least => budget - 4 * least,
            Reason::TooIdle => least,
            Reason::BudgetTimeout => budget * 2,
            Reason::BudgetExhausted => budget * 4,
            // As much as it needs.
            Reason::NoMoreRequests => self.entity(number).service.max(least),
            Reason::Preempted => budget,
        };
        next.min(most)
    }

    /// Whether a queue that has got a request takes the device from the one in service.
    pub(super) fn preempts(&self, number: u32, continues: bool) -> bool {
        let Some(service) = &self.service else { return false };
        let (new, old) = (&self.queues[number], &self.queues[service.queue]);
        let group_serves_both = new.group == old.group;
        let weight = |number: u32| {
            let group = self.queues[number].group;
            if group_serves_both { self.entity(number).weight } else { self.root.get(group).weight }
        };
        let comes_first = new.class < old.class || weight(number) > weight(service.queue);
        continues && new.raised >= old.raised || comes_first || !self.better_to_idle(service.queue)
    }
}
