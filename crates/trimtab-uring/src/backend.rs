//! The loop.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use trimtab_io::{DeviceId, LatencyHistogram, Nanos, Op, Outcome, Request, RequestId};
use trimtab_predict::Ticket;
use trimtab_steer::array::{Agenda, ArrayFigures, ArrayIo, HomeFigures, Todo};
use trimtab_steer::{Action, Actions, Attempt, Ended, Replica, Steering, Strategy, Why};
use trimtab_trace::Record;

use super::ring::{Done, Ring};
use super::{Disk, Error, LiveOptions, LiveRun};

/// The caller is told how far a run is so often.
const TELL_EVERY: Nanos = Nanos::from_millis(200);

/// Serves requests, which come in order of time, under a strategy. `progress` is
/// told the time since the run began several times a second, and may end it.
///
/// # Errors
/// The kernel has no io_uring or no memory for this, or `progress` ended it. A
/// request that a disk does not serve is no error but counted
/// ([`ArrayFigures::errors`], if no other disk has the data).
pub fn run(
    disks: &[Disk],
    strategy: Box<dyn Strategy>,
    requests: &[ArrayIo],
    options: &LiveOptions,
    progress: &mut dyn FnMut(Nanos) -> ControlFlow<()>,
) -> Result<LiveRun, Error> {
    let mut run = Run::new(disks, strategy, requests, options)?;
    run.ring.begin();
    let mut told = Nanos::ZERO;
    while run.step()? {
        if run.now.since(told) >= TELL_EVERY {
            told = run.now;
            if progress(told).is_break() {
                return Err(Error::Ended);
            }
        }
    }
    let mut figures = run.figures;
    figures.counts = run.steering.counts();
    figures.judged.refused = figures.counts.refused;
    Ok(LiveRun { figures, lateness: run.lateness, records: run.records, took: run.now })
}

/// What a disk was given, or will be when it has room.
#[derive(Clone, Copy, Debug)]
struct Sent {
    disk: Replica,
    /// When it was decided.
    at: Nanos,
    kind: Kind,
    request: Request,
    /// Its row among the disk's records.
    row: u32,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Attempt(Attempt, Why),
    /// A write or the like, or a read that nobody waits for.
    Other(Ticket),
    /// The same, to see whether it is fast though it was refused.
    Trial(Ticket),
}

/// A disk's own queue.
#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<u32>,
    /// Given to the disk.
    out: u32,
    depth: u32,
}

struct Run<'a> {
    requests: &'a [ArrayIo],
    /// The next of them.
    next: usize,
    options: &'a LiveOptions,
    steering: Steering,
    ring: Ring,
    queues: Vec<Queue>,
    agenda: Agenda,
    actions: Actions,
    /// All that is on its way, by number.
    sent: Vec<Sent>,
    free: Vec<u32>,
    /// The time that strategies see. It stands still while one thing is dealt with.
    now: Nanos,
    figures: ArrayFigures,
    /// Times that a drive was refused.
    refusals: u64,
    lateness: LatencyHistogram,
    records: Vec<Vec<Record>>,
}

impl<'a> Run<'a> {
    fn new(
        disks: &[Disk],
        strategy: Box<dyn Strategy>,
        requests: &'a [ArrayIo],
        options: &'a LiveOptions,
    ) -> Result<Self, Error> {
        let largest = requests.iter().map(|io| io.length).max().unwrap_or_default();
        let queue = |disk: &Disk| Queue { depth: disk.depth.max(1), ..Queue::default() };
        let homes = vec![HomeFigures::default(); disks.len()];
        Ok(Self {
            requests,
            next: 0,
            options,
            steering: Steering::new(strategy),
            ring: Ring::new(disks, largest)?,
            queues: disks.iter().map(queue).collect(),
            agenda: Agenda::default(),
            actions: Actions::new(),
            sent: Vec::new(),
            free: Vec::new(),
            now: Nanos::ZERO,
            figures: ArrayFigures { homes, ..ArrayFigures::default() },
            refusals: 0,
            lateness: LatencyHistogram::new(),
            records: vec![Vec::new(); if options.record { disks.len() } else { 0 }],
        })
    }

    /// Deals with what has happened and what is due, and waits for more; false when
    /// all is done.
    fn step(&mut self) -> Result<bool, Error> {
        // Answers first: who decides should know of them.
        while let Some(done) = self.ring.take() {
            self.now = self.ring.now();
            self.answered(done)?;
            self.act()?;
        }
        self.now = self.ring.now();
        if self.agenda.next().is_some_and(|at| at <= self.now) {
            self.on_agenda()?;
            self.act()?;
            return Ok(true);
        }
        let arrival = self.requests.get(self.next).map(|io| io.at);
        if arrival.is_some_and(|at| at <= self.now) {
            self.arrive()?;
            self.act()?;
            return Ok(true);
        }
        if arrival.is_none() && self.steering.in_flight() == 0 && self.ring.out() == 0 {
            return Ok(false);
        }
        let next = [arrival, self.agenda.next()].into_iter().flatten().min();
        let until = next.unwrap_or(Nanos::MAX).min(self.now + TELL_EVERY);
        self.ring.wait(until)?;
        Ok(true)
    }

    fn arrive(&mut self) -> Result<(), Error> {
        let io = self.requests[self.next];
        let id = RequestId(self.next as u64);
        self.next += 1;
        self.lateness.record(self.now.since(io.at));
        let request = io.request(id);
        if io.op == Op::Read {
            let order = io.order(id, self.queues.len(), self.options.seed);
            self.steering.read(self.now, &request, order, &mut self.actions);
            return Ok(());
        }
        let ticket = self.steering.other_sent(self.now, io.home, &request);
        self.submit(io.home, request, Kind::Other(ticket))
    }

    fn on_agenda(&mut self) -> Result<(), Error> {
        match self.agenda.take() {
            Some(Todo::Timer(timer)) => self.steering.timer(self.now, timer, &mut self.actions),
            Some(Todo::Send(attempt, why)) => self.send(attempt, why)?,
            None => {}
        }
        Ok(())
    }

    /// Carries out what the strategy wants, and what it wants because of that.
    fn act(&mut self) -> Result<(), Error> {
        let mut done = 0;
        while let Some(&action) = self.actions.get(done) {
            done += 1;
            match action {
                Action::Send { attempt, at, why } if at <= self.now => self.send(attempt, why)?,
                Action::Send { attempt, at, why } => self.agenda.add_send(at, attempt, why),
                Action::Timer { at, timer } => self.agenda.add_timer(at, timer),
                Action::Cancel(attempt) => self.cancel(attempt),
                Action::Answer { read, outcome } => {
                    self.figures.answered(self.now, &self.requests[read.0 as usize], outcome);
                }
                Action::Refused { read, replica } => self.refused(read, replica)?,
            }
        }
        self.actions.clear();
        Ok(())
    }

    fn send(&mut self, attempt: Attempt, why: Why) -> Result<(), Error> {
        let Some(request) = self.steering.send(self.now, attempt, why) else { return Ok(()) };
        self.submit(attempt.replica, request, Kind::Attempt(attempt, why))
    }

    /// Puts a request into a disk's queue.
    fn submit(&mut self, disk: Replica, request: Request, kind: Kind) -> Result<(), Error> {
        let mut sent = Sent { disk, at: self.now, kind, request, row: 0 };
        if let Some(records) = self.records.get_mut(disk.index()) {
            sent.row = records.len() as u32;
            let Request { op, offset, length, .. } = request;
            records.push(Record::arriving(self.now, DeviceId(disk.0.into()), op, offset, length));
        }
        let number = match self.free.pop() {
            Some(number) => {
                self.sent[number as usize] = sent;
                number
            }
            None => {
                self.sent.push(sent);
                (self.sent.len() - 1) as u32
            }
        };
        self.queues[disk.index()].waiting.push_back(number);
        self.begin(disk)
    }

    /// Gives a disk what waits, as far as it has room.
    fn begin(&mut self, disk: Replica) -> Result<(), Error> {
        loop {
            let queue = &mut self.queues[disk.index()];
            if queue.out >= queue.depth {
                return Ok(());
            }
            let Some(number) = queue.waiting.pop_front() else { return Ok(()) };
            queue.out += 1;
            let Sent { request, kind, row, .. } = self.sent[number as usize];
            self.ring.submit(disk.index(), number, &request)?;
            if let Some(records) = self.records.get_mut(disk.index()) {
                records[row as usize].issue = Some(self.now);
            }
            if let Kind::Attempt(attempt, _) = kind {
                self.steering.begun(self.now, attempt, &mut self.actions);
            }
        }
    }

    fn answered(&mut self, done: Done) -> Result<(), Error> {
        let Sent { disk, at, kind, request, row } = self.sent[done.number as usize];
        self.free.push(done.number);
        self.queues[disk.index()].out -= 1;
        let took = self.now.since(at);
        if let Some(records) = self.records.get_mut(disk.index())
            && done.whole
        {
            records[row as usize].complete = Some(self.now);
        }
        let ended =
            |ticket| Ended { replica: disk, ticket, op: request.op, sent: at, data: done.whole };
        let threshold = self.options.thresholds.as_ref().map(|all| all[disk.index()]);
        let judged = &mut self.figures.judged;
        match kind {
            Kind::Attempt(attempt, why) => {
                self.figures.homes[disk.index()].served.record(took);
                if let (Why::Fast, Some(threshold), true) = (why, threshold, done.whole) {
                    judged.submitted += 1;
                    judged.false_submits += u64::from(took > threshold);
                }
                let outcome = if done.whole { Outcome::Done } else { Outcome::Error };
                self.steering.completed(self.now, attempt, outcome, &mut self.actions);
            }
            Kind::Other(ticket) => self.steering.other_completed(self.now, &ended(ticket)),
            Kind::Trial(ticket) => {
                // One that failed says nothing of how long its data would have taken.
                judged.sampled += u64::from(done.whole);
                let was_fast = done.whole && threshold.is_some_and(|most| took <= most);
                judged.false_revokes += u64::from(was_fast);
                self.steering.other_completed(self.now, &ended(ticket));
            }
        }
        self.begin(disk)
    }

    fn cancel(&mut self, attempt: Attempt) {
        if !self.agenda.cancel(attempt) {
            let sent = &self.sent;
            let ours = |number: &u32| match sent[*number as usize].kind {
                Kind::Attempt(other, _) => other == attempt,
                Kind::Other(_) | Kind::Trial(_) => false,
            };
            let waiting = &mut self.queues[attempt.replica.index()].waiting;
            // What a disk has cannot be taken back.
            let Some(place) = waiting.iter().position(ours) else { return };
            self.free.extend(waiting.remove(place));
        }
        self.steering.cancelled(self.now, attempt, &mut self.actions);
    }

    /// Sends some of what is refused all the same.
    fn refused(&mut self, read: RequestId, disk: Replica) -> Result<(), Error> {
        self.refusals += 1;
        let every = u64::from(self.options.trial_every);
        if every == 0 || !self.refusals.is_multiple_of(every) {
            return Ok(());
        }
        let request = self.requests[read.0 as usize].request(read);
        let ticket = self.steering.other_sent(self.now, disk, &request);
        self.submit(disk, request, Kind::Trial(ticket))
    }
}
