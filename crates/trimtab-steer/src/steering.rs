//! Reads in flight under a strategy, and the guarantee that no read is lost.

use trimtab_io::{Flags, HostEvent, Nanos, Op, Outcome, Request};
use trimtab_predict::Ticket;

use crate::action::{Action, Actions, Attempt, Reason, Timer};
use crate::control_figures::ControlFigures;
use crate::in_flight::InFlightTable;
use crate::replica::{Order, Replica};
use crate::strategy::{Ended, Strategy};
use crate::turn::{InFlight, Turn};

/// A strategy with its reads in flight: events in, actions out.
///
/// `Steering` tracks in-flight reads and executes the strategy's decisions. It reads no
/// clock and touches no drive: a driver calls it in order of time and carries out the
/// [`Action`]s. It guarantees exactly one completion per read. If all replicas that were
/// asked have failed or refused, it asks the others, and the last one without the flag
/// [`Flags::LATENCY_CRITICAL`] that lets a drive refuse.
///
/// It allocates only while the number of reads in flight grows.
pub struct Steering {
    strategy: Box<dyn Strategy>,
    reads: InFlightTable<InFlight>,
    counts: Counts,
}

/// The requests that a strategy has caused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Reads of the application.
    pub reads: u64,
    /// Requests sent to replicas for them, without the cancelled ones.
    pub sent: u64,
    /// Those of them that were probes.
    pub probes: u64,
    /// Requests taken back before the drive had them.
    pub cancelled: u64,
    /// Times that a predictor decided against a replica.
    pub refused: u64,
}

impl Counts {
    /// Requests beyond one for each read, as a share of the reads: duplicates,
    /// probes, and retries after failures.
    #[must_use]
    pub fn extra_share(&self) -> f64 {
        self.sent.saturating_sub(self.reads) as f64 / self.reads.max(1) as f64
    }
}

impl Steering {
    /// Runs a strategy, with no read in flight yet.
    #[must_use]
    pub fn new(strategy: Box<dyn Strategy>) -> Self {
        Self { strategy, reads: InFlightTable::default(), counts: Counts::default() }
    }

    /// What moving reads has gained, if the strategy measures it.
    #[must_use]
    pub fn control_figures(&self) -> Option<ControlFigures> {
        self.strategy.control_figures()
    }

    /// The strategy's name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.strategy.name()
    }

    /// The requests sent so far.
    #[must_use]
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// Reads that are not complete, or have attempts in flight.
    #[must_use]
    pub const fn in_flight(&self) -> usize {
        self.reads.len()
    }

    /// A read has arrived. Returns a timer of it with the purpose [`Timer::EXTERNAL`], which the
    /// caller may let expire.
    pub fn read(
        &mut self,
        now: Nanos,
        request: &Request,
        order: Order,
        actions: &mut Actions,
    ) -> Timer {
        self.counts.reads += 1;
        let slot = self.reads.insert_with(|before| {
            InFlight::new(*request, order, before.map_or(0, |read| read.generation))
        });
        self.turn(now, slot, actions, |strategy, turn| strategy.read(turn));
        self.ensure_progress(now, slot, actions);
        Timer { slot, generation: self.reads[slot].generation, purpose: Timer::EXTERNAL }
    }

    /// Whether a timer has no effect any more, because its read is complete.
    #[must_use]
    pub fn is_over(&self, timer: Timer) -> bool {
        let read = &self.reads[timer.slot];
        read.generation != timer.generation || read.completed
    }

    /// When the read of an attempt arrived.
    #[must_use]
    pub fn arrival(&self, attempt: Attempt) -> Nanos {
        self.reads[attempt.slot].request.arrival
    }

    /// A timer has expired.
    pub fn timer(&mut self, now: Nanos, timer: Timer, actions: &mut Actions) {
        if self.is_over(timer) {
            return;
        }
        let read = &mut self.reads[timer.slot];
        read.timers = read.timers.saturating_sub(1);
        self.turn(now, timer.slot, actions, |strategy, turn| strategy.timer(turn, timer.purpose));
        self.ensure_progress(now, timer.slot, actions);
    }

    /// The time of an attempt has come: returns the request to submit, or none if the
    /// read has completed meanwhile.
    pub fn send(&mut self, now: Nanos, attempt: Attempt, reason: Reason) -> Option<Request> {
        let Attempt { slot, replica } = attempt;
        let read = &mut self.reads[slot];
        if read.completed {
            self.end(slot, replica);
            return None;
        }
        let mut request = read.request;
        // The last replica must not refuse: the only one left to ask, with none in flight.
        let last = read.untried().is_none() && read.out.count() == 1;
        let no_deadline = last || reason == Reason::LeastBad;
        request.flags.set(Flags::LATENCY_CRITICAL, !no_deadline);
        if no_deadline {
            read.no_deadline.add(replica);
        }
        let ticket = self.strategy.sent(now, replica, &request);
        read.sent.add(replica);
        if let Some(place) = read.order.place(replica) {
            (read.tickets[place], read.sent_at[place]) = (ticket, now);
        }
        self.counts.sent += 1;
        self.counts.probes += u64::from(reason == Reason::Probe);
        Some(request)
    }

    /// An attempt has left the host queue: the drive has it.
    pub fn begun(&mut self, now: Nanos, attempt: Attempt, actions: &mut Actions) {
        if !self.reads[attempt.slot].completed {
            let replica = attempt.replica;
            self.turn(now, attempt.slot, actions, |strategy, turn| strategy.begun(turn, replica));
        }
    }

    /// An attempt has ended on its replica.
    pub fn completed(
        &mut self,
        now: Nanos,
        attempt: Attempt,
        outcome: Outcome,
        actions: &mut Actions,
    ) {
        let Attempt { slot, replica } = attempt;
        let data = outcome == Outcome::Done;
        self.report_end(now, attempt, Some(outcome));
        let read = &mut self.reads[slot];
        let refused = matches!(outcome, Outcome::Refused { .. });
        self.counts.sent -= u64::from(refused);
        // A drive that refuses a read without a deadline is treated as failed.
        if outcome == Outcome::Error || refused && read.no_deadline.has(replica) {
            read.failed.add(replica);
        }
        if data && !read.completed && read.counts(replica) {
            self.turn(now, slot, actions, |strategy, turn| {
                strategy.read_completed(turn, replica);
            });
            self.complete(slot, outcome, actions);
        }
        self.end(slot, replica);
        self.ensure_progress(now, slot, actions);
    }

    /// An attempt was taken back, as [`Action::Cancel`] asked.
    pub fn cancelled(&mut self, now: Nanos, attempt: Attempt, actions: &mut Actions) {
        let Attempt { slot, replica } = attempt;
        self.counts.cancelled += 1;
        if self.reads[slot].sent.has(replica) {
            self.counts.sent -= 1;
            self.report_end(now, attempt, None);
        }
        // The replica may be asked again, should others fail.
        self.reads[slot].asked.remove(replica);
        self.end(slot, replica);
        self.ensure_progress(now, slot, actions);
    }

    /// The next attempt on this replica that the strategy expects to be late because of what was sent
    /// after it: to be taken back, if that is still possible, and reported as
    /// [`bumped`](Self::bumped).
    pub fn next_bumped(&mut self, replica: Replica) -> Option<Attempt> {
        loop {
            let ticket = self.strategy.next_bumped(replica)?;
            let is_it = |read: &InFlight| {
                let place = read.order.place(replica);
                read.sent.has(replica)
                    && !read.completed
                    && !read.no_deadline.has(replica)
                    && place.is_some_and(|place| read.tickets[place] == ticket)
            };
            if let Some(slot) = self.reads.find(is_it) {
                return Some(Attempt { slot, replica });
            }
        }
    }

    /// An attempt was taken back because it would have been late.
    pub fn bumped(&mut self, now: Nanos, attempt: Attempt, actions: &mut Actions) {
        let Attempt { slot, replica } = attempt;
        self.counts.cancelled += 1;
        self.counts.sent -= 1;
        self.report_end(now, attempt, None);
        // Refused after all: it may be asked again, after the others.
        let read = &mut self.reads[slot];
        read.asked.remove(replica);
        read.refused.add(replica);
        read.out.remove(replica);
        read.sent.remove(replica);
        self.turn(now, slot, actions, |strategy, turn| strategy.bumped(turn, replica));
        self.ensure_progress(now, slot, actions);
    }

    /// An attempt has left its drive's scheduler.
    pub fn dispatched(&mut self, now: Nanos, attempt: Attempt) {
        let read = &self.reads[attempt.slot];
        if let Some(place) = read.order.place(attempt.replica) {
            self.strategy.dispatched(now, attempt.replica, read.tickets[place]);
        }
    }

    /// A request of other traffic has left its drive's scheduler.
    pub fn other_dispatched(&mut self, now: Nanos, replica: Replica, ticket: Ticket) {
        self.strategy.dispatched(now, replica, ticket);
    }

    /// Other traffic goes to a replica: a write, a forced sample.
    pub fn other_sent(&mut self, now: Nanos, replica: Replica, request: &Request) -> Ticket {
        self.strategy.sent(now, replica, request)
    }

    /// A request of other traffic has ended.
    pub fn other_completed(&mut self, now: Nanos, ended: &Ended) {
        self.strategy.completed(now, ended);
    }

    /// The host has learnt something of a drive that no request tells.
    pub fn observe(&mut self, replica: Replica, event: &HostEvent) {
        self.strategy.observe(replica, event);
    }

    fn turn(
        &mut self,
        now: Nanos,
        slot: u32,
        actions: &mut Actions,
        run: impl FnOnce(&mut dyn Strategy, &mut Turn<'_>),
    ) {
        let read = &mut self.reads[slot];
        let refused = read.refused.count();
        run(&mut *self.strategy, &mut Turn { now, slot, read, actions });
        self.counts.refused += u64::from(self.reads[slot].refused.count() - refused);
    }

    /// Reports the end of an attempt that was sent to the strategy.
    fn report_end(&mut self, now: Nanos, attempt: Attempt, outcome: Option<Outcome>) {
        let Attempt { slot, replica } = attempt;
        let read = &self.reads[slot];
        let place = read.order.place(replica).unwrap_or_default();
        let (ticket, sent) = (read.tickets[place], read.sent_at[place]);
        let request = read.request.id;
        let ended = Ended { request, replica, ticket, op: Op::Read, sent, outcome };
        self.strategy.completed(now, &ended);
    }

    fn complete(&mut self, slot: u32, outcome: Outcome, actions: &mut Actions) {
        let read = &mut self.reads[slot];
        read.completed = true;
        actions.push(Action::Complete { read: read.request.id, outcome });
    }

    /// An attempt is over; with the last attempt of a completed read the read leaves the
    /// table.
    fn end(&mut self, slot: u32, replica: Replica) {
        let read = &mut self.reads[slot];
        read.out.remove(replica);
        read.sent.remove(replica);
        if read.completed && read.out.is_empty() {
            // Timers that are still set will not find it.
            read.generation = read.generation.wrapping_add(1);
            self.reads.remove(slot);
        }
    }

    /// Makes sure that an incomplete read has an attempt in flight, or a timer that comes
    /// before the first one.
    fn ensure_progress(&mut self, now: Nanos, slot: u32, actions: &mut Actions) {
        let read = &mut self.reads[slot];
        // A read that has left the table stays marked as complete until its slot is used
        // again.
        if read.completed || !read.out.is_empty() {
            return;
        }
        let first = read.asked.is_empty();
        if first && read.timers > 0 {
            return;
        }
        let next = read.untried().or_else(|| {
            // All have been asked. One that only refused is asked again, without a deadline.
            let order = read.order;
            let refuser = order.replicas().iter().copied().find(|&r| !read.failed.has(r));
            if let Some(refuser) = refuser {
                read.asked.remove(refuser);
            }
            refuser
        });
        let Some(next) = next else {
            self.complete(slot, Outcome::Error, actions);
            // No attempt is left whose end would free the slot.
            let read = &mut self.reads[slot];
            read.generation = read.generation.wrapping_add(1);
            self.reads.remove(slot);
            return;
        };
        let reason = if first { Reason::Chosen } else { Reason::Retry };
        Turn { now, slot, read, actions }.send(next, now, reason);
    }
}
