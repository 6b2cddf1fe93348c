//! One driver of strategies, over any [`Backend`]: drives in virtual time, or real ones on
//! the wall clock.
//!
//! Every block is on all drives, or on some of them. Each drive has a workload: its writes go to the drive, and
//! its reads have the drive as their primary replica, from where the strategy may move them.
//! Requests arrive at their times regardless of the drives' load (open loop). A drive takes a
//! limited number of requests; the others wait in the host queue before it, first come, first
//! served.
//!
//! ```text
//!   workload ──> Steering (strategy) ──> timer queue
//!                   │        ▲               │
//!                   ▼        │ completions   ▼
//!                host queues, in-flight table ──> Backend
//! ```
//!
//! The driver processes the earliest event: a completion, a timer or delayed request of the
//! strategy, an arrival; at one instant in that order. So at a decision a strategy has seen
//! everything that had happened by then, and nothing later.
//!
//! # Parity arrays
//!
//! A read of a parity array can become several member reads and a computation. The lower
//! half of the driver ([`HostQueues`], [`Backend`]) deals in requests to drives and is generic
//! over what the driver remembers of each: the driver of `trimtab-array` is the same with a
//! planner in the place of [`Steering`].
//!
//! # Example
//!
//! A back end whose drives take 100 µs for each read, except for drive 0:
//!
//! ```
//! use trimtab_io::{Nanos, Op, Outcome, Request};
//! use trimtab_steer::driver::{ArrayIo, Backend, Completed, RunOptions, Wake, run};
//! use trimtab_steer::{Replica, strategies};
//!
//! #[derive(Default)]
//! struct Drives {
//!     now: Nanos,
//!     // In order of completion.
//!     busy: Vec<(Nanos, Replica, u32)>,
//! }
//!
//! impl Backend for Drives {
//!     type Error = ();
//!     fn drives(&self) -> usize { 2 }
//!     fn now(&self) -> Nanos { self.now }
//!     fn has_room(&self, _: Replica) -> bool { true }
//!     fn submit(&mut self, drive: Replica, slot: u32, _: &Request) -> Result<(), ()> {
//!         let takes = if drive.0 == 0 { 900 } else { 100 };
//!         self.busy.push((self.now + Nanos::from_micros(takes), drive, slot));
//!         self.busy.sort();
//!         Ok(())
//!     }
//!     fn wait(&mut self, until: Nanos) -> Result<Wake, ()> {
//!         let next = self.busy.first().map_or(Nanos::MAX, |first| first.0);
//!         self.now = next.min(until);
//!         Ok(if next <= until { Wake::Drive(self.busy[0].1) } else { Wake::Due })
//!     }
//!     fn completion(&mut self, drive: Replica) -> Option<Completed> {
//!         let (at, of, slot) = *self.busy.first()?;
//!         if at > self.now || of != drive { return None }
//!         self.busy.remove(0);
//!         Some(Completed { slot, outcome: Outcome::Done })
//!     }
//! }
//!
//! let read = ArrayIo::new(Nanos::ZERO, Op::Read, 0, 4096, Replica(0));
//! let patience = strategies::Patience::new(&[Nanos::from_micros(200); 2]);
//! let hedge = Box::new(strategies::Hedge::new("hedge", patience));
//! let run = run(&mut Drives::default(), hedge, &[read], &RunOptions::default()).unwrap();
//! // Hedged after 200 µs, complete 100 µs later.
//! assert_eq!(run.figures.reads.max(), Some(Nanos::from_micros(300)));
//! ```

mod backend;
mod figures;
mod host_queues;
mod reads;
mod timer_queue;
mod workload;

pub use backend::{Backend, Completed, Wake};
pub use figures::{ArrayFigures, DecisionScore, ReplicaFigures};
pub use host_queues::{HostQueues, InFlight, LogEntry};
pub use reads::{Reads, RequestEnd};
pub use workload::ArrayIo;

use trimtab_io::{Nanos, Request, RequestId};
use trimtab_predict::Ticket;

use crate::action::{Action, Actions, Attempt, Reason, Timer};
use crate::replica::{Order, Replica};
use crate::steering::{Counts, Steering};
use crate::strategy::{Ended, Strategy};
use timer_queue::{Due, TimerQueue};
use workload::Workload;

/// How a workload is run.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// Decides the order in which each read fails over.
    pub seed: u64,
    /// How many drives hold each block; all of its group if `None`.
    pub copies: Option<usize>,
    /// The group of each drive; empty if all are one. Drives of a group hold the same blocks, and
    /// reads fail over within it.
    pub groups: Vec<u8>,
    /// Whether a user's request is made of several reads ([`ArrayIo::user_request`]). Then the
    /// latency of reads in the figures is that of user requests: of the slowest of its reads.
    pub parallel: bool,
    /// What it takes until another replica has a read that is sent again after waiting (a hedge,
    /// say): over a network. Predicted failovers are charged by their strategies.
    pub resend: Nanos,
    /// The latency from which on a read was slow, by replica, to score predictions.
    pub thresholds: Option<Vec<Nanos>>,
    /// Whether all requests to the drives are logged.
    pub log: bool,
    /// Whether the latency of each read is kept.
    pub each_read: bool,
}

/// The result of a run.
#[derive(Debug)]
pub struct DriverRun {
    /// The figures.
    pub figures: ArrayFigures,
    /// What each drive was sent, in order; empty unless [`RunOptions::log`] is set.
    pub log: Vec<Vec<LogEntry>>,
}

/// Serves requests, which come in order of time, under a strategy, and returns when all are
/// complete.
///
/// # Errors
/// The back end cannot go on.
///
/// # Panics
/// There are no drives, more than [`MOST_DRIVES`](crate::MOST_DRIVES), or more copies than
/// [`MOST_REPLICAS`](crate::MOST_REPLICAS).
pub fn run<B: Backend>(
    backend: &mut B,
    strategy: Box<dyn Strategy>,
    requests: &[ArrayIo],
    options: &RunOptions,
) -> Result<DriverRun, B::Error> {
    let workload = Workload::new(requests, options, backend.drives());
    let mut driver = Driver::new(&mut *backend, strategy, workload, options.log);
    driver.resend = options.resend;
    while driver.handle_next()? {}
    let (counts, log) = (driver.steering.counts(), driver.queues.into_log());
    let mut figures = driver.reads.figures;
    figures.counts = counts;
    figures.score.refused = counts.refused;
    Ok(DriverRun { figures, log })
}

/// What the driver remembers of a request.
#[derive(Clone, Copy, Debug)]
enum Purpose {
    /// Sent for a read of the application.
    Attempt(Attempt, Reason),
    /// A write or the like, or a read that no strategy handles.
    Other(Ticket),
    /// A refused read, sent to learn whether it would have been fast.
    ForcedSample(Ticket),
}

/// Never.
const NEVER: Nanos = Nanos::MAX;

/// How many requests ahead a drive is notified of an arrival.
const AHEAD: usize = 4;

/// Runs a strategy over a back end, for the reads of a workload ([`run`]) or for those that a
/// program hands to it one at a time.
///
/// The back end, the strategy's reads in flight and the timers are advanced only while a method
/// is being called.
pub struct Driver<B, R> {
    backend: B,
    reads: R,
    steering: Steering,
    queues: HostQueues<Purpose>,
    timers: TimerQueue,
    actions: Actions,
    resend: Nanos,
    /// The back end's time at the event that is being handled.
    now: Nanos,
}

/// What a [step](Driver::step) of a driver did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It handled an event, or waited for one.
    Event,
    /// Its time limit came before an event.
    Until,
}

impl<B: Backend, R: Reads> Driver<B, R> {
    /// A driver without reads in flight. `log`: whether all requests to the drives are logged.
    pub fn new(backend: B, strategy: Box<dyn Strategy>, reads: R, log: bool) -> Self {
        Self {
            reads,
            steering: Steering::new(strategy),
            queues: HostQueues::new(backend.drives(), log),
            timers: TimerQueue::default(),
            actions: Actions::new(),
            resend: Nanos::ZERO,
            now: backend.now(),
            backend,
        }
    }

    /// The back end.
    pub const fn backend(&mut self) -> &mut B {
        &mut self.backend
    }

    /// The receiver of what becomes of the reads.
    pub const fn reads(&mut self) -> &mut R {
        &mut self.reads
    }

    /// The requests that the strategy has caused so far.
    #[must_use]
    pub const fn counts(&self) -> Counts {
        self.steering.counts()
    }

    /// Requests queued or on a drive.
    #[must_use]
    pub const fn in_flight(&self) -> usize {
        self.queues.len()
    }

    /// A read arrives. Returns a timer of its strategy with [`Timer::EXTERNAL`] as its purpose,
    /// for [`expire`](Self::expire).
    ///
    /// # Errors
    /// The back end cannot go on.
    pub fn read(&mut self, request: &Request, order: Order) -> Result<Timer, B::Error> {
        self.now = self.backend.now();
        let timer = self.steering.read(self.now, request, order, &mut self.actions);
        self.act()?;
        Ok(timer)
    }

    /// A timer expires that the caller keeps. Without effect if its read is complete.
    ///
    /// # Errors
    /// The back end cannot go on.
    pub fn expire(&mut self, timer: Timer) -> Result<(), B::Error> {
        self.now = self.backend.now();
        self.steering.timer(self.now, timer, &mut self.actions);
        self.act()
    }

    /// Handles the next event before `until`, or waits until then.
    ///
    /// # Errors
    /// The back end cannot go on.
    pub fn step(&mut self, until: Nanos) -> Result<Step, B::Error> {
        let steering = &self.steering;
        self.timers.skip(|timer| steering.is_over(timer));
        let timer = self.timers.next().unwrap_or(NEVER);
        let wake = self.backend.wait(timer.min(until))?;
        let steering = &mut self.steering;
        self.backend.host_events(|drive, event| steering.observe(drive, &event));
        self.take_dispatches();
        match wake {
            Wake::Drive(drive) => {
                self.now = self.backend.now();
                self.settle(drive)?;
            }
            Wake::Due => {
                self.now = self.backend.now();
                if timer > until {
                    return Ok(Step::Until);
                }
                self.timer_due()?;
                self.act()?;
            }
            Wake::Idle => {}
        }
        Ok(Step::Event)
    }

    fn timer_due(&mut self) -> Result<(), B::Error> {
        match self.timers.take() {
            Some(Due::Timer(timer)) => self.steering.timer(self.now, timer, &mut self.actions),
            Some(Due::Send(attempt, reason)) => self.send(attempt, reason)?,
            None => {}
        }
        Ok(())
    }

    /// Carries out the strategy's actions, and those that they cause.
    fn act(&mut self) -> Result<(), B::Error> {
        let mut done = 0;
        while let Some(&action) = self.actions.get(done) {
            done += 1;
            match action {
                Action::Send { attempt, at, reason } => {
                    let at = at + self.on_the_way(attempt, reason);
                    if at <= self.now {
                        self.send(attempt, reason)?;
                    } else {
                        self.timers.add_send(at, attempt, reason);
                    }
                }
                Action::Timer { at, timer } => self.timers.add_timer(at, timer),
                Action::Cancel(attempt) => self.cancel(attempt),
                Action::Complete { read, outcome } => {
                    self.reads.completed(self.now, read, outcome);
                }
                Action::Refused { read, replica } => self.refused(read, replica)?,
            }
        }
        self.actions.clear();
        Ok(())
    }

    /// What an attempt takes until it is there, if it is one that is sent after waiting.
    fn on_the_way(&self, attempt: Attempt, reason: Reason) -> Nanos {
        let is_charged = matches!(reason, Reason::Fast | Reason::LeastBad);
        if self.resend == Nanos::ZERO || is_charged || self.steering.arrival(attempt) == self.now {
            return Nanos::ZERO;
        }
        self.resend
    }

    fn send(&mut self, attempt: Attempt, reason: Reason) -> Result<(), B::Error> {
        let Some(request) = self.steering.send(self.now, attempt, reason) else { return Ok(()) };
        self.submit(attempt.replica, request, Purpose::Attempt(attempt, reason))
    }

    /// Queues a request, and submits it at once if the drive has room.
    fn submit(
        &mut self,
        drive: Replica,
        request: Request,
        purpose: Purpose,
    ) -> Result<(), B::Error> {
        if self.queues.push(self.now, drive, request, purpose) && self.backend.has_room(drive) {
            self.issue(drive)?;
            self.take_dispatches();
            // Some requests complete at once, for example reads of blocks that were never
            // written.
            self.take_completions(drive);
        }
        self.take_bumped(drive)
    }

    /// Tells the strategy which requests have left their schedulers.
    #[inline]
    fn take_dispatches(&mut self) {
        let Self { backend, steering, queues, now, .. } = self;
        backend.dispatches(|slot| {
            let &InFlight { drive, purpose, .. } = queues.get(slot);
            match purpose {
                Purpose::Attempt(attempt, _) => steering.dispatched(*now, attempt),
                Purpose::Other(ticket) | Purpose::ForcedSample(ticket) => {
                    steering.other_dispatched(*now, drive, ticket);
                }
            }
        });
    }

    /// Takes back the attempts that will be late because of what was sent after them, where that is
    /// still possible.
    #[inline]
    fn take_bumped(&mut self, drive: Replica) -> Result<(), B::Error> {
        while let Some(attempt) = self.steering.next_bumped(drive) {
            let is_it =
                |purpose: &Purpose| matches!(purpose, Purpose::Attempt(a, _) if *a == attempt);
            let taken = self.queues.cancel(drive, is_it)
                || self.queues.find(drive, is_it).is_some_and(|slot| {
                    let taken = self.backend.take_back(drive, slot);
                    if taken {
                        self.queues.taken_back(slot);
                    }
                    taken
                });
            if taken {
                self.steering.bumped(self.now, attempt, &mut self.actions);
                // Its place is free for the host queue.
                self.issue(drive)?;
                self.take_dispatches();
                self.take_completions(drive);
            }
        }
        Ok(())
    }

    /// Submits queued requests as long as the drive has room.
    fn issue(&mut self, drive: Replica) -> Result<(), B::Error> {
        while let Some(purpose) = self.queues.issue(self.now, drive, &mut self.backend)? {
            if let Purpose::Attempt(attempt, _) = purpose {
                self.steering.begun(self.now, attempt, &mut self.actions);
            }
        }
        Ok(())
    }

    /// Handles a drive's completions, and what they cause there.
    fn settle(&mut self, drive: Replica) -> Result<(), B::Error> {
        while self.take_completions(drive) {
            self.issue(drive)?;
            self.act()?;
        }
        Ok(())
    }

    /// Takes all completions of a drive; returns whether there were any.
    fn take_completions(&mut self, drive: Replica) -> bool {
        let mut any = false;
        while let Some(completed) = self.backend.completion(drive) {
            any = true;
            self.completed(completed);
        }
        any
    }

    fn completed(&mut self, completed: Completed) {
        let (now, outcome) = (self.now, completed.outcome);
        let &InFlight { drive, sent, purpose, ref request, .. } =
            self.queues.complete(now, completed);
        let ended = |ticket| Ended {
            request: request.id,
            replica: drive,
            ticket,
            op: request.op,
            sent,
            outcome: Some(outcome),
        };
        let of_read =
            |reason| RequestEnd { read: request.id, replica: drive, reason, sent, outcome };
        match purpose {
            Purpose::Attempt(attempt, reason) => {
                self.reads.request_ended(now, &of_read(Some(reason)));
                self.steering.completed(now, attempt, outcome, &mut self.actions);
            }
            Purpose::Other(ticket) => self.steering.other_completed(now, &ended(ticket)),
            Purpose::ForcedSample(ticket) => {
                self.reads.request_ended(now, &of_read(None));
                self.steering.other_completed(now, &ended(ticket));
            }
        }
    }

    fn cancel(&mut self, attempt: Attempt) {
        let is_it = |purpose: &Purpose| matches!(purpose, Purpose::Attempt(a, _) if *a == attempt);
        if self.timers.cancel(attempt) || self.queues.cancel(attempt.replica, is_it) {
            self.steering.cancelled(self.now, attempt, &mut self.actions);
        }
    }

    /// Samples some of the refused reads.
    fn refused(&mut self, read: RequestId, drive: Replica) -> Result<(), B::Error> {
        let request = self.reads.request(read);
        self.backend.refused(drive, &request)?;
        if !self.backend.sample_refusal(drive, &request, self.queues.queued(drive)) {
            return Ok(());
        }
        let ticket = self.steering.other_sent(self.now, drive, &request);
        self.submit(drive, request, Purpose::ForcedSample(ticket))
    }
}

impl<'a, B: Backend> Driver<B, Workload<'a>> {
    /// Handles the next event or arrival; false when all requests are complete.
    fn handle_next(&mut self) -> Result<bool, B::Error> {
        let arrival = self.reads.next_arrival().unwrap_or(NEVER);
        if arrival == NEVER && self.steering.in_flight() == 0 && self.queues.is_empty() {
            return Ok(false);
        }
        if self.step(arrival)? == Step::Until {
            self.arrive()?;
            self.act()?;
        }
        Ok(true)
    }

    fn arrive(&mut self) -> Result<(), B::Error> {
        let Some((id, io)) = self.reads.take() else { return Ok(()) };
        if let Some(coming) = self.reads.ahead(AHEAD) {
            self.backend.expect(coming.primary, coming.offset);
        }
        self.backend.handed_out(io.at);
        let request = io.request(id);
        if io.is_steered() {
            let order = io.order(id, self.backend.drives(), self.reads.options);
            self.steering.read(self.now, &request, order, &mut self.actions);
            return Ok(());
        }
        let ticket = self.steering.other_sent(self.now, io.primary, &request);
        self.submit(io.primary, request, Purpose::Other(ticket))
    }
}
