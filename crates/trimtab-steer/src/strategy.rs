//! What a strategy is.

use trimtab_io::{Nanos, Op, Request};
use trimtab_predict::Ticket;

use crate::replica::Replica;
use crate::turn::Turn;

/// Decides where reads go, and when else.
///
/// It is told what it may know, in order of time, and says what to do by way of
/// a [`Turn`]. It need not care that every read is answered:
/// [`Steering`](crate::Steering), in which it runs, asks the replicas that are
/// left when those that were asked fail.
pub trait Strategy: Send {
    /// Its name in tables and options.
    fn name(&self) -> &'static str;

    /// A read has come. If this asks nobody and sets no timer, the read's home is
    /// asked.
    fn read(&mut self, turn: &mut Turn<'_>);

    /// A timer of an unanswered read has gone off.
    fn timer(&mut self, turn: &mut Turn<'_>, purpose: u8) {
        _ = (turn, purpose);
    }

    /// An attempt has left the host's queue: the drive has it.
    fn begun(&mut self, turn: &mut Turn<'_>, replica: Replica) {
        _ = (turn, replica);
    }

    /// An attempt has brought the data, and the read is being answered.
    fn answered(&mut self, turn: &mut Turn<'_>, replica: Replica) {
        _ = (turn, replica);
    }

    /// A request goes to a drive: an attempt, or what others send there (writes,
    /// say). The ticket comes back with its end.
    fn sent(&mut self, now: Nanos, replica: Replica, request: &Request) -> Ticket {
        _ = (now, replica, request);
        Ticket(0)
    }

    /// A drive is done with a request.
    fn completed(&mut self, now: Nanos, ended: &Ended) {
        _ = (now, ended);
    }
}

/// A request that a drive is done with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The drive.
    pub replica: Replica,
    /// What [`Strategy::sent`] said.
    pub ticket: Ticket,
    /// What it did.
    pub op: Op,
    /// When it was sent.
    pub sent: Nanos,
    /// Whether the drive did what was asked. If not (an error, a refusal, a
    /// cancellation), its time tells nothing.
    pub data: bool,
}
