//! `mitt-noop`: a disk behind a dispatch queue in FIFO order (MittOS, §4.2.1).

use trimtab_io::{Nanos, Op, Request};

use super::device_queue::{DeviceQueue, DiskPrecision, QueueOrder};
use super::disk_times::ServiceTime;
use super::limit::{Limit, Sureness};
use super::slots::Slots;
use crate::predictor::{Forecast, Predictor, Ticket};

/// Predicts a disk's latency from its next free time.
///
/// Each request adds its predicted service time to the next free time, and each completion
/// corrects it: what is left is the predicted time of the requests that have not completed, from
/// the completion on. That is the sum of the differences T_diff that the paper adds one by one. A
/// prediction is O(1). With a device queue in SSTF order the requests ahead are followed in that
/// order instead (§4.9), one step for each.
#[derive(Clone, Debug)]
pub struct MittNoop<S> {
    queue: DeviceQueue<S>,
    limit: Limit,
    sureness: Sureness,
    /// By the queue's tickets.
    forecasts: Slots<Sent>,
}

/// A request that was sent.
#[derive(Clone, Copy, Debug)]
struct Sent {
    at: Nanos,
    expected: Nanos,
    is_read: bool,
}

impl<S: ServiceTime> MittNoop<S> {
    /// A predictor for an idle disk with these service times.
    #[must_use]
    pub fn new(times: S, order: QueueOrder, limit: Limit, precision: DiskPrecision) -> Self {
        Self {
            queue: DeviceQueue::new(times, order, precision),
            limit,
            sureness: Sureness::default(),
            forecasts: Slots::new(),
        }
    }

    /// When the disk will have served all that it has; never before `now`.
    #[must_use]
    pub fn next_free(&self, now: Nanos) -> Nanos {
        self.queue.next_free(now)
    }

    /// Predicted time of all requests in flight.
    #[cfg(test)]
    pub(super) const fn pending(&self) -> Nanos {
        self.queue.pending()
    }
}

impl<S: ServiceTime + Clone + Send + 'static> Predictor for MittNoop<S> {
    fn name(&self) -> &'static str {
        "mitt-noop"
    }

    #[inline]
    fn predict(&self, now: Nanos, request: &Request) -> Forecast {
        let expected = self.queue.expected(now, &request.into());
        self.sureness.forecast(expected, self.limit.of(now, request))
    }

    #[inline]
    fn sent(&mut self, now: Nanos, request: &Request) -> Ticket {
        let expected = self.queue.expected(now, &request.into());
        let is_read = request.op == Op::Read;
        let ticket = self.forecasts.add(Sent { at: now, expected, is_read });
        let same = self.queue.sent(now, &request.into());
        debug_assert_eq!(ticket, same, "both tables fill and empty together");
        ticket
    }

    #[inline]
    fn completed(&mut self, now: Nanos, ticket: Ticket, data: bool) {
        self.queue.completed(now, ticket);
        if let Some(sent) = self.forecasts.remove(ticket).filter(|sent| data && sent.is_read) {
            self.sureness.learn(sent.expected, now.since(sent.at));
        }
    }

    fn boxed_clone(&self) -> Box<dyn Predictor> {
        Box::new(self.clone())
    }
}
