//! One drive of an array.

use std::collections::VecDeque;

use trimtab_device::{Error, Fault, Ssd};
use trimtab_io::{Nanos, Outcome, Request, RequestId};

use super::faulty::Faulty;
use crate::server::Server;
use crate::source::NEVER;

/// A drive, and the queue depth that the host uses.
#[derive(Clone, Debug)]
pub struct ArrayDrive<S = Ssd> {
    /// The drive.
    pub server: S,
    /// Requests that it takes at a time.
    depth: usize,
    /// The time of its next event.
    next: Nanos,
    /// Only of drives with a schedule, so that the others pay nothing for it.
    faulty: Option<Box<Faulty>>,
    tells_dispatches: bool,
}

impl<S: Server + Clone> ArrayDrive<S> {
    /// A drive that takes `depth` requests at a time.
    #[must_use]
    pub fn new(server: S, depth: u32) -> Self {
        let next = server.next_event().unwrap_or(NEVER);
        Self { server, depth: depth.max(1) as usize, next, faulty: None, tells_dispatches: false }
    }

    /// Gives it faults, in the place of those that it had. Their times count from the drive's
    /// own. The seed decides which requests fail. A power cut has no effect: what it loses is
    /// content, which a simulated drive has not.
    ///
    /// # Panics
    /// It has requests in flight.
    pub fn set_faults(&mut self, schedule: &[Fault], seed: u64) {
        assert_eq!(self.in_flight(), 0, "the drive must be idle");
        let faulty = || Box::new(Faulty::new(schedule, seed, self.server.now()));
        self.faulty = (!schedule.is_empty()).then(faulty);
    }

    /// Tells from now on which requests it has got from its scheduler, if it has one.
    pub fn tell_dispatches(&mut self) {
        self.tells_dispatches = self.server.tell_dispatches();
    }

    pub(super) const fn tells_dispatches(&self) -> bool {
        self.tells_dispatches
    }

    /// A read was refused.
    pub(super) fn refused(&mut self, now: Nanos, request: &Request) -> Result<(), Error> {
        self.server.refused(now, request)?;
        self.update_next();
        Ok(())
    }

    /// Takes a request back that its scheduler still holds; false if it holds it no more.
    pub(super) fn take_back(&mut self, request: RequestId) -> bool {
        let taken = self.server.cancel(request);
        if taken {
            if let Some(faulty) = &mut self.faulty {
                faulty.taken_back(request);
            }
            self.update_next();
        }
        taken
    }

    /// Requests that it has not completed.
    #[inline]
    pub(super) fn in_flight(&self) -> usize {
        self.server.in_flight() + self.faulty.as_ref().map_or(0, |faulty| faulty.held())
    }

    /// The time of its next event; [`NEVER`] if there is none.
    #[inline]
    pub(super) const fn next(&self) -> Nanos {
        self.next
    }

    /// Advances time up to `until`, without requests.
    pub fn rest(&mut self, until: Nanos) {
        self.server.advance(until);
        self.update_next();
    }

    /// Changes the drive from outside.
    pub fn change(&mut self, change: impl FnOnce(&mut S)) {
        change(&mut self.server);
        self.update_next();
    }

    #[inline]
    pub(super) fn has_room(&self) -> bool {
        self.in_flight() < self.depth
    }

    /// Submits a request.
    #[inline]
    pub(super) fn submit(&mut self, now: Nanos, request: &Request) -> Result<(), Error> {
        self.server.submit(now, request)?;
        if let Some(faulty) = &mut self.faulty {
            faulty.submitted(request);
            faulty.hold(&mut self.server);
        }
        self.update_next();
        Ok(())
    }

    /// Advances time until a request completes, up to `until` at most.
    #[inline]
    pub(super) fn advance(&mut self, until: Nanos) {
        match &mut self.faulty {
            None => _ = self.server.advance_to_answer(until),
            Some(faulty) => {
                self.server.advance_to_answer(until.min(faulty.next()));
                faulty.hold(&mut self.server);
            }
        }
        self.update_next();
    }

    /// Calls `take` for each request that has completed by now, with whether cleaning delayed it
    /// (known of drives without faults).
    #[inline]
    pub(super) fn drain(&mut self, mut take: impl FnMut(RequestId, Outcome, bool)) {
        match &mut self.faulty {
            None => self.server.drain(|served| {
                let delayed = served.breakdown.cleaning > Nanos::ZERO;
                take(served.completion.request, served.completion.outcome, delayed);
            }),
            Some(faulty) => {
                faulty.release(self.server.now(), |id, outcome| take(id, outcome, false));
                self.update_next();
            }
        }
    }

    #[inline]
    fn update_next(&mut self) {
        let held = self.faulty.as_ref().map_or(NEVER, |faulty| faulty.next());
        self.next = self.server.next_event().unwrap_or(NEVER).min(held);
    }

    /// The latency that a request arriving now would have, behind those in the host queue and
    /// with none after it; `None` if it could not be served, or fails. A copy of the drive serves it.
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
            let (mut any, mut ended) = (false, None);
            copy.drain(|request, outcome, _| {
                any = true;
                if request == SAMPLE {
                    ended = Some(outcome);
                }
            });
            if let Some(outcome) = ended {
                return (outcome == Outcome::Done).then(|| copy.server.now().since(now));
            }
            if !any {
                if copy.next == NEVER {
                    return None;
                }
                copy.advance(NEVER);
            }
            at = copy.server.now().max(at);
        }
    }
}
