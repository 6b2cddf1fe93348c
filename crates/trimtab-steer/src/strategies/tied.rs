//! Asking two, and taking one back.

use trimtab_io::Nanos;

use crate::action::Why;
use crate::replica::Replica;
use crate::strategy::Strategy;
use crate::turn::Turn;

/// Tied requests (Dean and Barroso, "The Tail at Scale", CACM 56(2), 2013): a
/// read is put into the queues of two drives, and when one begins with it, the
/// other is told to drop it.
///
/// What can be done of that at the block level: a request can be taken back only
/// as long as it waits in the host's queue for the drive to have room. Once the
/// drive has it, the drive may do it any time, and nobody hears when it begins.
/// So this is modelled: the copy goes to the second drive after `delay`; when
/// one of the two leaves the host's queue, or is answered, the other is
/// cancelled if it is still in the host's queue (or still waits for the delay).
/// Without a delay and with room in both drives that is the same as cloning;
/// with any delay and room in the home drive it is the same as doing nothing.
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
        turn.send(turn.home(), turn.now(), Why::Chosen);
        if let Some(other) = turn.untried() {
            turn.send(other, turn.now() + self.delay, Why::Duplicate);
        }
    }

    fn begun(&mut self, turn: &mut Turn<'_>, replica: Replica) {
        turn.cancel_others(replica);
    }

    fn answered(&mut self, turn: &mut Turn<'_>, replica: Replica) {
        turn.cancel_others(replica);
    }
}
