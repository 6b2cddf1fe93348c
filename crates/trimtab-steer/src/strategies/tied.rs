//! Two replicas, one of which is cancelled.

use trimtab_io::Nanos;

use crate::action::Reason;
use crate::replica::Replica;
use crate::strategy::Strategy;
use crate::turn::Turn;

/// Tied requests (Dean and Barroso, "The Tail at Scale", CACM 56(2), 2013): a read enters the
/// queues of two servers, and when one begins it, the other is notified to drop it.
///
/// At the block level a request can be taken back only while it waits in the host queue
/// for the drive to have room. Once the drive has it, the drive may serve it at any time,
/// and the host does not learn when it begins. So this is modelled: the copy goes to the
/// second replica after `delay`; when one of the two leaves the host queue, or completes,
/// the other is cancelled if it is still in the host queue (or still waits for the delay).
/// Without a delay and with room in both drives that equals cloning; with any delay and
/// room in the primary it equals reading the primary only.
#[derive(Debug)]
pub struct Tied {
    delay: Nanos,
}

impl Tied {
    /// With this delay before the copy is sent.
    #[must_use]
    pub const fn new(delay: Nanos) -> Self {
        Self { delay }
    }
}

impl Strategy for Tied {
    fn name(&self) -> &'static str {
        "tied"
    }

    fn read(&mut self, turn: &mut Turn<'_>) {
        turn.send(turn.primary(), turn.now(), Reason::Chosen);
        if let Some(other) = turn.untried() {
            turn.send(other, turn.now() + self.delay, Reason::Duplicate);
        }
    }

    fn begun(&mut self, turn: &mut Turn<'_>, replica: Replica) {
        turn.cancel_others(replica);
    }

    fn read_completed(&mut self, turn: &mut Turn<'_>, replica: Replica) {
        turn.cancel_others(replica);
    }
}
