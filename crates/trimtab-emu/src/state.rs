//! What a drive's threads share, under one lock: the model, and who waits for it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rand::SeedableRng as _;
use rand_pcg::Pcg64;
use trimtab_device::{Ideal, Profile, Ssd};
use trimtab_io::{DeviceId, Nanos, Op, Request, RequestId};

use super::compensation::{Compensation, Sample as PathSample};
use super::engine::{Arrived, Ready};
use super::error::Error;
use super::faults::{Fault, Faults};
use super::figures::{Answered, Figures, Sample, Seen};
use super::spec::Spec;

/// Where many wait, the earliest that one of them can be answered is not looked
/// for: it would be now.
const FEW: usize = 8;

/// A request in the model.
struct Pending<T> {
    ticket: T,
    op: Op,
    offset: u64,
    length: u64,
    arrival: Nanos,
    /// It cannot be answered before.
    earliest: Nanos,
    /// Requests in flight when it came, with itself.
    depth: usize,
}

/// A request that the model has answered.
struct Served<T> {
    pending: Pending<T>,
    /// By the model, without faults.
    latency: Nanos,
    answer_at: Nanos,
    /// How long the model and the faults say it takes: more than until `answer_at`, by as
    /// much as the answer is early.
    due: Nanos,
}

/// What comes next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Next {
    /// When, if anything is to come.
    pub(super) at: Option<Nanos>,
    /// Requests in flight.
    pub(super) waiting: usize,
}

/// The model, and who waits for it. Times are the wall clock's but where the name
/// says `model`.
pub(super) struct State<T> {
    ssd: Ssd,
    profile: Profile,
    /// The wall clock when the model's was 0; less than that if the model is older
    /// than the machine.
    origin: i128,
    /// How long an answer is on its way to whoever waits, and the request was on its
    /// way here: answers are given so much earlier than the model says.
    lead: Nanos,
    compensation: Compensation,
    pending: Vec<Option<Pending<T>>>,
    free: Vec<usize>,
    served: Vec<Option<Served<T>>>,
    /// When each of `served` is answered.
    held: BinaryHeap<Reverse<(Nanos, usize)>>,
    pub(super) faults: Faults,
    pub(super) figures: Figures,
    snapshot: Option<Snapshot>,
}

/// The model as it was.
struct Snapshot {
    ssd: Ssd,
    profile: Profile,
}

impl<T> State<T> {
    pub(super) fn new(spec: &Spec, ssd: Ssd, now: Nanos) -> Self {
        let origin = i128::from(now.0) - i128::from(ssd.now().0);
        // Not the model's own numbers: what fails should not change what is slow.
        let faults = Faults::new(Pcg64::seed_from_u64(!spec.seed));
        let compensation =
            spec.lead.map_or_else(|| Compensation::new(Nanos::ZERO), Compensation::fixed);
        Self {
            ssd,
            profile: spec.profile.clone(),
            origin,
            lead: compensation.lead(1),
            compensation,
            pending: Vec::new(),
            free: Vec::new(),
            served: Vec::new(),
            held: BinaryHeap::new(),
            faults,
            figures: Figures::new(now),
            snapshot: None,
        }
    }

    fn model_time(&self, wall: Nanos) -> Nanos {
        Nanos((i128::from(wall.0) - self.origin).max(0) as u64)
    }

    fn wall_time(&self, model: Nanos) -> Nanos {
        Nanos((i128::from(model.0) + self.origin).max(0) as u64)
    }

    /// Requests that have no answer yet.
    pub(super) fn in_flight(&self) -> usize {
        self.ssd.in_flight() + self.held.len()
    }

    pub(super) const fn ssd(&self) -> &Ssd {
        &self.ssd
    }

    pub(super) const fn profile(&self) -> &Profile {
        &self.profile
    }

    pub(super) const fn has_snapshot(&self) -> bool {
        self.snapshot.is_some()
    }

    /// How much earlier than the model says answers are given now.
    pub(super) const fn lead(&self) -> Nanos {
        self.lead
    }

    /// Has answers given earlier by as much as the path takes, if that is not fixed: so
    /// much, as a measurement says, until reads have been seen.
    pub(super) fn begin_compensation(&mut self, lead: Nanos) {
        self.compensation.begin(lead);
        self.lead = self.compensation.lead(1);
    }

    /// Has answers given so much earlier from now on, or, with none, by what the path takes.
    pub(super) fn fix_lead(&mut self, lead: Option<Nanos>) {
        self.compensation = lead.map_or_else(|| Compensation::new(self.lead), Compensation::fixed);
        self.lead = self.compensation.lead(1);
    }

    /// Whether the time by which answers are early is set, and not corrected.
    pub(super) const fn lead_is_fixed(&self) -> bool {
        self.compensation.is_fixed()
    }

    /// Takes in reads of a moment that were seen from both ends.
    pub(super) fn see(&mut self, seen: &[Seen]) {
        self.figures.see(seen);
        self.compensation.learn(seen.iter().map(|seen| PathSample {
            depth: seen.answer.depth,
            beyond: seen.beyond(),
            lead: seen.answer.lead,
        }));
    }

    /// Takes a request, which must lie within the drive.
    pub(super) fn submit(&mut self, arrived: Arrived<T>) {
        let Arrived { arrival, op, offset, length, ticket } = arrived;
        // Another thread may have let time pass beyond the arrival.
        let at = self.model_time(arrival).max(self.ssd.now());
        let place = self.free.pop().unwrap_or_else(|| {
            self.pending.push(None);
            self.served.push(None);
            self.pending.len() - 1
        });
        let depth = self.in_flight() + 1;
        self.lead = self.compensation.lead(depth);
        let id = RequestId(place as u64);
        let request = Request::new(id, DeviceId(0), at, op, offset, length);
        let earliest = arrival + self.ssd.least_time(&request).since(self.lead);
        self.pending[place] =
            Some(Pending { ticket, op, offset, length, arrival, earliest, depth });
        self.ssd.submit(at, &request).expect("a back end keeps within the drive and in time");
        self.run_ahead(arrival);
        self.settle();
    }

    /// Lets the model's time pass.
    pub(super) fn pass_time(&mut self, now: Nanos) {
        let time = self.model_time(now);
        if time > self.ssd.now() {
            self.ssd.advance(time);
        }
        self.run_ahead(now);
        self.settle();
    }

    /// Lets happen what must have happened for answers to be given early. The model
    /// is then ahead of the clock, and what comes next may be late for it, by the lead
    /// at most, which it gains again with its own answer. Nor does the model run
    /// farther ahead than to an event, so that a request which follows an answer is on
    /// time.
    fn run_ahead(&mut self, now: Nanos) {
        let until = self.model_time(now + self.lead);
        while self.ssd.in_flight() > 0
            && let Some(at) = self.ssd.next_event()
            && at <= until
        {
            self.ssd.advance(at);
        }
    }

    /// Takes the model's answers, and finds out when they are to be given.
    fn settle(&mut self) {
        let Self { ssd, pending, served, held, faults, origin, lead, .. } = self;
        ssd.drain(|answer| {
            let completion = &answer.completion;
            let place = completion.request.0 as usize;
            let pending = pending[place].take().expect("answers are to requests");
            let complete = Nanos((i128::from(completion.complete.0) + *origin).max(0) as u64);
            let due_at = faults.answer_at(pending.arrival, complete);
            let due = due_at.since(pending.arrival);
            let answer_at = Nanos(due_at.0.saturating_sub(lead.0)).max(pending.arrival);
            let latency = completion.service_time();
            served[place] = Some(Served { pending, latency, answer_at, due });
            held.push(Reverse((answer_at, place)));
        });
    }

    /// Takes the answers whose time has come.
    pub(super) fn take_ready(&mut self, now: Nanos, ready: &mut Vec<Ready<T>>) {
        while let Some(&Reverse((at, place))) = self.held.peek()
            && at <= now
        {
            self.held.pop();
            let Served { pending, latency, answer_at, due } =
                self.served[place].take().expect("held answers are there");
            self.free.push(place);
            let fails = self.faults.fails(pending.op, pending.arrival, now);
            let Pending { ticket, op, offset, length, arrival, depth, .. } = pending;
            let planned = answer_at.since(arrival);
            let added = now.since(arrival).since(planned);
            self.figures.count(op, length, fails, &Sample { offset, model: latency, added });
            if op == Op::Read && !fails {
                let (answered, lead) = (now, due.since(planned));
                self.figures.note(Answered { offset, length, arrival, answered, due, lead, depth });
            }
            ready.push(Ready { ticket, fails });
        }
    }

    /// What comes next.
    pub(super) fn look_ahead(&self) -> Next {
        Next { at: self.find_next(), waiting: self.in_flight() }
    }

    fn find_next(&self) -> Option<Nanos> {
        let held = self.held.peek().map(|Reverse((at, _))| *at);
        if held.is_some() && self.ssd.in_flight() == 0 {
            return held;
        }
        let event = self.ssd.next_event().map(|at| {
            let at = Nanos(self.wall_time(at).0.saturating_sub(self.lead.0));
            if (1..=FEW).contains(&self.ssd.in_flight()) {
                let earliest = self.pending.iter().flatten().map(|pending| pending.earliest).min();
                at.max(earliest.unwrap_or_default())
            } else {
                at
            }
        });
        [held, event].into_iter().flatten().min()
    }

    /// Adds a fault. Answers that are held already stay so.
    pub(super) fn add_fault(&mut self, fault: &Fault, now: Nanos) {
        self.faults.add(fault, now);
    }

    /// Ends all faults, the scheduled ones too, and lets go of what they held.
    pub(super) fn clear_faults(&mut self, now: Nanos) {
        self.faults.clear();
        self.let_go(now);
    }

    /// The power has gone: what is in flight fails. What the model has answered does so
    /// now, the rest when the model answers it.
    pub(super) fn lose_power(&mut self, now: Nanos) {
        self.faults.lose_power(now);
        self.let_go(now);
    }

    /// Lets go of what faults hold.
    fn let_go(&mut self, now: Nanos) {
        let held = std::mem::take(&mut self.held);
        for Reverse((at, place)) in held {
            if let Some(served) = &mut self.served[place] {
                served.answer_at = at.min(now);
            }
            self.held.push(Reverse((at.min(now), place)));
        }
    }

    /// Makes the firmware work by this profile from now on.
    pub(super) fn retune(&mut self, profile: Profile, now: Nanos) -> Result<(), Error> {
        self.pass_time(now);
        let retuned = self.ssd.retune(&profile, &self.profile);
        retuned.map_err(|e| Error::BadInput(e.to_string()))?;
        self.profile = profile;
        Ok(())
    }

    /// Keeps a copy of the model, instead of the one before.
    pub(super) fn take_snapshot(&mut self, now: Nanos) -> Result<(), Error> {
        self.pass_time(now);
        self.must_be_idle("a snapshot")?;
        self.snapshot = Some(Snapshot { ssd: self.ssd.clone(), profile: self.profile.clone() });
        Ok(())
    }

    /// Goes back to the copy; its time goes on from where it was.
    pub(super) fn restore(&mut self, now: Nanos) -> Result<(), Error> {
        self.pass_time(now);
        self.must_be_idle("going back to one")?;
        let Some(Snapshot { ssd, profile }) = &self.snapshot else {
            return Err(Error::BadInput("there is no snapshot to go back to".to_owned()));
        };
        self.origin = i128::from(now.0) - i128::from(ssd.now().0);
        self.ssd = ssd.clone();
        self.profile = profile.clone();
        Ok(())
    }

    /// Goes on with another flash and forgets all figures: as if nothing had been.
    pub(super) fn begin(&mut self, flash: &mut Option<Ssd>, now: Nanos) -> Result<(), Error> {
        self.pass_time(now);
        self.must_be_idle("another flash")?;
        if let Some(ssd) = flash.take() {
            self.origin = i128::from(now.0) - i128::from(ssd.now().0);
            self.ssd = ssd;
        }
        self.figures = Figures::new(now);
        Ok(())
    }

    /// From now on cleaning takes no time.
    pub(super) fn idealise(&mut self, now: Nanos) -> Result<(), Error> {
        self.pass_time(now);
        self.must_be_idle("another firmware")?;
        self.ssd.replace_firmware(Box::new(Ideal::new(&self.profile)));
        Ok(())
    }

    fn must_be_idle(&self, what: &str) -> Result<(), Error> {
        match self.in_flight() {
            0 => Ok(()),
            n => Err(Error::Failed(format!(
                "{n} requests are in flight, {what} needs an idle drive"
            ))),
        }
    }
}

#[cfg(test)]
mod tests;
