//! What comes out: actions, to be carried out in their order.

use trimtab_io::{Nanos, Outcome, RequestId};

use crate::replica::Replica;

/// One request to one drive on behalf of a read: each drive has at most one of
/// each read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    pub(crate) slot: u32,
    /// The drive that is asked.
    pub replica: Replica,
}

impl Attempt {
    /// As a number, for a driver that has room for no more.
    #[must_use]
    pub const fn to_u64(self) -> u64 {
        (self.slot as u64) << 8 | self.replica.0 as u64
    }

    /// The one that became this number.
    #[must_use]
    pub const fn from_u64(number: u64) -> Self {
        Self { slot: (number >> 8) as u32, replica: Replica(number as u8) }
    }
}

/// Names a timer when its time has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timer {
    pub(crate) slot: u32,
    /// Tells the read from others that have used its slot.
    pub(crate) generation: u32,
    /// The strategy's own mark.
    pub(crate) purpose: u8,
}

/// Why a drive is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The strategy chose it, and predicts nothing.
    Chosen,
    /// A predictor said that it would be fast.
    Fast,
    /// All were predicted to be late, and someone must be asked.
    LeastBad,
    /// Another drive has been asked and has not answered yet.
    Duplicate,
    /// To hear how a drive is that has been refused for a while.
    Probe,
    /// Another drive has failed, or refused.
    Retry,
}

/// Something to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Ask a drive: call [`Steering::send`](crate::Steering::send) at this time,
    /// and submit what that returns.
    Send {
        /// What to call it.
        attempt: Attempt,
        /// When: later than now by what deciding costs.
        at: Nanos,
        /// Why.
        why: Why,
    },
    /// Take an attempt back if the drive does not have it yet, and tell
    /// [`Steering::cancelled`](crate::Steering::cancelled); otherwise do nothing.
    Cancel(Attempt),
    /// Call [`Steering::timer`](crate::Steering::timer) at this time.
    Timer {
        /// When.
        at: Nanos,
        /// What to say then.
        timer: Timer,
    },
    /// The user has the answer now. There is exactly one for each read.
    Answer {
        /// The read.
        read: RequestId,
        /// Done, or an error if every replica failed.
        outcome: Outcome,
    },
    /// For the record: a predictor decided against a drive.
    Refused {
        /// The read.
        read: RequestId,
        /// The drive.
        replica: Replica,
    },
}

/// A buffer for actions, owned by the driver and used again and again.
pub type Actions = Vec<Action>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_is_its_number() {
        for (slot, replica) in [(0, 0), (7, 3), (u32::MAX, 7)] {
            let attempt = Attempt { slot, replica: Replica(replica) };
            assert_eq!(Attempt::from_u64(attempt.to_u64()), attempt);
        }
    }
}
