//! A strategy's turn: one read, and what to do with it.

use trimtab_io::{Nanos, Request, RequestId};
use trimtab_predict::Ticket;

use crate::action::{Action, Actions, Attempt, Timer, Why};
use crate::replica::{MOST_REPLICAS, Order, Replica, Replicas};

/// A read that has not been answered, or of which attempts are still out.
#[derive(Clone, Debug)]
pub(crate) struct InFlight {
    pub(crate) request: Request,
    pub(crate) order: Order,
    pub(crate) generation: u32,
    /// Attempts that have not ended, and those of them that have been sent.
    pub(crate) out: Replicas,
    pub(crate) sent: Replicas,
    /// Who was asked: not again, unless it refused or was cancelled.
    pub(crate) asked: Replicas,
    /// Whom the strategy decided against.
    pub(crate) refused: Replicas,
    /// Who failed.
    pub(crate) failed: Replicas,
    /// Whose answer nobody waits for any more.
    pub(crate) abandoned: Replicas,
    /// Who was asked without leave to refuse.
    pub(crate) plain: Replicas,
    pub(crate) timers: u8,
    pub(crate) answered: bool,
    pub(crate) memo: u32,
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
            plain: Replicas::NONE,
            timers: 0,
            answered: false,
            memo: 0,
            tickets: [Ticket(0); MOST_REPLICAS],
            sent_at: [Nanos::ZERO; MOST_REPLICAS],
        }
    }

    /// Whether an answer of this drive is the read's.
    pub(crate) const fn counts(&self, replica: Replica) -> bool {
        !self.abandoned.has(replica) || self.out.without(self.abandoned).is_empty()
    }

    /// Who can be asked next: in order, but those that were refused last.
    pub(crate) fn untried(&self) -> Option<Replica> {
        let mut left = self.order.replicas().iter().copied().filter(|&r| !self.asked.has(r));
        let first = left.clone().find(|&r| !self.refused.has(r));
        first.or_else(|| left.next())
    }
}

/// One read whose turn it is: what there is to know of it, and what to do.
#[derive(Debug)]
pub struct Turn<'a> {
    pub(crate) now: Nanos,
    pub(crate) slot: u32,
    pub(crate) read: &'a mut InFlight,
    pub(crate) actions: &'a mut Actions,
}

impl Turn<'_> {
    /// Now.
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

    /// Its replicas, the home first.
    #[must_use]
    pub fn order(&self) -> &[Replica] {
        self.read.order.replicas()
    }

    /// The first of them.
    #[must_use]
    pub const fn home(&self) -> Replica {
        self.read.order.home()
    }

    /// Whether this drive has been asked.
    #[must_use]
    pub const fn has_asked(&self, replica: Replica) -> bool {
        self.read.asked.has(replica)
    }

    /// Who can be asked next: in order, but those that were refused last.
    #[must_use]
    pub fn untried(&self) -> Option<Replica> {
        self.read.untried()
    }

    /// A number that the strategy has left with this read; 0 at first.
    #[must_use]
    pub const fn memo(&self) -> u32 {
        self.read.memo
    }

    /// Leaves a number with this read.
    pub const fn set_memo(&mut self, memo: u32) {
        self.read.memo = memo;
    }

    /// Asks a drive, now or a little later. One that has been asked already is
    /// not asked again.
    pub fn send(&mut self, replica: Replica, at: Nanos, why: Why) {
        if self.read.asked.has(replica) {
            return;
        }
        self.read.asked.add(replica);
        self.read.out.add(replica);
        let attempt = Attempt { slot: self.slot, replica };
        self.actions.push(Action::Send { attempt, at, why });
    }

    /// Decides against a drive.
    pub fn refuse(&mut self, replica: Replica) {
        self.read.refused.add(replica);
        self.actions.push(Action::Refused { read: self.read.request.id, replica });
    }

    /// Waits no more for those that have been asked so far: their answers count
    /// only if nobody else is left who could give one.
    pub const fn abandon(&mut self) {
        self.read.abandoned = self.read.asked;
    }

    /// Takes an attempt back, if that is still possible.
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

    /// Has [`Strategy::timer`](crate::Strategy::timer) called at a time, unless
    /// the read has been answered by then.
    pub fn timer(&mut self, at: Nanos, purpose: u8) {
        self.read.timers = self.read.timers.saturating_add(1);
        let timer = Timer { slot: self.slot, generation: self.read.generation, purpose };
        self.actions.push(Action::Timer { at, timer });
    }
}
