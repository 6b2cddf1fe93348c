//! A strategy's turn: one read, and the actions on it.

use trimtab_io::{Nanos, Request, RequestId};
use trimtab_predict::Ticket;

use crate::action::{Action, Actions, Attempt, Reason, Timer};
use crate::replica::{MOST_REPLICAS, Order, Replica, Replicas};

/// A read that is not complete, or of which attempts are still in flight.
#[derive(Clone, Debug)]
pub(crate) struct InFlight {
    pub(crate) request: Request,
    pub(crate) order: Order,
    pub(crate) generation: u32,
    /// Attempts that have not ended.
    pub(crate) out: Replicas,
    /// Those of them that have been sent.
    pub(crate) sent: Replicas,
    /// Replicas that were asked: not again, unless they refused or were cancelled.
    pub(crate) asked: Replicas,
    /// Replicas that the strategy decided against.
    pub(crate) refused: Replicas,
    /// Replicas that failed.
    pub(crate) failed: Replicas,
    /// Replicas whose data no longer completes the read.
    pub(crate) abandoned: Replicas,
    /// Replicas that were asked without a deadline: they may not refuse.
    pub(crate) no_deadline: Replicas,
    pub(crate) timers: u8,
    pub(crate) completed: bool,
    pub(crate) memo: u32,
    /// Of its attempts, by their place in the order.
    pub(crate) tickets: [Ticket; MOST_REPLICAS],
    pub(crate) sent_at: [Nanos; MOST_REPLICAS],
}

impl InFlight {
    pub(crate) const fn new(request: Request, order: Order, generation: u32) -> Self {
        Self {
            request,
            order,
            generation,
            out: Replicas::NONE,
            sent: Replicas::NONE,
            asked: Replicas::NONE,
            refused: Replicas::NONE,
            failed: Replicas::NONE,
            abandoned: Replicas::NONE,
            no_deadline: Replicas::NONE,
            timers: 0,
            completed: false,
            memo: 0,
            tickets: [Ticket(0); MOST_REPLICAS],
            sent_at: [Nanos::ZERO; MOST_REPLICAS],
        }
    }

    /// Whether data from this replica completes the read.
    pub(crate) const fn counts(&self, replica: Replica) -> bool {
        !self.abandoned.has(replica) || self.out.without(self.abandoned).is_empty()
    }

    /// The replica to ask next: in order, refused ones last.
    pub(crate) fn untried(&self) -> Option<Replica> {
        let mut left = self.order.replicas().iter().copied().filter(|&r| !self.asked.has(r));
        let first = left.clone().find(|&r| !self.refused.has(r));
        first.or_else(|| left.next())
    }
}

/// One read at one event: its state, and the actions that a strategy can take.
#[derive(Debug)]
pub struct Turn<'a> {
    pub(crate) now: Nanos,
    pub(crate) slot: u32,
    pub(crate) read: &'a mut InFlight,
    pub(crate) actions: &'a mut Actions,
}

impl Turn<'_> {
    /// The current time.
    #[must_use]
    pub const fn now(&self) -> Nanos {
        self.now
    }

    /// The read's number.
    #[must_use]
    pub const fn id(&self) -> RequestId {
        self.read.request.id
    }

    /// The read.
    #[must_use]
    pub const fn request(&self) -> &Request {
        &self.read.request
    }

    /// Its replicas, the primary first.
    #[must_use]
    pub fn order(&self) -> &[Replica] {
        self.read.order.replicas()
    }

    /// The primary replica.
    #[must_use]
    pub const fn primary(&self) -> Replica {
        self.read.order.primary()
    }

    /// Whether this replica has been asked.
    #[must_use]
    pub const fn has_asked(&self, replica: Replica) -> bool {
        self.read.asked.has(replica)
    }

    /// Whether an attempt on this replica has been sent, and has not ended.
    #[must_use]
    pub const fn is_sent(&self, replica: Replica) -> bool {
        self.read.sent.has(replica)
    }

    /// The replica to ask next: in order, refused ones last.
    #[must_use]
    pub fn untried(&self) -> Option<Replica> {
        self.read.untried()
    }

    /// The number that the strategy has stored with this read; 0 at first.
    #[must_use]
    pub const fn memo(&self) -> u32 {
        self.read.memo
    }

    /// Stores a number with this read.
    pub const fn set_memo(&mut self, memo: u32) {
        self.read.memo = memo;
    }

    /// Asks a replica, now or a little later. One that has been asked already is
    /// not asked again.
    pub fn send(&mut self, replica: Replica, at: Nanos, reason: Reason) {
        if self.read.asked.has(replica) {
            return;
        }
        self.read.asked.add(replica);
        self.read.out.add(replica);
        let attempt = Attempt { slot: self.slot, replica };
        self.actions.push(Action::Send { attempt, at, reason });
    }

    /// Decides against a replica.
    pub fn refuse(&mut self, replica: Replica) {
        self.read.refused.add(replica);
        self.actions.push(Action::Refused { read: self.read.request.id, replica });
    }

    /// Gives up on the replicas that have been asked so far: their data counts only if
    /// no other attempt is left.
    pub const fn abandon(&mut self) {
        self.read.abandoned = self.read.asked;
    }

    /// Takes an attempt back, if it still waits in the host queue.
    pub fn cancel(&mut self, replica: Replica) {
        if self.read.out.has(replica) {
            self.actions.push(Action::Cancel(Attempt { slot: self.slot, replica }));
        }
    }

    /// Cancels all attempts but this one.
    pub fn cancel_others(&mut self, but: Replica) {
        for replica in self.read.out.iter().filter(|&replica| replica != but) {
            self.cancel(replica);
        }
    }

    /// Requests a call of [`Strategy::timer`](crate::Strategy::timer) at a time, unless the
    /// read is complete by then.
    pub fn timer(&mut self, at: Nanos, purpose: u8) {
        self.read.timers = self.read.timers.saturating_add(1);
        let timer = Timer { slot: self.slot, generation: self.read.generation, purpose };
        self.actions.push(Action::Timer { at, timer });
    }
}
