//! The book of reads: a strategy's actions, and the rule that no read is lost.

use trimtab_io::{Flags, Nanos, Op, Outcome, Request};
use trimtab_predict::Ticket;

use crate::action::{Action, Actions, Attempt, Timer, Why};
use crate::replica::{Order, Replica};
use crate::strategy::{Ended, Strategy};
use crate::turn::{InFlight, Turn};

/// A strategy with its reads in flight: events in, actions out.
///
/// It knows neither clock nor drive; whoever drives it, in virtual time or on
/// the wall clock, calls it in order of time and carries out the [`Action`]s.
/// Whatever the strategy does, each read is answered exactly once: if all that
/// were asked have failed or refused, the others are asked, the last one without
/// the mark [`Flags::LATENCY_CRITICAL`] that lets a drive refuse.
///
/// Apart from growing with the number of reads in flight, it allocates nothing.
pub struct Steering {
    strategy: Box<dyn Strategy>,
    reads: Vec<InFlight>,
    free: Vec<u32>,
    counts: Counts,
}

/// What a strategy has asked of the drives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Reads of the user.
    pub reads: u64,
    /// Requests that drives were sent for them, but for the cancelled ones.
    pub sent: u64,
    /// Of these, how many were probes.
    pub probes: u64,
    /// Taken back before the drive had them.
    pub cancelled: u64,
    /// Times that a predictor decided against a drive.
    pub refused: u64,
}

impl Counts {
    /// Requests beyond one for each read, as a share of the reads: duplicates,
    /// probes, and second attempts at drives that failed.
    #[must_use]
    pub fn extra_share(&self) -> f64 {
        self.sent.saturating_sub(self.reads) as f64 / self.reads.max(1) as f64
    }
}

impl Steering {
    /// A strategy without reads.
    #[must_use]
    pub fn new(strategy: Box<dyn Strategy>) -> Self {
        Self { strategy, reads: Vec::new(), free: Vec::new(), counts: Counts::default() }
    }

    /// The strategy's name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.strategy.name()
    }

    /// What has been asked of the drives so far.
    #[must_use]
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// Reads that are not answered, or have attempts out.
    #[must_use]
    pub const fn in_flight(&self) -> usize {
        self.reads.len() - self.free.len()
    }

    /// A read has come.
    pub fn read(&mut self, now: Nanos, request: &Request, order: Order, actions: &mut Actions) {
        self.counts.reads += 1;
        let slot = match self.free.pop() {
            Some(slot) => {
                let read = &mut self.reads[slot as usize];
                *read = InFlight::new(*request, order, read.generation);
                slot
            }
            None => {
                self.reads.push(InFlight::new(*request, order, 0));
                (self.reads.len() - 1) as u32
            }
        };
        self.turn(now, slot, actions, |strategy, turn| strategy.read(turn));
        self.see_to_it(now, slot, actions);
    }

    /// A timer's time has come.
    pub fn timer(&mut self, now: Nanos, timer: Timer, actions: &mut Actions) {
        let read = &mut self.reads[timer.slot as usize];
        if read.generation != timer.generation || read.answered {
            return;
        }
        read.timers = read.timers.saturating_sub(1);
        self.turn(now, timer.slot, actions, |strategy, turn| strategy.timer(turn, timer.purpose));
        self.see_to_it(now, timer.slot, actions);
    }

    /// The time of an attempt has come: this is what to submit. Nothing, if the
    /// read has been answered meanwhile.
    pub fn send(&mut self, now: Nanos, attempt: Attempt, why: Why) -> Option<Request> {
        let Attempt { slot, replica } = attempt;
        let read = &mut self.reads[slot as usize];
        if read.answered {
            self.end(slot, replica);
            return None;
        }
        let mut request = read.request;
        // Somebody must not refuse: the only one left to ask, if no other is out.
        let last = read.untried().is_none() && read.out.count() == 1;
        let plainly = last || why == Why::LeastBad;
        request.flags.set(Flags::LATENCY_CRITICAL, !plainly);
        if plainly {
            read.plain.add(replica);
        }
        let ticket = self.strategy.sent(now, replica, &request);
        read.sent.add(replica);
        read.tickets[replica.index()] = ticket;
        read.sent_at[replica.index()] = now;
        self.counts.sent += 1;
        self.counts.probes += u64::from(why == Why::Probe);
        Some(request)
    }

    /// An attempt has left the host's queue: the drive has it.
    pub fn begun(&mut self, now: Nanos, attempt: Attempt, actions: &mut Actions) {
        if !self.reads[attempt.slot as usize].answered {
            let replica = attempt.replica;
            self.turn(now, attempt.slot, actions, |strategy, turn| strategy.begun(turn, replica));
        }
    }

    /// A drive is done with an attempt.
    pub fn completed(
        &mut self,
        now: Nanos,
        attempt: Attempt,
        outcome: Outcome,
        actions: &mut Actions,
    ) {
        let Attempt { slot, replica } = attempt;
        let data = outcome == Outcome::Done;
        self.tell_end(now, attempt, data);
        let read = &mut self.reads[slot as usize];
        let refused = matches!(outcome, Outcome::Refused { .. });
        self.counts.sent -= u64::from(refused);
        // Who refuses what must not be refused is as good as broken.
        if outcome == Outcome::Error || refused && read.plain.has(replica) {
            read.failed.add(replica);
        }
        if data && !read.answered && read.counts(replica) {
            self.turn(now, slot, actions, |strategy, turn| strategy.answered(turn, replica));
            self.answer(slot, outcome, actions);
        }
        self.end(slot, replica);
        self.see_to_it(now, slot, actions);
    }

    /// An attempt was taken back, as an action had asked.
    pub fn cancelled(&mut self, now: Nanos, attempt: Attempt, actions: &mut Actions) {
        let Attempt { slot, replica } = attempt;
        self.counts.cancelled += 1;
        if self.reads[slot as usize].sent.has(replica) {
            self.counts.sent -= 1;
            self.tell_end(now, attempt, false);
        }
        // It may be asked again, should others fail.
        self.reads[slot as usize].asked.remove(replica);
        self.end(slot, replica);
        self.see_to_it(now, slot, actions);
    }

    /// Something else goes to a drive: a write, or what others read.
    pub fn other_sent(&mut self, now: Nanos, replica: Replica, request: &Request) -> Ticket {
        self.strategy.sent(now, replica, request)
    }

    /// A drive is done with something else.
    pub fn other_completed(&mut self, now: Nanos, ended: &Ended) {
        self.strategy.completed(now, ended);
    }

    fn turn(
        &mut self,
        now: Nanos,
        slot: u32,
        actions: &mut Actions,
        run: impl FnOnce(&mut dyn Strategy, &mut Turn<'_>),
    ) {
        let read = &mut self.reads[slot as usize];
        let refused = read.refused.count();
        run(&mut *self.strategy, &mut Turn { now, slot, read, actions });
        self.counts.refused += u64::from(self.reads[slot as usize].refused.count() - refused);
    }

    /// Tells the strategy how a sent attempt has ended.
    fn tell_end(&mut self, now: Nanos, attempt: Attempt, data: bool) {
        let Attempt { slot, replica } = attempt;
        let read = &self.reads[slot as usize];
        let (ticket, sent) = (read.tickets[replica.index()], read.sent_at[replica.index()]);
        self.strategy.completed(now, &Ended { replica, ticket, op: Op::Read, sent, data });
    }

    fn answer(&mut self, slot: u32, outcome: Outcome, actions: &mut Actions) {
        let read = &mut self.reads[slot as usize];
        read.answered = true;
        actions.push(Action::Answer { read: read.request.id, outcome });
    }

    /// An attempt is over; with the last one of an answered read, the read is.
    fn end(&mut self, slot: u32, replica: Replica) {
        let read = &mut self.reads[slot as usize];
        read.out.remove(replica);
        read.sent.remove(replica);
        if read.answered && read.out.is_empty() {
            // Timers that are still to come will not find it.
            read.generation = read.generation.wrapping_add(1);
            self.free.push(slot);
        }
    }

    /// Sees to it that somebody works on an unanswered read.
    fn see_to_it(&mut self, now: Nanos, slot: u32, actions: &mut Actions) {
        let read = &mut self.reads[slot as usize];
        // A read that is over has its answer, and stays answered until its slot
        // is used again.
        if read.answered || !read.out.is_empty() {
            return;
        }
        let first = read.asked.is_empty();
        if first && read.timers > 0 {
            return;
        }
        let next = read.untried().or_else(|| {
            // All have been asked. Who only refused is asked once more, plainly.
            let order = read.order;
            let refuser = order.replicas().iter().copied().find(|&r| !read.failed.has(r));
            if let Some(refuser) = refuser {
                read.asked.remove(refuser);
            }
            refuser
        });
        let Some(next) = next else {
            self.answer(slot, Outcome::Error, actions);
            // Nothing is out that could end it.
            let read = &mut self.reads[slot as usize];
            read.generation = read.generation.wrapping_add(1);
            self.free.push(slot);
            return;
        };
        let why = if first { Why::Chosen } else { Why::Retry };
        Turn { now, slot, read, actions }.send(next, now, why);
    }
}
