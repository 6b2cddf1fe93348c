//! When the device is kept idle for the queue in service.

use trimtab_io::Nanos;

use super::Bfq;

/// A seeky queue is waited for so long at most: it gains little.
const SEEKY_IDLE: Nanos = Nanos::from_millis(2);
/// A raised queue is waited for so long at least.
const RAISED_IDLE: Nanos = Nanos::from_millis(20);

impl Bfq {
    /// Whether queues with requests differ in weight or class, so that without idling they would
    /// not get their shares. A queue with the smallest weight needs no protection by its weight.
    pub(super) fn is_asymmetric(&self, number: Option<u32>) -> bool {
        let smallest = self.weights.first().map(|(weight, _)| *weight);
        let is_smallest = number.is_some_and(|number| {
            let counted = self.queues[number].counted;
            counted.is_some() && counted == smallest
        });
        let weights_differ = !is_smallest && self.weights.len() > 1;
        let classes = self.busy.iter().filter(|&&busy| busy > 0).count();
        let groups = self.groups.iter().filter(|group| group.pending > 0).count();
        weights_differ || classes > 1 || groups > 1
    }

    /// Whether idling gains throughput: on a disk, for a process that reads sequentially.
    fn idling_gains_throughput(&self, number: u32) -> bool {
        let queue = &self.queues[number];
        let rotational = self.options.rotational;
        let is_sequential = !queue.is_seeky() && !self.thinks_long(number);
        let gains = rotational && !self.queueing || (rotational || !self.queueing) && is_sequential;
        gains && self.busy_raised == 0
    }

    fn thinks_long(&self, number: u32) -> bool {
        let half = Nanos(self.options.slice_idle().0 / 2);
        self.queues[number].think.is_longer_than(half)
    }

    /// Whether a queue would lose its share without idling.
    fn idling_guards_share(&self, number: u32) -> bool {
        let queue = &self.queues[number];
        let all = self.busy.iter().sum::<u32>();
        let raised_among_others =
            self.busy_raised < all || self.in_device >= queue.in_device + 4 || all == 1;
        queue.raised > 1 && raised_among_others || self.is_asymmetric(Some(number))
    }

    /// Whether it is better to keep the device idle for a queue than to serve another.
    pub(super) fn better_to_idle(&self, number: u32) -> bool {
        let queue = &self.queues[number];
        if self.options.slice_idle() == Nanos::ZERO || !queue.is_sync || queue.is_idle_class() {
            return false;
        }
        self.idling_gains_throughput(number) || self.idling_guards_share(number)
    }

    pub(super) fn must_idle(&self, number: u32) -> bool {
        self.queues[number].requests.is_empty() && self.better_to_idle(number)
    }

    /// Whether an empty queue that is preempted stays in the order, for the share that it lost.
    pub(super) fn stays_when_preempted(&self, number: u32) -> bool {
        self.idling_guards_share(number)
    }

    /// How long to wait for a queue's next request.
    pub(super) fn idle_time(&self, number: u32) -> Nanos {
        let (queue, idle) = (&self.queues[number], self.options.slice_idle());
        if queue.raised > 1 {
            idle.max(RAISED_IDLE)
        } else if queue.is_seeky() && !self.is_asymmetric(Some(number)) {
            idle.min(SEEKY_IDLE)
        } else {
            idle
        }
    }
}
