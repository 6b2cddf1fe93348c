//! The state shared by a drive's threads, under one lock: the model, and the requests in
//! flight.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use trimtab_device::{Drive, DriveProfile, Fault, Faults};
use trimtab_io::{DeviceId, Flags, Nanos, Op, Outcome, Request, RequestId};
use trimtab_serve::{Error, Flag, FlagTable};

use super::compensation::{Compensator, PathSample};
use super::engine::{DueAnswer, Incoming};
use super::figures::{CompletedRead, Figures, ObservedRead, Sample};
use super::predictable::Leased;
use super::spec::Spec;

/// With more requests waiting, the earliest possible answer is not searched for: one could be due
/// at once.
const MAX_SEARCHED: usize = 8;

/// A request in the model.
struct Pending<T> {
    ticket: T,
    op: Op,
    offset: u64,
    length: u64,
    arrival: Nanos,
    /// The earliest time of its answer.
    earliest: Nanos,
    /// Requests in flight when it arrived, itself included.
    depth: usize,
    /// An array flagged it as latency-critical.
    flag: Option<Flag>,
}

/// A request that the model has completed, to be answered later.
struct Served<T> {
    pending: Pending<T>,
    /// By the model, without faults.
    latency: Nanos,
    answer_at: Nanos,
    /// Latency by the model and the faults. Its end is later than `answer_at` by the compensation.
    due: Nanos,
    is_refused: bool,
}

/// The next event.
#[derive(Clone, Copy, Debug)]
pub(super) struct Next {
    /// Its time, if there is one.
    pub(super) at: Option<Nanos>,
    /// Requests in flight.
    pub(super) waiting: usize,
}

/// The model, and the requests in flight. Times are the wall clock's, except where the name says
/// `model`.
pub(super) struct State<T> {
    pub(super) model: Drive,
    pub(super) profile: DriveProfile,
    /// Cleaning takes no time.
    pub(super) is_ideal: bool,
    /// What an array has asked for.
    pub(super) leased: Option<Leased>,
    /// Where it is noted which of an array's reads are refused.
    pub(super) flags: Option<Arc<FlagTable>>,
    /// Wall-clock time at the model's 0; saturates if the model is older than the machine's uptime.
    origin: i128,
    /// Latency compensation: how much earlier than the model says answers are given.
    compensation: Nanos,
    compensator: Compensator,
    pending: Vec<Option<Pending<T>>>,
    free: Vec<usize>,
    served: Vec<Option<Served<T>>>,
    /// When each of `served` is to be answered.
    held: BinaryHeap<Reverse<(Nanos, usize)>>,
    pub(super) faults: Faults,
    pub(super) figures: Figures,
    snapshot: Option<Snapshot>,
}

/// A copy of the model.
struct Snapshot {
    model: Drive,
    profile: DriveProfile,
}

impl<T> State<T> {
    pub(super) fn new(spec: &Spec, model: Drive, now: Nanos) -> Self {
        let origin = i128::from(now.0) - i128::from(model.now().0);
        // A separate stream: faults must not change the model's random numbers.
        let faults = Faults::new(!spec.seed);
        let compensator =
            spec.compensation.map_or_else(|| Compensator::new(Nanos::ZERO), Compensator::fixed);
        Self {
            model,
            profile: spec.profile.clone(),
            is_ideal: false,
            leased: None,
            flags: None,
            origin,
            compensation: compensator.at_depth(1),
            compensator,
            pending: Vec::new(),
            free: Vec::new(),
            served: Vec::new(),
            held: BinaryHeap::new(),
            faults,
            figures: Figures::new(now),
            snapshot: None,
        }
    }

    pub(super) fn model_time(&self, wall: Nanos) -> Nanos {
        Nanos((i128::from(wall.0) - self.origin).max(0) as u64)
    }

    pub(super) fn wall_time(&self, model: Nanos) -> Nanos {
        Nanos((i128::from(model.0) + self.origin).max(0) as u64)
    }

    /// Requests not yet answered.
    pub(super) fn in_flight(&self) -> usize {
        self.model.in_flight() + self.held.len()
    }

    pub(super) const fn model(&self) -> &Drive {
        &self.model
    }

    pub(super) const fn profile(&self) -> &DriveProfile {
        &self.profile
    }

    pub(super) const fn has_snapshot(&self) -> bool {
        self.snapshot.is_some()
    }

    /// The compensation at the depth of the latest request.
    pub(super) const fn compensation(&self) -> Nanos {
        self.compensation
    }

    /// Starts to compensate the path from a measured estimate, unless the compensation is fixed.
    pub(super) fn begin_compensation(&mut self, compensation: Nanos) {
        self.compensator.begin(compensation);
        self.compensation = self.compensator.at_depth(1);
    }

    /// Fixes the compensation, or, with `None`, corrects it in use.
    pub(super) fn fix_compensation(&mut self, compensation: Option<Nanos>) {
        self.compensator =
            compensation.map_or_else(|| Compensator::new(self.compensation), Compensator::fixed);
        self.compensation = self.compensator.at_depth(1);
    }

    /// Whether the compensation is fixed.
    pub(super) const fn compensation_is_fixed(&self) -> bool {
        self.compensator.is_fixed()
    }

    /// Takes the observed reads of one period.
    pub(super) fn record_path(&mut self, seen: &[ObservedRead]) {
        self.figures.record_path(seen);
        self.compensator.learn(seen.iter().map(|seen| PathSample {
            depth: seen.answer.depth,
            beyond: seen.beyond(),
            compensation: seen.answer.compensation,
        }));
    }

    /// Submits a request, which must lie within the drive.
    pub(super) fn submit(&mut self, arrived: Incoming<T>) {
        let Incoming { arrival, op, offset, length, ticket, flag } = arrived;
        // Another thread may have advanced time beyond the arrival.
        let at = self.model_time(arrival).max(self.model.now());
        let slot = self.free.pop().unwrap_or_else(|| {
            self.pending.push(None);
            self.served.push(None);
            self.pending.len() - 1
        });
        let depth = self.in_flight() + 1;
        self.compensation = self.compensator.at_depth(depth);
        let id = RequestId(slot as u64);
        let mut request = Request::new(id, DeviceId(0), at, op, offset, length);
        let mut least = self.model.min_latency(&request);
        if flag.is_some() {
            request.flags = Flags::LATENCY_CRITICAL;
            // It may be refused.
            least = Nanos::ZERO;
        }
        let earliest = arrival + least.since(self.compensation);
        self.pending[slot] =
            Some(Pending { ticket, op, offset, length, arrival, earliest, depth, flag });
        self.model.submit(at, &request).expect("a back end keeps within the drive and in time");
        self.run_ahead(arrival);
        self.collect_answers();
    }

    /// Advances the model's time.
    pub(super) fn pass_time(&mut self, now: Nanos) {
        self.expire_lease(now);
        let time = self.model_time(now);
        if time > self.model.now() {
            self.model.advance(time);
        }
        self.run_ahead(now);
        self.collect_answers();
    }

    /// Advances the model beyond the clock, as far as early answers require. A request that arrives
    /// next may be late for the model, by the compensation at most, which its own answer makes up
    /// for. The model never runs farther ahead than to an event, so that a request which follows an
    /// answer is on time.
    fn run_ahead(&mut self, now: Nanos) {
        let until = self.model_time(now + self.compensation);
        while self.model.in_flight() > 0
            && let Some(at) = self.model.next_event()
            && at <= until
        {
            self.model.advance(at);
        }
    }

    /// Takes the model's completions, and computes when to answer them.
    fn collect_answers(&mut self) {
        let Self { model, pending, served, held, faults, origin, compensation, flags, .. } = self;
        model.drain(|answer| {
            let completion = &answer.completion;
            let slot = completion.request.0 as usize;
            let pending = pending[slot].take().expect("answers are to requests");
            let complete = Nanos((i128::from(completion.complete.0) + *origin).max(0) as u64);
            let due_at = faults.answer_at(pending.arrival, complete);
            let due = due_at.since(pending.arrival);
            let answer_at = Nanos(due_at.0.saturating_sub(compensation.0)).max(pending.arrival);
            let latency = completion.service_time();
            let mut is_refused = false;
            if let Outcome::Refused { expected_wait } = completion.outcome {
                is_refused = true;
                if let Some((flags, flag)) = flags.as_ref().zip(pending.flag) {
                    flags.refuse(flag, expected_wait);
                }
            }
            served[slot] = Some(Served { pending, latency, answer_at, due, is_refused });
            held.push(Reverse((answer_at, slot)));
        });
    }

    /// Takes the answers that are due.
    pub(super) fn take_ready(&mut self, now: Nanos, ready: &mut Vec<DueAnswer<T>>) {
        while let Some(&Reverse((at, slot))) = self.held.peek()
            && at <= now
        {
            self.held.pop();
            let Served { pending, latency, answer_at, due, is_refused } =
                self.served[slot].take().expect("held answers are there");
            self.free.push(slot);
            let Pending { ticket, op, offset, length, arrival, depth, .. } = pending;
            let fails = self.faults.fails(op, offset..offset + length, arrival, now);
            if is_refused {
                self.figures.refused += 1;
                ready.push(DueAnswer { ticket, fails });
                continue;
            }
            let planned = answer_at.since(arrival);
            let added = now.since(arrival).since(planned);
            self.figures.count(op, length, fails, &Sample { offset, model: latency, added });
            if op == Op::Read && !fails {
                let (answered, compensation) = (now, due.since(planned));
                self.figures.note(CompletedRead {
                    offset,
                    length,
                    arrival,
                    answered,
                    due,
                    compensation,
                    depth,
                });
            }
            ready.push(DueAnswer { ticket, fails });
        }
    }

    /// The next event.
    pub(super) fn next_event(&self) -> Next {
        Next { at: self.find_next(), waiting: self.in_flight() }
    }

    fn find_next(&self) -> Option<Nanos> {
        let held = self.held.peek().map(|Reverse((at, _))| *at);
        if held.is_some() && self.model.in_flight() == 0 {
            return held;
        }
        let event = self.model.next_event().map(|at| {
            let at = Nanos(self.wall_time(at).0.saturating_sub(self.compensation.0));
            if (1..=MAX_SEARCHED).contains(&self.model.in_flight()) {
                let earliest = self.pending.iter().flatten().map(|pending| pending.earliest).min();
                at.max(earliest.unwrap_or_default())
            } else {
                at
            }
        });
        [held, event].into_iter().flatten().min()
    }

    /// Adds a fault. Answers that are held already are not changed.
    pub(super) fn add_fault(&mut self, fault: &Fault, now: Nanos) {
        self.faults.add(fault, now);
    }

    /// Ends all faults, scheduled ones included, and releases what they held.
    pub(super) fn clear_faults(&mut self, now: Nanos) {
        self.faults.clear();
        self.release_held(now);
    }

    /// The same, and returns them.
    pub(super) fn lift_faults(&mut self, now: Nanos) -> Faults {
        let faults = self.faults.clone();
        self.clear_faults(now);
        faults
    }

    /// The power has been cut: requests in flight fail. Those that the model has completed fail
    /// now, the rest when the model completes them.
    pub(super) fn lose_power(&mut self, now: Nanos) {
        self.faults.lose_power(now);
        self.release_held(now);
    }

    /// Releases answers that faults hold.
    fn release_held(&mut self, now: Nanos) {
        let held = std::mem::take(&mut self.held);
        for Reverse((at, slot)) in held {
            if let Some(served) = &mut self.served[slot] {
                served.answer_at = at.min(now);
            }
            self.held.push(Reverse((at.min(now), slot)));
        }
    }

    /// Changes the firmware's parameters to this profile's.
    pub(super) fn retune(&mut self, profile: DriveProfile, now: Nanos) -> Result<(), Error> {
        self.pass_time(now);
        let retuned = self.model.retune(&profile, &self.profile);
        retuned.map_err(|e| Error::BadInput(e.to_string()))?;
        self.profile = profile;
        self.install_firmware(now)
    }

    /// Takes a snapshot of the model, in place of the one before.
    pub(super) fn take_snapshot(&mut self, now: Nanos) -> Result<(), Error> {
        self.pass_time(now);
        self.must_be_idle("a snapshot")?;
        self.snapshot = Some(Snapshot { model: self.model.clone(), profile: self.profile.clone() });
        Ok(())
    }

    /// Returns to the snapshot; its time continues from where it was.
    pub(super) fn restore(&mut self, now: Nanos) -> Result<(), Error> {
        self.pass_time(now);
        self.must_be_idle("going back to a snapshot")?;
        let Some(Snapshot { model, profile }) = &self.snapshot else {
            return Err(Error::BadInput("there is no snapshot to go back to".to_owned()));
        };
        self.origin = i128::from(now.0) - i128::from(model.now().0);
        self.model = model.clone();
        self.profile = profile.clone();
        self.is_ideal = false;
        self.install_firmware(now)
    }

    /// Continues with another model, and resets all counters.
    pub(super) fn begin(&mut self, model: &mut Option<Drive>, now: Nanos) -> Result<(), Error> {
        self.pass_time(now);
        self.must_be_idle("another model")?;
        if let Some(model) = model.take() {
            self.origin = i128::from(now.0) - i128::from(model.now().0);
            self.model = model;
        }
        self.figures = Figures::new(now);
        Ok(())
    }

    /// From now on cleaning takes no time, or does again.
    pub(super) fn idealise(&mut self, is_ideal: bool, now: Nanos) -> Result<(), Error> {
        self.pass_time(now);
        if matches!(self.model, Drive::Disk(_)) {
            return Err(Error::BadInput(
                "a disk has no firmware that cleans: only a flash drive can do without".to_owned(),
            ));
        }
        self.is_ideal = is_ideal;
        self.install_firmware(now)
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
