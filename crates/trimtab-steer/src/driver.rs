//! One driver of strategies, over any [`Backend`]: drives in virtual time, or real ones on
//! the wall clock.
//!
//! Every block is on all drives. Each drive has a workload: its writes go to the drive, and
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
//! half of the driver (host queues, in-flight table, [`Backend`]) deals in requests to
//! drives and is generic over what the driver remembers of each, so a parity driver reuses
//! it with a planner in the place of [`Steering`]. A computation is work that becomes due:
//! an entry of the timer queue in virtual time, done inline on the wall clock.
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
//! let read = ArrayIo {
//!     at: Nanos::ZERO,
//!     op: Op::Read,
//!     offset: 0,
//!     length: 4096,
//!     primary: Replica(0),
//! };
//! let patience = strategies::Patience::new(&[Nanos::from_micros(200); 2]);
//! let hedge = Box::new(strategies::Hedge::new("hedge", patience));
//! let run = run(&mut Drives::default(), hedge, &[read], &RunOptions::default()).unwrap();
//! // Hedged after 200 µs, complete 100 µs later.
//! assert_eq!(run.figures.reads.max(), Some(Nanos::from_micros(300)));
//! ```

mod backend;
mod figures;
mod host_queues;
mod timer_queue;
mod workload;

pub use backend::{Backend, Completed, Wake};
pub use figures::{ArrayFigures, DecisionScore, ReplicaFigures};
pub use host_queues::LogEntry;
pub use workload::ArrayIo;

use trimtab_io::{Nanos, Op, Outcome, Request, RequestId};
use trimtab_predict::Ticket;

use crate::action::{Action, Actions, Attempt, Reason};
use crate::replica::Replica;
use crate::steering::Steering;
use crate::strategy::{Ended, Strategy};
use host_queues::{HostQueues, InFlight};
use timer_queue::{Due, TimerQueue};

/// How a workload is run.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// Decides the order in which each read fails over.
    pub seed: u64,
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
/// There are no drives, or more than [`MOST_REPLICAS`](crate::MOST_REPLICAS).
pub fn run<B: Backend>(
    backend: &mut B,
    strategy: Box<dyn Strategy>,
    requests: &[ArrayIo],
    options: &RunOptions,
) -> Result<DriverRun, B::Error> {
    let mut driver = Driver::new(backend, strategy, requests, options);
    while driver.step()? {}
    let mut figures = driver.figures;
    figures.counts = driver.steering.counts();
    figures.score.refused = figures.counts.refused;
    Ok(DriverRun { figures, log: driver.queues.into_log() })
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

struct Driver<'a, B> {
    backend: &'a mut B,
    requests: &'a [ArrayIo],
    /// The next of them to arrive.
    next: usize,
    options: &'a RunOptions,
    steering: Steering,
    queues: HostQueues<Purpose>,
    timers: TimerQueue,
    actions: Actions,
    /// The back end's time at the event that is being handled.
    now: Nanos,
    figures: ArrayFigures,
}

impl<'a, B: Backend> Driver<'a, B> {
    fn new(
        backend: &'a mut B,
        strategy: Box<dyn Strategy>,
        requests: &'a [ArrayIo],
        options: &'a RunOptions,
    ) -> Self {
        let drives = backend.drives();
        Self {
            requests,
            next: 0,
            options,
            steering: Steering::new(strategy),
            queues: HostQueues::new(drives, options.log),
            timers: TimerQueue::default(),
            actions: Actions::new(),
            now: backend.now(),
            figures: ArrayFigures {
                each_read: if options.each_read {
                    vec![Nanos::ZERO; requests.len()]
                } else {
                    Vec::new()
                },
                ..ArrayFigures::new(drives)
            },
            backend,
        }
    }

    /// Handles the next event; false when all requests are complete.
    fn step(&mut self) -> Result<bool, B::Error> {
        let arrival = self.requests.get(self.next).map_or(NEVER, |request| request.at);
        if arrival == NEVER && self.steering.in_flight() == 0 && self.queues.is_idle() {
            return Ok(false);
        }
        let timer = self.timers.next().unwrap_or(NEVER);
        match self.backend.wait(timer.min(arrival))? {
            Wake::Drive(drive) => {
                self.now = self.backend.now();
                self.settle(drive)?;
            }
            Wake::Due => {
                self.now = self.backend.now();
                if timer <= arrival {
                    self.timer_due()?;
                } else {
                    self.arrive()?;
                }
                self.act()?;
            }
            Wake::Idle => {}
        }
        Ok(true)
    }

    fn arrive(&mut self) -> Result<(), B::Error> {
        let io = self.requests[self.next];
        if let Some(coming) = self.requests.get(self.next + AHEAD) {
            self.backend.expect(coming.primary, coming.offset);
        }
        let id = RequestId(self.next as u64);
        self.next += 1;
        self.backend.handed_out(io.at);
        let request = io.request(id);
        if io.op == Op::Read {
            let order = io.order(id, self.backend.drives(), self.options.seed);
            self.steering.read(self.now, &request, order, &mut self.actions);
            return Ok(());
        }
        let ticket = self.steering.other_sent(self.now, io.primary, &request);
        self.submit(io.primary, request, Purpose::Other(ticket))
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
                Action::Send { attempt, at, reason } if at <= self.now => {
                    self.send(attempt, reason)?;
                }
                Action::Send { attempt, at, reason } => self.timers.add_send(at, attempt, reason),
                Action::Timer { at, timer } => self.timers.add_timer(at, timer),
                Action::Cancel(attempt) => self.cancel(attempt),
                Action::Complete { read, outcome } => {
                    let io = &self.requests[read.0 as usize];
                    self.figures.read_completed(self.now, read.0, io, outcome);
                }
                Action::Refused { read, replica } => self.refused(read, replica)?,
            }
        }
        self.actions.clear();
        Ok(())
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
            // Some requests complete at once, for example reads of blocks that were never
            // written.
            self.take_completions(drive);
        }
        Ok(())
    }

    /// Submits queued requests as long as the drive has room.
    fn issue(&mut self, drive: Replica) -> Result<(), B::Error> {
        while let Some(purpose) = self.queues.issue(self.now, drive, self.backend)? {
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
        let (took, data) = (now.since(sent), outcome == Outcome::Done);
        let threshold = self.options.thresholds.as_ref().map(|all| all[drive.index()]);
        let score = &mut self.figures.score;
        let ended = |ticket| Ended {
            request: request.id,
            replica: drive,
            ticket,
            op: request.op,
            sent,
            data,
        };
        match purpose {
            Purpose::Attempt(attempt, reason) => {
                self.figures.replicas[drive.index()].served.record(took);
                // The latency of a failed request does not score the prediction.
                if let (Reason::Fast, Some(threshold)) = (reason, threshold)
                    && outcome != Outcome::Error
                {
                    score.submitted += 1;
                    score.false_submits += u64::from(took > threshold);
                }
                self.steering.completed(now, attempt, outcome, &mut self.actions);
            }
            Purpose::Other(ticket) => self.steering.other_completed(now, &ended(ticket)),
            Purpose::ForcedSample(ticket) => {
                score.sampled += u64::from(data);
                let fast = data && threshold.is_some_and(|most| took <= most);
                score.false_revokes += u64::from(fast);
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
        let request = self.requests[read.0 as usize].request(read);
        if !self.backend.sample_refusal(drive, &request, self.queues.queued(drive)) {
            return Ok(());
        }
        let ticket = self.steering.other_sent(self.now, drive, &request);
        self.submit(drive, request, Purpose::ForcedSample(ticket))
    }
}
