//! First in, first out: `none`, or `noop`.

use std::collections::VecDeque;

use trimtab_io::{Nanos, Request, RequestId};

use super::Scheduler;

/// Requests in the order of their arrival.
#[derive(Clone, Debug, Default)]
pub struct Fifo {
    queue: VecDeque<Request>,
}

impl Fifo {
    /// An empty queue.
    #[must_use]
    pub const fn new() -> Self {
        Self { queue: VecDeque::new() }
    }
}

impl Scheduler for Fifo {
    #[inline]
    fn insert(&mut self, _: Nanos, request: &Request) {
        self.queue.push_back(*request);
    }

    #[inline]
    fn dispatch(&mut self, _: Nanos, _: u32) -> Option<Request> {
        self.queue.pop_front()
    }

    #[inline]
    fn completed(&mut self, _: Nanos, _: &Request, _: Nanos) {}

    #[inline]
    fn next_timer(&self) -> Option<Nanos> {
        None
    }

    fn len(&self) -> usize {
        self.queue.len()
    }

    fn remove(&mut self, id: RequestId) -> Option<Request> {
        let at = self.queue.iter().position(|request| request.id == id)?;
        self.queue.remove(at)
    }
}
