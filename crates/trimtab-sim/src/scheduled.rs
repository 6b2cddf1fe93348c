//! A device below an I/O scheduler.

use std::collections::VecDeque;

use trimtab_device::scheduler::{AnyScheduler, Scheduler as _, SchedulerKind};
use trimtab_device::{Error, Served, SsdStats};
use trimtab_io::{HostEvent, Nanos, Op, Request, RequestId};

use crate::server::{Server, check, one_of};
use crate::source::NEVER;

/// A [`Server`] that gets its requests from a scheduler, at most `depth` at a time.
///
/// To the driver it is a device that takes any number of requests. Completions report the time at
/// which the device got the request as its `issue`; before, it waited in the scheduler. Flushes
/// pass the scheduler by, as in Linux, and wait only for a place in the device.
#[derive(Clone, Debug)]
pub struct Scheduled<S> {
    server: S,
    scheduler: AnyScheduler,
    depth: u32,
    /// Flushes that wait for a place.
    flushes: VecDeque<Request>,
    /// Requests in the device, by the number that it knows them by, and the numbers that are free.
    in_device: Vec<Sent>,
    free: Vec<u32>,
    served: VecDeque<Served>,
    /// Requests that the device got since this was asked last; `None`: not noted.
    dispatches: Option<Vec<Dispatch>>,
    now: Nanos,
}

/// A request has left the scheduler: the device has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dispatch {
    /// When.
    pub at: Nanos,
    /// The request.
    pub request: RequestId,
}

/// A request that the device has.
#[derive(Clone, Copy, Debug)]
struct Sent {
    request: Request,
    at: Nanos,
}

impl<S: Server> Scheduled<S> {
    /// A device below a scheduler, which gives it at most `depth` requests at a time (at least 1).
    #[must_use]
    pub fn new(server: S, scheduler: &SchedulerKind, depth: u32) -> Self {
        Self {
            server,
            scheduler: scheduler.scheduler(),
            depth: depth.max(1),
            flushes: VecDeque::new(),
            in_device: Vec::new(),
            free: Vec::new(),
            served: VecDeque::new(),
            dispatches: None,
            now: Nanos::ZERO,
        }
    }

    /// The device.
    #[must_use]
    pub const fn server(&self) -> &S {
        &self.server
    }

    /// Requests that the device does not have yet.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.scheduler.len() + self.flushes.len()
    }

    /// Takes out a request that waits: a cancelled read. `None` if the device has it, or it has
    /// completed.
    pub fn remove(&mut self, id: RequestId) -> Option<Request> {
        self.scheduler.remove(id)
    }

    fn depth_used(&self) -> u32 {
        (self.in_device.len() - self.free.len()) as u32
    }

    /// Gives the device what it takes now, and notes what it completes, until neither changes.
    fn settle(&mut self) -> Result<(), Error> {
        loop {
            self.collect();
            let used = self.depth_used();
            if used >= self.depth {
                return Ok(());
            }
            let next = self.flushes.pop_front();
            let Some(next) = next.or_else(|| self.scheduler.dispatch(self.now, used)) else {
                return Ok(());
            };
            self.send(next)?;
        }
    }

    fn send(&mut self, request: Request) -> Result<(), Error> {
        if let Some(dispatches) = &mut self.dispatches {
            dispatches.push(Dispatch { at: self.now, request: request.id });
        }
        let sent = Sent { request, at: self.now };
        let number = match self.free.pop() {
            Some(number) => {
                self.in_device[number as usize] = sent;
                number
            }
            None => {
                self.in_device.push(sent);
                self.in_device.len() as u32 - 1
            }
        };
        let request = Request { id: RequestId(number.into()), ..request };
        self.server.submit(self.now, &request)
    }

    /// Takes the device's completions.
    fn collect(&mut self) {
        let Self { server, scheduler, in_device, free, served, .. } = self;
        server.drain(|done| {
            let number = done.completion.request.0 as u32;
            let Sent { request, at } = in_device[number as usize];
            free.push(number);
            if request.op != Op::Flush {
                let service = done.completion.complete.since(at);
                scheduler.completed(done.completion.complete, &request, service);
            }
            let mut done = *done;
            done.completion.request = request.id;
            done.completion.issue = at;
            served.push_back(done);
        });
    }

    /// Advances to `until`, before which nothing happens. Without a next event the time to come is
    /// not known: a timer that gave the device nothing may have been the last one.
    fn rest(&mut self, until: Nanos) {
        if until > self.now && until != NEVER {
            self.step(until);
        }
    }

    /// Advances to the next event, or to `until` if that is earlier.
    fn step(&mut self, until: Nanos) {
        let event = self.next_event().filter(|&event| event < until);
        self.now = self.now.max(event.unwrap_or(until));
        self.server.advance(self.now);
        // Every request was checked against the capacity when it arrived.
        self.settle().expect("the device takes what fits it");
    }
}

impl<S: Server> Server for Scheduled<S> {
    fn capacity(&self) -> u64 {
        self.server.capacity()
    }

    fn now(&self) -> Nanos {
        self.now
    }

    fn in_flight(&self) -> usize {
        self.waiting() + self.depth_used() as usize
    }

    fn submit(&mut self, now: Nanos, request: &Request) -> Result<(), Error> {
        check(self, now, request)?;
        self.advance(now);
        if request.op == Op::Flush {
            self.flushes.push_back(*request);
        } else {
            self.scheduler.insert(now, request);
        }
        self.settle()
    }

    fn expect(&mut self, offset: u64) {
        self.server.expect(offset);
    }

    fn next_event(&self) -> Option<Nanos> {
        // While the device is full, a timer changes nothing.
        let has_room = self.depth_used() < self.depth;
        let timer = self.scheduler.next_timer().filter(|_| has_room);
        let timer = timer.map(|at| at.max(self.now));
        self.server.next_event().into_iter().chain(timer).min()
    }

    fn advance(&mut self, until: Nanos) {
        while self.next_event().is_some_and(|event| event <= until) {
            self.step(until);
        }
        self.rest(until);
    }

    fn advance_to_answer(&mut self, until: Nanos) -> Nanos {
        while self.served.is_empty() && self.next_event().is_some_and(|event| event <= until) {
            self.step(until);
        }
        if self.served.is_empty() {
            self.rest(until);
        }
        self.now
    }

    fn drain(&mut self, take: impl FnMut(&Served)) {
        self.served.drain(..).by_ref().for_each({
            let mut take = take;
            move |served| take(&served)
        });
    }

    fn cancel(&mut self, id: RequestId) -> bool {
        self.remove(id).is_some()
    }

    fn take_dispatches(&mut self, take: impl FnMut(Dispatch)) {
        if let Some(dispatches) = &mut self.dispatches {
            dispatches.drain(..).for_each(take);
        }
    }

    fn tell_dispatches(&mut self) -> bool {
        self.dispatches = Some(Vec::new());
        true
    }

    fn tells_events(&self) -> bool {
        self.server.tells_events()
    }

    fn take_host_events(&mut self, take: impl FnMut(HostEvent)) {
        self.server.take_host_events(take);
    }

    fn study(&self) -> SsdStats {
        self.server.study()
    }
}

/// A device with a scheduler above it, or without.
#[derive(Clone, Debug)]
pub enum MaybeScheduled<S> {
    /// The device itself.
    Direct(S),
    /// Below a scheduler.
    Scheduled(Box<Scheduled<S>>),
}

impl<S> MaybeScheduled<S> {
    /// The device, to be changed from outside.
    pub const fn device_mut(&mut self) -> &mut S {
        match self {
            Self::Direct(server) => server,
            Self::Scheduled(scheduled) => &mut scheduled.server,
        }
    }
}

one_of!(MaybeScheduled<S>, [Direct, Scheduled]);
