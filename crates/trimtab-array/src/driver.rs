//! The driver of a planner, over any [`Backend`]: drives in virtual time, or real ones.
//!
//! ```text
//!   load ──> Planner (policy) ──> timer queue, computations
//!               │        ▲               │
//!               ▼        │ completions   ▼
//!            host queues, in-flight table ──> Backend
//! ```
//!
//! The lower half is that of the driver of replicas (`trimtab-steer`). With a write buffer
//! ([`Staged`]) the back end is one that has the buffer before its drives. It processes the earliest
//! event: a completion, a timer or the end of a computation, an arrival; at one instant in that
//! order.

mod figures;
mod staged;
mod timers;

pub use figures::{DriveReads, Figures};
pub use staged::Staged;

use trimtab_io::{DeviceId, Flags, Nanos, Op, Request, RequestId};
use trimtab_steer::Replica;
use trimtab_steer::driver::{Backend, Completed, HostQueues, InFlight, Wake};

use crate::layout::{Level, Position};
use crate::members::Member;
use crate::planner::{Action, MemberIo, Planner, member_of};
use timers::{Due, Timers};

const NEVER: Nanos = Nanos::MAX;

/// A request of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserIo {
    /// What it does.
    pub op: Op,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
}

/// Requests of the user, with their times.
pub trait Load {
    /// When the next request arrives; [`Nanos::MAX`]: none, or that depends on completions.
    fn next(&self) -> Nanos;

    /// Takes the request that arrives then; none: the load is at fault, and ends.
    fn take(&mut self) -> Option<UserIo>;

    /// Calls `announce` for requests that arrive soon and became known with the last
    /// [`take`](Self::take). A hint, which may make the back end faster and changes nothing else.
    fn coming(&self, announce: &mut dyn FnMut(&UserIo)) {
        _ = announce;
    }

    /// One of its requests has completed: a closed loop sends another.
    fn completed(&mut self, now: Nanos) {
        _ = now;
    }
}

/// How long computations take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ComputeCost {
    /// Each, ns.
    pub each_ns: u64,
    /// Per KiB that goes into it, ns.
    pub per_kib_ns: f64,
}

impl Default for ComputeCost {
    /// 10 µs for what is read (an upper bound: IODA, §4.2.1), and 10 GB/s.
    fn default() -> Self {
        Self { each_ns: 10_000, per_kib_ns: 100.0 }
    }
}

impl ComputeCost {
    fn of(self, bytes: u64) -> Nanos {
        Nanos(self.each_ns + (bytes as f64 / 1024.0 * self.per_kib_ns) as u64)
    }
}

/// How a load is run.
#[derive(Clone, Copy, Debug, Default)]
pub struct DriverOptions {
    /// The cost of parity.
    pub compute: ComputeCost,
    /// Requests that complete before this time are not judged.
    pub judged_from: Nanos,
    /// Ends after this many judged reads; none: with the load.
    pub reads: Option<u64>,
    /// Ends at this time, if nothing else has ended it, with requests in flight.
    pub until: Option<Nanos>,
}

/// An array of drives in operation.
pub struct ArrayDriver<B> {
    backend: B,
    planner: Planner,
    queues: HostQueues<MemberIo>,
    timers: Timers,
    options: DriverOptions,
    figures: Figures,
    /// Arrivals of the requests in flight, by number.
    begun: Vec<(Nanos, Op)>,
    free: Vec<u32>,
    /// Completed since the load was told.
    completed: u64,
    /// Judged reads of figures that were taken.
    judged: u64,
    now: Nanos,
}

impl<B: Backend> ArrayDriver<B> {
    /// An idle array.
    ///
    /// # Panics
    /// The back end has another number of drives than the planner has members.
    pub fn new(backend: B, planner: Planner, options: DriverOptions) -> Self {
        assert_eq!(backend.drives(), planner.layout().members(), "a drive for each member");
        Self {
            queues: HostQueues::new(backend.drives(), false),
            timers: Timers::default(),
            figures: Figures::new(backend.drives()),
            begun: Vec::new(),
            free: Vec::new(),
            completed: 0,
            judged: 0,
            now: backend.now(),
            backend,
            planner,
            options,
        }
    }

    /// The back end.
    pub const fn backend(&mut self) -> &mut B {
        &mut self.backend
    }

    /// Reads judged so far.
    #[must_use]
    pub fn reads(&self) -> u64 {
        self.judged + self.figures.reads.count()
    }

    /// The time of the last event.
    #[must_use]
    pub const fn now(&self) -> Nanos {
        self.now
    }

    /// Requests of the user that have arrived and are not complete.
    #[must_use]
    pub const fn outstanding(&self) -> u64 {
        (self.begun.len() - self.free.len()) as u64
    }

    /// Takes the figures so far, and begins with new ones. Those of the planner go on.
    pub fn take_figures(&mut self) -> Figures {
        let fresh = Figures::new(self.backend.drives());
        let taken = std::mem::replace(&mut self.figures, fresh);
        self.judged += taken.reads.count();
        Figures { counts: self.planner.counts(), ..taken }
    }

    /// The planner.
    pub const fn planner(&mut self) -> &mut Planner {
        &mut self.planner
    }

    /// The figures so far.
    #[must_use]
    pub fn figures(&self) -> Figures {
        Figures { counts: self.planner.counts(), ..self.figures.clone() }
    }

    /// The back end and the figures.
    #[must_use]
    pub fn into_parts(self) -> (B, Figures) {
        let figures = Figures { counts: self.planner.counts(), ..self.figures };
        (self.backend, figures)
    }

    /// Serves a load until all of it is complete, or to the end that the options set.
    ///
    /// # Errors
    /// The back end cannot go on.
    pub fn run(&mut self, load: &mut impl Load) -> Result<(), B::Error> {
        while self.step(load)? {}
        Ok(())
    }

    /// Handles the next event or arrival; false at the end.
    ///
    /// # Errors
    /// The back end cannot go on.
    pub fn step(&mut self, load: &mut impl Load) -> Result<bool, B::Error> {
        let enough = self.options.reads.is_some_and(|reads| self.reads() >= reads);
        if enough || self.options.until.is_some_and(|until| self.now >= until) {
            return Ok(false);
        }
        let planner = &self.planner;
        self.timers.skip(|timer| planner.is_over(timer));
        let timer = self.timers.next();
        let arrival = load.next();
        if arrival == NEVER && self.planner.is_idle() && self.queues.is_empty() {
            return Ok(false);
        }
        let wake = self.backend.wait(timer.min(arrival))?;
        let planner = &mut self.planner;
        self.backend.host_events(|drive, event| planner.observe(Member(drive.0), &event));
        match wake {
            Wake::Drive(drive) => {
                self.now = self.backend.now();
                self.settle(drive)?;
            }
            Wake::Due => {
                self.now = self.backend.now();
                if timer <= arrival {
                    self.due();
                } else {
                    let Some(io) = load.take() else { return Ok(false) };
                    load.coming(&mut |io| self.expect(io));
                    self.arrive(&io, arrival);
                }
                self.act()?;
            }
            Wake::Idle => {}
        }
        for _ in 0..std::mem::take(&mut self.completed) {
            load.completed(self.now);
        }
        Ok(true)
    }

    fn arrive(&mut self, io: &UserIo, at: Nanos) {
        let number = self.free.pop().unwrap_or_else(|| {
            self.begun.push((Nanos::ZERO, Op::Read));
            self.begun.len() as u32 - 1
        });
        self.begun[number as usize] = (at, io.op);
        self.figures.arrived += u64::from(at >= self.options.judged_from);
        let id = RequestId(number.into());
        let request = Request::new(id, DeviceId(0), at, io.op, io.offset, io.length);
        let request = Request { flags: Flags::LATENCY_CRITICAL, ..request };
        self.planner.submit(self.now, &request);
    }

    /// A request arrives soon: tells the back end where its first bytes are, on all members for a write,
    /// whose parity needs them.
    fn expect(&mut self, io: &UserIo) {
        let layout = self.planner.layout();
        if io.offset >= layout.capacity() {
            return;
        }
        let Position { stripe, index, offset } = layout.locate(io.offset);
        self.planner.expect(stripe);
        let at = layout.member_offset(stripe, offset);
        if io.op == Op::Write && layout.level() != Level::Raid0 {
            (0..layout.members()).for_each(|m| self.backend.expect(Replica(m as u8), at));
        } else {
            self.backend.expect(Replica(member_of(layout, stripe, index) as u8), at);
        }
    }

    fn due(&mut self) {
        match self.timers.take() {
            Some(Due::Timer(timer)) if !self.planner.is_over(timer) => {
                self.planner.timer(self.now, timer);
            }
            Some(Due::Computed(part)) => self.planner.computed(self.now, part),
            Some(Due::Timer(_)) | None => {}
        }
    }

    /// Carries out the planner's actions, and those that they cause.
    fn act(&mut self) -> Result<(), B::Error> {
        while let Some(action) = self.planner.next_action() {
            match action {
                Action::Send(io, request) => self.send(io, request)?,
                Action::Cancel(part) => self.cancel(part),
                Action::Compute(part, bytes) => {
                    let at = self.now + self.options.compute.of(bytes);
                    self.timers.add(at, Due::Computed(part));
                }
                Action::Timer(at, timer) => self.timers.add(at, Due::Timer(timer)),
                Action::Complete(id, outcome) => {
                    let (at, op) = self.begun[id.0 as usize];
                    self.free.push(id.0 as u32);
                    self.completed += 1;
                    if self.now >= self.options.judged_from {
                        self.figures.completed(op, self.now.since(at), outcome, self.now);
                    }
                }
                Action::PartDone(_) | Action::Lost(_) => {}
            }
        }
        Ok(())
    }

    fn send(&mut self, io: MemberIo, request: Request) -> Result<(), B::Error> {
        let drive = Replica(io.member.0);
        if self.queues.push(self.now, drive, request, io) && self.backend.has_room(drive) {
            self.queues.issue(self.now, drive, &mut self.backend)?;
            // Some requests complete at once.
            self.take_completions(drive);
        }
        Ok(())
    }

    /// Takes back what a part has in the host queues.
    fn cancel(&mut self, part: u32) {
        let times = self.planner.times(part);
        for member in 0..self.backend.drives() as u8 {
            let fits = |io: &MemberIo| io.part == part;
            while let Some(request) = self.queues.take_back(Replica(member), times, fits) {
                let InFlight { purpose, sent, .. } = *request;
                self.planner.ended(self.now, purpose, sent, None);
            }
        }
    }

    /// Handles a drive's completions, and what they cause there.
    fn settle(&mut self, drive: Replica) -> Result<(), B::Error> {
        loop {
            let mut any = self.take_completions(drive);
            // A drive may have room again without a completion, where a write buffer shares it.
            while self.queues.issue(self.now, drive, &mut self.backend)?.is_some() {
                any = true;
            }
            if !any {
                return Ok(());
            }
            self.act()?;
        }
    }

    fn take_completions(&mut self, drive: Replica) -> bool {
        let mut any = false;
        while let Some(completed) = self.backend.completion(drive) {
            any = true;
            self.completed(completed);
        }
        any
    }

    fn completed(&mut self, completed: Completed) {
        let Completed { outcome, .. } = completed;
        let delayed = self.backend.was_delayed();
        let &InFlight { sent, purpose, request, .. } = self.queues.complete(self.now, completed);
        if self.now >= self.options.judged_from && request.op == Op::Read {
            self.figures.member_read(Member(purpose.member.0), self.now.since(sent), outcome);
        }
        if delayed {
            self.planner.was_busy(purpose);
        }
        self.planner.ended(self.now, purpose, sent, Some(outcome));
    }
}
