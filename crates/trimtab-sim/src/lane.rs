//! One device with its workloads, in its own time.
//!
//! Lanes are independent of each other, so each has its own loop, without synchronisation
//! between devices. A device composed of several drives is one [`Server`]; replicas are
//! related by the [array driver](crate::array).

use trimtab_device::SsdStats;
use trimtab_io::{DeviceId, Issuer, Nanos, Request, RequestId};

use crate::error::Error;
use crate::figures::Figures;
use crate::host::{Arrived, Host, HostInterface};
use crate::server::Server;
use crate::source::{NEVER, Source};

/// Requests that may arrive at one instant; more are assumed to be an endless loop.
const MOST_AT_ONCE: u64 = 1 << 22;

/// A device that has completed none of its requests for this long never will: it is busy
/// internally (endless garbage collection, say).
const PATIENCE: Nanos = Nanos::from_secs(60);

/// A device to simulate, and its workloads.
pub struct Device<S> {
    /// Its name in reports.
    pub name: String,
    /// The device itself, in its initial state.
    pub server: S,
    /// The host interface.
    pub host: HostInterface,
    /// The sources of its requests; at least one.
    pub workloads: Vec<Workload>,
}

/// One stream of requests to a device.
pub struct Workload {
    /// Its name in reports.
    pub name: String,
    /// The submission queue that it uses; `None`: all of them in turn.
    pub queue: Option<u32>,
    /// Who issues its requests; for schedulers.
    pub issuer: Issuer,
    /// Its requests.
    pub source: Source,
}

/// How long devices are simulated, and which part is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Requests of each device that are not measured, from the first on.
    pub warm_up_requests: u64,
    /// Time that is not measured, from the start on. The warm-up ends at the later of the two.
    pub warm_up: Nanos,
    /// Requests of each device after the warm-up, if that ends it.
    pub requests: Option<u64>,
    /// Time after the warm-up, if that ends it. Requests in flight are still waited for.
    pub duration: Option<Nanos>,
}

/// A device and its figures during the simulation.
pub(crate) struct Lane<S> {
    pub(crate) name: String,
    id: DeviceId,
    server: S,
    host: Host,
    workloads: Box<[Workload]>,
    /// Whether one of them waits for completions.
    closed_loop: bool,
    span: Span,
    pub(crate) figures: Figures,
    /// The device's counters when the measured time started.
    before: Option<SsdStats>,
    /// Requests that arrived, and how many of them are measured.
    pub(crate) arrived: u64,
    pub(crate) measured: u64,
    /// No more requests are taken from the workloads.
    over: bool,
    pub(crate) finished: bool,
    now: Nanos,
    /// When the last request was sent to the device.
    sent_last: Nanos,
    /// Requests that arrived at this instant.
    at_once: u64,
    pub(crate) most_in_flight: usize,
    pub(crate) most_waiting: usize,
}

impl<S: Server> Lane<S> {
    pub(crate) fn new(device: Device<S>, id: DeviceId, span: Span) -> Self {
        let mut figures = Figures::new(device.workloads.len());
        if span.warm_up_requests == 0 {
            figures.start = span.warm_up;
            figures.stop = span.duration.map_or(NEVER, |duration| span.warm_up + duration);
        }
        Self {
            id,
            host: Host::new(device.host),
            closed_loop: device.workloads.iter().any(|w| w.source.is_closed()),
            workloads: device.workloads.into(),
            name: device.name,
            server: device.server,
            span,
            figures,
            before: None,
            arrived: 0,
            measured: 0,
            over: false,
            finished: false,
            now: Nanos::ZERO,
            sent_last: Nanos::ZERO,
            at_once: 0,
            most_in_flight: 0,
            most_waiting: 0,
        }
    }

    /// Runs `steps` events or requests.
    pub(crate) fn run(&mut self, steps: u32) -> Result<(), Error> {
        for _ in 0..steps {
            let (arrival, workload) = self.next_arrival();
            if arrival == NEVER && self.host.is_idle() {
                self.finished = true;
                return self.check_measured();
            }
            let event = self.server.next_event().unwrap_or(NEVER);
            if event.min(arrival) == NEVER {
                return Err(self.stuck());
            }
            // At one instant the device goes first.
            if event <= arrival {
                // If nothing waits for completions, they can be taken together.
                let reacts = self.closed_loop || self.host.waiting() > 0 || arrival == NEVER;
                self.at_once = 0;
                if reacts {
                    // Bounded: a device may be busy internally without end.
                    let until = arrival.min(event + PATIENCE);
                    self.now = self.server.advance_to_answer(until);
                } else {
                    self.now = arrival;
                    self.server.advance(arrival);
                }
            } else {
                // Some requests complete at once: reads of blocks that were never written,
                // discards.
                self.arrive(arrival, workload)?;
            }
            self.settle()?;
        }
        let quiet_since = self.figures.last.max(self.sent_last);
        if self.host.in_flight() > 0 && self.now.since(quiet_since) > PATIENCE {
            return Err(self.stuck());
        }
        Ok(())
    }

    fn stuck(&self) -> Error {
        let (device, in_flight) = (self.name.clone(), self.host.in_flight());
        Error::Stuck { device, at: self.now, in_flight }
    }

    /// Figures of an empty measurement would be misleading.
    fn check_measured(&self) -> Result<(), Error> {
        if self.measured > 0 {
            return Ok(());
        }
        Err(Error::OnlyWarmUp { device: self.name.clone(), requests: self.arrived })
    }

    /// The time of the next request, and its workload; at one instant the first workload's.
    #[inline]
    fn next_arrival(&self) -> (Nanos, usize) {
        if self.over {
            return (NEVER, 0);
        }
        let mut earliest = (self.workloads[0].source.next(), 0);
        for (workload, i) in self.workloads[1..].iter().zip(1..) {
            let next = workload.source.next();
            if next < earliest.0 {
                earliest = (next, i);
            }
        }
        earliest
    }

    #[inline]
    fn arrive(&mut self, at: Nanos, i: usize) -> Result<(), Error> {
        self.now = at;
        if self.before.is_none()
            && self.arrived >= self.span.warm_up_requests
            && at >= self.span.warm_up
        {
            self.begin_to_measure(at);
        }
        if at >= self.figures.stop || Some(self.measured) == self.span.requests {
            self.over = true;
            return Ok(());
        }
        self.at_once += 1;
        if self.at_once > MOST_AT_ONCE {
            return Err(Error::Endless { device: self.name.clone(), at });
        }
        let workload = &mut self.workloads[i];
        let (drawn, flags) = workload.source.take()?;
        for coming in workload.source.coming() {
            self.server.expect(coming.offset);
        }
        let queue = workload.queue.map_or(self.arrived, u64::from);
        let measured = self.before.is_some();
        let arrived =
            Arrived { at, number: self.arrived, drawn, flags, workload: i as u32, measured };
        self.arrived += 1;
        self.measured += u64::from(measured);
        if !self.host.is_open() {
            self.host.push(queue, arrived);
            self.most_waiting = self.most_waiting.max(self.host.waiting());
            return Ok(());
        }
        self.send(&arrived)
    }

    #[cold]
    fn begin_to_measure(&mut self, at: Nanos) {
        self.before = Some(self.server.study());
        if self.figures.start == NEVER {
            self.figures.start = at;
            self.figures.stop = self.span.duration.map_or(NEVER, |duration| at + duration);
        }
    }

    // Inlined, so that the request is built from registers.
    #[inline(always)]
    fn send(&mut self, arrived: &Arrived) -> Result<(), Error> {
        let request = Request {
            id: RequestId(self.host.send(arrived)),
            device: self.id,
            arrival: arrived.at,
            op: arrived.drawn.op,
            offset: arrived.drawn.offset,
            length: arrived.drawn.length,
            flags: arrived.flags,
            deadline: None,
            issuer: self.workloads[arrived.workload as usize].issuer,
        };
        self.sent_last = self.now;
        self.most_in_flight = self.most_in_flight.max(self.host.in_flight());
        let sent = self.server.submit(self.now, &request);
        sent.map_err(|source| Error::Device { device: self.name.clone(), source })
    }

    /// Takes completions, and submits requests that waited for a slot.
    #[inline]
    fn settle(&mut self) -> Result<(), Error> {
        loop {
            let Self { server, host, workloads, figures, .. } = self;
            server.drain(|served| {
                let sent = host.done(served.completion.request.0);
                figures.add(&sent, served);
                workloads[sent.workload as usize].source.completed(served.completion.complete);
            });
            let Some(next) = self.host.pop() else { return Ok(()) };
            self.send(&next)?;
        }
    }

    /// The device's current time.
    pub(crate) const fn now(&self) -> Nanos {
        self.now
    }

    pub(crate) fn capacity(&self) -> u64 {
        self.server.capacity()
    }

    pub(crate) fn workload_names(&self) -> impl Iterator<Item = &str> {
        self.workloads.iter().map(|workload| workload.name.as_str())
    }

    /// The measured time so far.
    pub(crate) fn measured_time(&self) -> Nanos {
        let start = self.figures.start;
        match self.span.duration {
            // It reached its end, even if no event followed.
            Some(duration) if self.over => duration,
            // If a number of requests ends a run, it ends with the last completion.
            _ if self.finished => self.figures.last.since(start),
            _ => self.now.min(self.figures.stop).since(start),
        }
    }

    /// The device's counters within the measured time.
    pub(crate) fn study(&self) -> SsdStats {
        let (now, Some(before)) = (self.server.study(), &self.before) else {
            return SsdStats::default();
        };
        now.since(before)
    }
}
