//! One drive of an array.

use std::collections::VecDeque;

use trimtab_device::{Error, Served, Ssd};
use trimtab_io::{Nanos, Request, RequestId};

use crate::source::NEVER;

/// A drive, and the queue depth that the host uses.
#[derive(Clone, Debug)]
pub struct ArrayDrive {
    /// The drive.
    pub ssd: Ssd,
    /// Requests that it takes at a time.
    depth: usize,
    /// The time of its next event.
    next: Nanos,
}

impl ArrayDrive {
    /// A drive that takes `depth` requests at a time.
    #[must_use]
    pub fn new(ssd: Ssd, depth: u32) -> Self {
        let next = ssd.next_event().unwrap_or(NEVER);
        Self { ssd, depth: depth.max(1) as usize, next }
    }

    /// The time of its next event; [`NEVER`] if there is none.
    #[inline]
    pub(super) const fn next(&self) -> Nanos {
        self.next
    }

    /// Advances time up to `until`, without requests.
    pub fn rest(&mut self, until: Nanos) {
        self.ssd.advance(until);
        self.update_next();
    }

    #[inline]
    pub(super) const fn has_room(&self) -> bool {
        self.ssd.in_flight() < self.depth
    }

    /// Submits a request.
    #[inline]
    pub(super) fn submit(&mut self, now: Nanos, request: &Request) -> Result<(), Error> {
        self.ssd.submit(now, request)?;
        self.update_next();
        Ok(())
    }

    /// Advances time until a request completes, up to `until` at most.
    #[inline]
    pub(super) fn advance(&mut self, until: Nanos) {
        self.ssd.advance_to_answer(until);
        self.update_next();
    }

    #[inline]
    fn update_next(&mut self) {
        self.next = self.ssd.next_event().unwrap_or(NEVER);
    }

    /// The latency that a request arriving now would have, behind those in the host queue and
    /// with none after it; `None` if it could not be served. A copy of the drive serves it.
    pub(super) fn would_take<'q>(
        &self,
        now: Nanos,
        request: &Request,
        queued: impl Iterator<Item = &'q Request>,
    ) -> Option<Nanos> {
        const SAMPLE: RequestId = RequestId(u64::MAX);
        let sample = Request { id: SAMPLE, ..*request };
        let mut queue: VecDeque<Request> = queued.copied().chain([sample]).collect();
        let mut copy = self.clone();
        let mut at = now;
        loop {
            while copy.has_room()
                && let Some(next) = queue.pop_front()
            {
                copy.submit(at, &next).ok()?;
            }
            let (mut any, mut took) = (false, None);
            copy.ssd.drain(|Served { completion, .. }| {
                any = true;
                if completion.request == SAMPLE {
                    took = took.or(Some(completion.complete.since(now)));
                }
            });
            if took.is_some() {
                return took;
            }
            if !any {
                if copy.next == NEVER {
                    return None;
                }
                copy.advance(NEVER);
            }
            at = copy.ssd.now().max(at);
        }
    }
}
