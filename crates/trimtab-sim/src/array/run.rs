//! The loop.

use trimtab_device::Served;
use trimtab_io::{DeviceId, Nanos, Op, Outcome, Request, RequestId};
use trimtab_predict::Ticket;
use trimtab_steer::array::{Agenda, ArrayFigures, ArrayIo, HomeFigures, Todo};
use trimtab_steer::{Action, Actions, Attempt, Ended, Replica, Steering, Strategy, Why};
use trimtab_trace::Record;

use super::drive::ArrayDrive;
use crate::error::Error;
use crate::source::NEVER;

/// How a run is made.
#[derive(Clone, Debug, Default)]
pub struct ArrayOptions {
    /// Decides the order in which each read fails over.
    pub seed: u64,
    /// What is slow, to judge the decisions of strategies that predict.
    pub judge: Option<Judge>,
    /// Whether all that is sent to the drives is recorded.
    pub record: bool,
}

/// How decisions are judged.
#[derive(Clone, Debug)]
pub struct Judge {
    /// From which time on a drive was slow, by drive.
    pub thresholds: Vec<Nanos>,
    /// How many refused requests are tried on a copy of the drive, at most. They
    /// are spread evenly over the run.
    pub samples: usize,
}

/// What a run leaves behind.
#[derive(Debug)]
pub struct ArrayRun {
    /// What came of it.
    pub figures: ArrayFigures,
    /// The drives as they are then, everything answered.
    pub drives: Vec<ArrayDrive>,
    /// What each drive was sent, and when it answered, in the order in which it
    /// was sent; if that was asked for.
    pub records: Vec<Vec<Record>>,
}

/// Serves requests, which come in order of time, under a strategy.
///
/// # Errors
/// A drive does not take a request, or stands still.
///
/// # Panics
/// There are no drives, or more than [`trimtab_steer::MOST_REPLICAS`].
pub fn run(
    drives: Vec<ArrayDrive>,
    strategy: Box<dyn Strategy>,
    requests: &[ArrayIo],
    options: &ArrayOptions,
) -> Result<ArrayRun, Error> {
    let mut run = Run::new(drives, strategy, requests, options);
    while run.step()? {}
    let mut figures = run.figures;
    figures.counts = run.steering.counts();
    figures.judged.refused = figures.counts.refused;
    if let Some(sampler) = &run.sampler {
        figures.judged.sampled = sampler.fast.len() as u64;
        figures.judged.false_revokes = sampler.fast.iter().filter(|&&fast| fast).count() as u64;
    }
    Ok(ArrayRun { figures, drives: run.drives, records: run.records })
}

/// What a drive was sent.
#[derive(Clone, Copy, Debug)]
struct Sent {
    at: Nanos,
    kind: Kind,
    /// Its row among the drive's records.
    row: u32,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Attempt(Attempt, Why),
    Other(Ticket, Op),
}

struct Run<'a> {
    requests: &'a [ArrayIo],
    /// The next of them.
    next: usize,
    options: &'a ArrayOptions,
    steering: Steering,
    drives: Vec<ArrayDrive>,
    agenda: Agenda,
    actions: Actions,
    /// What the drives have, by the number in its name.
    sent: Vec<Sent>,
    free: Vec<u32>,
    served: Vec<Served>,
    now: Nanos,
    figures: ArrayFigures,
    sampler: Option<Sampler>,
    records: Vec<Vec<Record>>,
}

/// Requests that come soon, of which a drive is told.
const AHEAD: usize = 4;

impl<'a> Run<'a> {
    fn new(
        drives: Vec<ArrayDrive>,
        strategy: Box<dyn Strategy>,
        requests: &'a [ArrayIo],
        options: &'a ArrayOptions,
    ) -> Self {
        let homes = vec![HomeFigures::default(); drives.len()];
        Self {
            requests,
            next: 0,
            options,
            steering: Steering::new(strategy),
            agenda: Agenda::default(),
            actions: Actions::new(),
            sent: Vec::new(),
            free: Vec::new(),
            served: Vec::new(),
            now: drives.iter().map(|drive| drive.ssd.now()).max().unwrap_or_default(),
            figures: ArrayFigures { homes, ..ArrayFigures::default() },
            sampler: options
                .judge
                .as_ref()
                .map(|judge| Sampler::new(judge.samples, requests.len())),
            records: vec![Vec::new(); if options.record { drives.len() } else { 0 }],
            drives,
        }
    }

    /// Goes to the next moment at which something happens; false when all is
    /// done.
    fn step(&mut self) -> Result<bool, Error> {
        let arrival = self.requests.get(self.next).map_or(NEVER, |request| request.at);
        let agenda = self.agenda.next().unwrap_or(NEVER);
        let mine = agenda.min(arrival);
        // The drive that comes first, and when anything else comes.
        let (mut first, mut at, mut other) = (0, NEVER, mine);
        for (number, drive) in self.drives.iter().enumerate() {
            if drive.next() < at {
                (first, other) = (number, other.min(at));
                at = drive.next();
            } else {
                other = other.min(drive.next());
            }
        }
        if at <= mine && at != NEVER {
            if arrival == NEVER && self.is_over() {
                return Ok(false);
            }
            self.drives[first].advance(other);
            self.settle(first)?;
        } else if mine == NEVER {
            return if self.is_over() { Ok(false) } else { Err(self.stuck()) };
        } else if agenda <= arrival {
            self.now = mine;
            if arrival == NEVER && self.is_over() {
                return Ok(false);
            }
            self.on_agenda()?;
        } else {
            self.now = mine;
            self.arrive()?;
        }
        Ok(true)
    }

    /// Whether nobody waits for anything any more.
    fn is_over(&self) -> bool {
        self.steering.in_flight() == 0 && self.drives.iter().all(ArrayDrive::is_idle)
    }

    fn stuck(&self) -> Error {
        let stuck = self.drives.iter().position(|drive| !drive.is_idle()).unwrap_or_default();
        Error::Stuck {
            device: format!("{stuck}"),
            at: self.now,
            in_flight: self.drives.iter().map(|drive| drive.ssd.in_flight()).sum(),
        }
    }

    fn arrive(&mut self) -> Result<(), Error> {
        let io = self.requests[self.next];
        if let Some(coming) = self.requests.get(self.next + AHEAD) {
            self.drives[coming.home.index()].ssd.prefetch(coming.offset);
        }
        let id = RequestId(self.next as u64);
        self.next += 1;
        let request = io.request(id);
        if io.op == Op::Read {
            let order = io.order(id, self.drives.len(), self.options.seed);
            self.steering.read(self.now, &request, order, &mut self.actions);
        } else {
            let ticket = self.steering.other_sent(self.now, io.home, &request);
            self.submit(io.home, request, Kind::Other(ticket, io.op))?;
        }
        self.act()
    }

    fn on_agenda(&mut self) -> Result<(), Error> {
        match self.agenda.take() {
            Some(Todo::Timer(timer)) => self.steering.timer(self.now, timer, &mut self.actions),
            Some(Todo::Send(attempt, why)) => self.send(attempt, why)?,
            None => {}
        }
        self.act()
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
                Action::Refused { read, replica } => self.refused(read, replica),
            }
        }
        self.actions.clear();
        Ok(())
    }

    fn send(&mut self, attempt: Attempt, why: Why) -> Result<(), Error> {
        let Some(request) = self.steering.send(self.now, attempt, why) else { return Ok(()) };
        self.submit(attempt.replica, request, Kind::Attempt(attempt, why))
    }

    /// Puts a request into a drive's queue.
    fn submit(&mut self, replica: Replica, request: Request, kind: Kind) -> Result<(), Error> {
        let mut sent = Sent { at: self.now, kind, row: 0 };
        if let Some(records) = self.records.get_mut(replica.index()) {
            sent.row = records.len() as u32;
            let Request { op, offset, length, .. } = request;
            let device = DeviceId(replica.0.into());
            records.push(Record::arriving(self.now, device, op, offset, length));
        }
        let slot = match self.free.pop() {
            Some(slot) => {
                self.sent[slot as usize] = sent;
                slot
            }
            None => {
                self.sent.push(sent);
                (self.sent.len() - 1) as u32
            }
        };
        let drive = &mut self.drives[replica.index()];
        if drive.push(Request { id: RequestId(slot.into()), ..request }) {
            self.begin(replica.index())?;
            // Some things are answered at once: what was never written, say.
            self.take_answers(replica.index());
        }
        Ok(())
    }

    /// Lets a drive take what waits, as far as it has room.
    fn begin(&mut self, number: usize) -> Result<(), Error> {
        let begun = |drive: &mut ArrayDrive, now| {
            drive.begin(now).map_err(|source| Error::Device { device: number.to_string(), source })
        };
        while let Some(id) = begun(&mut self.drives[number], self.now)? {
            let sent = self.sent[id.0 as usize];
            if let Some(records) = self.records.get_mut(number) {
                records[sent.row as usize].issue = Some(self.now);
            }
            if let Kind::Attempt(attempt, _) = sent.kind {
                self.steering.begun(self.now, attempt, &mut self.actions);
            }
        }
        Ok(())
    }

    /// A drive may have answered something.
    fn settle(&mut self, number: usize) -> Result<(), Error> {
        self.now = self.now.max(self.drives[number].ssd.now());
        loop {
            if !self.take_answers(number) {
                return Ok(());
            }
            self.begin(number)?;
            self.act()?;
        }
    }

    /// Hands over what a drive has answered; whether there was anything.
    fn take_answers(&mut self, number: usize) -> bool {
        let mut served = std::mem::take(&mut self.served);
        self.drives[number].served(&mut served);
        let any = !served.is_empty();
        for answer in served.drain(..) {
            self.take_answer(number, &answer);
        }
        self.served = served;
        any
    }

    fn take_answer(&mut self, number: usize, served: &Served) {
        let (slot, outcome) = (served.completion.request.0 as u32, served.completion.outcome);
        let Sent { at, kind, row } = self.sent[slot as usize];
        self.free.push(slot);
        let (now, replica) = (self.now, Replica(number as u8));
        let took = now.since(at);
        if let Some(records) = self.records.get_mut(number) {
            records[row as usize].complete = Some(now);
        }
        match kind {
            Kind::Attempt(attempt, why) => {
                self.figures.homes[number].served.record(took);
                if let (Why::Fast, Some(judge)) = (why, &self.options.judge) {
                    self.figures.judged.submitted += 1;
                    let slow = took > judge.thresholds[number];
                    self.figures.judged.false_submits += u64::from(slow);
                }
                self.steering.completed(now, attempt, outcome, &mut self.actions);
            }
            Kind::Other(ticket, op) => {
                let data = outcome == Outcome::Done;
                let ended = Ended { replica, ticket, op, sent: at, data };
                self.steering.other_completed(now, &ended);
            }
        }
    }

    fn cancel(&mut self, attempt: Attempt) {
        if !self.agenda.cancel(attempt) {
            let sent = &self.sent;
            let ours = |id: RequestId| match sent[id.0 as usize].kind {
                Kind::Attempt(other, _) => other == attempt,
                Kind::Other(..) => false,
            };
            let taken = self.drives[attempt.replica.index()].take_back(ours);
            let Some(id) = taken else { return };
            self.free.push(id.0 as u32);
        }
        self.steering.cancelled(self.now, attempt, &mut self.actions);
    }

    /// Tries some of what is refused on a copy of the drive.
    fn refused(&mut self, read: RequestId, replica: Replica) {
        let (Some(sampler), Some(judge)) = (&mut self.sampler, &self.options.judge) else { return };
        if !sampler.is_due() {
            return;
        }
        let request = self.requests[read.0 as usize].request(read);
        let took = self.drives[replica.index()].would_take(self.now, request);
        let fast = took.is_some_and(|took| took <= judge.thresholds[replica.index()]);
        sampler.add(fast);
    }
}

/// Some of many, spread evenly, without knowing how many there will be: each
/// `stride`th, and when they become too many, every second is dropped and the
/// stride doubles.
#[derive(Debug)]
struct Sampler {
    most: usize,
    stride: u64,
    seen: u64,
    fast: Vec<bool>,
}

impl Sampler {
    /// At most so many, of at most so many.
    fn new(most: usize, of: usize) -> Self {
        // A copy of a drive takes milliseconds, so as few as possible are made
        // and dropped. Hardly anybody refuses more than one in thirty of all.
        let stride = (of / 32 / most.max(1)).max(1) as u64;
        Self { most, stride, seen: 0, fast: Vec::new() }
    }

    const fn is_due(&mut self) -> bool {
        self.seen += 1;
        self.most > 0 && self.seen.is_multiple_of(self.stride)
    }

    fn add(&mut self, fast: bool) {
        self.fast.push(fast);
        if self.fast.len() >= self.most {
            let mut number = 0;
            self.fast.retain(|_| {
                number += 1;
                number % 2 == 0
            });
            self.stride *= 2;
        }
    }
}
