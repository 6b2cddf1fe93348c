//! The strategy trait.

use trimtab_io::{HostEvent, Nanos, Op, Outcome, Request, RequestId};
use trimtab_predict::Ticket;

use crate::control_figures::ControlFigures;
use crate::replica::Replica;
use crate::turn::Turn;

/// Decides which replicas a read is sent to, and when.
///
/// Events arrive in order of time; a strategy answers them through a [`Turn`]. It does
/// not have to guarantee that every read completes: [`Steering`](crate::Steering) asks
/// the remaining replicas when those that were asked fail.
pub trait Strategy: Send {
    /// Its name in tables and options.
    fn name(&self) -> &'static str;

    /// A read has arrived. If the strategy asks no replica and sets no timer, the
    /// primary replica is asked.
    fn read(&mut self, turn: &mut Turn<'_>);

    /// A timer of an incomplete read has expired.
    fn timer(&mut self, turn: &mut Turn<'_>, purpose: u8) {
        _ = (turn, purpose);
    }

    /// An attempt has left the host queue: the drive has it.
    fn begun(&mut self, turn: &mut Turn<'_>, replica: Replica) {
        _ = (turn, replica);
    }

    /// An attempt has returned the data, and the read completes with it.
    fn read_completed(&mut self, turn: &mut Turn<'_>, replica: Replica) {
        _ = (turn, replica);
    }

    /// A request goes to a replica: an attempt, or other traffic (writes, forced
    /// samples). The ticket comes back with its end.
    fn sent(&mut self, now: Nanos, replica: Replica, request: &Request) -> Ticket {
        _ = (now, replica, request);
        Ticket(0)
    }

    /// A request on a replica has ended.
    fn completed(&mut self, now: Nanos, ended: &Ended) {
        _ = (now, ended);
    }

    /// A request has left the scheduler's queues: the device has it. Only where the scheduler tells
    /// that.
    fn dispatched(&mut self, now: Nanos, replica: Replica, ticket: Ticket) {
        _ = (now, replica, ticket);
    }

    /// A request that was sent to this replica, and will be late because of what was sent there
    /// after it: its read is to go elsewhere. Each is told once; `None`: no more.
    fn next_bumped(&mut self, replica: Replica) -> Option<Ticket> {
        _ = replica;
        None
    }

    /// The attempt on a replica was [bumped](Self::next_bumped) and has been taken back. If the
    /// strategy neither asks another replica nor sets a timer, the next one in order is asked.
    fn bumped(&mut self, turn: &mut Turn<'_>, replica: Replica) {
        _ = (turn, replica);
    }

    /// A request of this read has ended at a time that is not known. Told before its end.
    fn unobserved(&mut self, read: RequestId) {
        _ = read;
    }

    /// The host has learnt something of a drive that no request tells.
    fn observe(&mut self, replica: Replica, event: &HostEvent) {
        _ = (replica, event);
    }

    /// What moving reads has gained, if the strategy measures it on a control group.
    fn control_figures(&self) -> Option<ControlFigures> {
        None
    }
}

/// A request that has ended on its replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The request: that of the read, for an attempt.
    pub request: RequestId,
    /// The replica.
    pub replica: Replica,
    /// The ticket that [`Strategy::sent`] returned.
    pub ticket: Ticket,
    /// The request's operation.
    pub op: Op,
    /// When it was sent.
    pub sent: Nanos,
    /// What the drive answered; `None` if the request was taken back.
    pub outcome: Option<Outcome>,
}

impl Ended {
    /// Whether the drive did what was asked. After an error, a refusal or a
    /// cancellation the latency means nothing.
    #[must_use]
    pub fn data(&self) -> bool {
        self.outcome == Some(Outcome::Done)
    }
}
