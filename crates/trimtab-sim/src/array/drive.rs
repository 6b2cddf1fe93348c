//! One drive of an array, with the host's queue before it.

use std::collections::VecDeque;

use trimtab_device::{Error, Served, Ssd};
use trimtab_io::{Nanos, Request, RequestId};

use crate::source::NEVER;

/// A drive with the host's queue before it.
#[derive(Clone, Debug)]
pub struct ArrayDrive {
    /// The drive.
    pub ssd: Ssd,
    /// Requests that it takes at a time.
    depth: usize,
    waiting: VecDeque<Request>,
    /// When something will happen in it.
    next: Nanos,
}

impl ArrayDrive {
    /// A drive that takes `depth` requests at a time.
    #[must_use]
    pub fn new(ssd: Ssd, depth: u32) -> Self {
        let next = ssd.next_event().unwrap_or(NEVER);
        Self { ssd, depth: depth.max(1) as usize, waiting: VecDeque::new(), next }
    }

    /// When something will happen in it; [`NEVER`] if nothing will.
    pub(super) const fn next(&self) -> Nanos {
        self.next
    }

    /// Lets time pass until then with nobody asking.
    pub(crate) fn rest(&mut self, until: Nanos) {
        self.ssd.advance(until);
        self.see_what_is_next();
    }

    /// Whether it has nothing to do for anybody.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.ssd.in_flight() == 0
    }

    /// Puts a request into the queue; whether the drive has room for it now.
    pub(super) fn push(&mut self, request: Request) -> bool {
        self.waiting.push_back(request);
        self.waiting.len() == 1 && self.has_room()
    }

    fn has_room(&self) -> bool {
        self.ssd.in_flight() < self.depth
    }

    /// Lets the drive take the first of the queue, if it has room; says which.
    pub(super) fn begin(&mut self, now: Nanos) -> Result<Option<RequestId>, Error> {
        if !self.has_room() {
            return Ok(None);
        }
        let Some(request) = self.waiting.pop_front() else { return Ok(None) };
        self.ssd.submit(now, &request)?;
        self.see_what_is_next();
        Ok(Some(request.id))
    }

    /// Takes a request out of the queue, if it is still there.
    pub(super) fn take_back(&mut self, is: impl Fn(RequestId) -> bool) -> Option<RequestId> {
        let place = self.waiting.iter().position(|request| is(request.id))?;
        self.waiting.remove(place).map(|request| request.id)
    }

    /// Lets time pass until something is answered, at most up to `until`.
    pub(super) fn advance(&mut self, until: Nanos) {
        self.ssd.advance_to_answer(until);
        self.see_what_is_next();
    }

    /// Takes the answers that have been given.
    pub(super) fn served(&mut self, into: &mut Vec<Served>) {
        into.extend(self.ssd.served());
    }

    fn see_what_is_next(&mut self) {
        self.next = self.ssd.next_event().unwrap_or(NEVER);
    }

    /// How long a request that came now would take, if nothing else came after
    /// it; none if it could not be served.
    pub(super) fn would_take(&self, now: Nanos, request: Request) -> Option<Nanos> {
        const ASKED: RequestId = RequestId(u64::MAX);
        let mut copy = self.clone();
        copy.push(Request { id: ASKED, ..request });
        let mut served = Vec::new();
        let mut at = now;
        loop {
            while copy.begin(at).ok()?.is_some() {}
            copy.served(&mut served);
            if let Some(answer) = served.iter().find(|s| s.completion.request == ASKED) {
                return Some(answer.completion.complete.since(now));
            }
            if served.is_empty() && copy.next == NEVER {
                return None;
            }
            if served.is_empty() {
                copy.advance(NEVER);
            }
            at = copy.ssd.now().max(at);
            served.clear();
        }
    }
}
