//! Actions that a strategy requests, executed in order.

use trimtab_io::{Nanos, Outcome, RequestId};

use crate::replica::Replica;

/// One request to one replica on behalf of a read. A read has at most one attempt at
/// each replica at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    pub(crate) slot: u32,
    /// The replica that is asked.
    pub replica: Replica,
}

impl Attempt {
    /// Converts the attempt to a number, for drivers that can carry only a number.
    #[must_use]
    pub const fn to_u64(self) -> u64 {
        (self.slot as u64) << 8 | self.replica.0 as u64
    }

    /// The attempt of this number.
    #[must_use]
    pub const fn from_u64(number: u64) -> Self {
        Self { slot: (number >> 8) as u32, replica: Replica(number as u8) }
    }
}

/// Identifies a timer when it expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timer {
    pub(crate) slot: u32,
    /// Distinguishes the read from earlier ones in its slot.
    pub(crate) generation: u32,
    /// The strategy's own mark.
    pub(crate) purpose: u8,
}

impl Timer {
    /// The purpose of a timer that the driver's caller keeps, such as the read's own deadline.
    pub const EXTERNAL: u8 = u8::MAX;
}

/// Why a replica is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The strategy chose it without a prediction.
    Chosen,
    /// A predictor forecast a fast read.
    Fast,
    /// All replicas were predicted late; this one is the least late.
    LeastBad,
    /// Another replica has been asked and has not completed yet.
    Duplicate,
    /// A probe of a replica that has been avoided for a while.
    Probe,
    /// Another replica has failed or refused.
    Retry,
}

/// Something for the driver to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Ask a replica: call [`Steering::send`](crate::Steering::send) at this time,
    /// and submit the request that it returns.
    Send {
        /// The attempt.
        attempt: Attempt,
        /// When: now, plus the cost of the decision.
        at: Nanos,
        /// The reason.
        reason: Reason,
    },
    /// Take an attempt back if it still waits in the host queue, and call
    /// [`Steering::cancelled`](crate::Steering::cancelled). Otherwise do nothing.
    Cancel(Attempt),
    /// Call [`Steering::timer`](crate::Steering::timer) at this time.
    Timer {
        /// When.
        at: Nanos,
        /// The timer to pass.
        timer: Timer,
    },
    /// The read is complete. Each read gets exactly one of these.
    Complete {
        /// The read.
        read: RequestId,
        /// Done, or an error if every replica failed.
        outcome: Outcome,
    },
    /// A predictor decided against a replica. For statistics and forced samples.
    Refused {
        /// The read.
        read: RequestId,
        /// The replica.
        replica: Replica,
    },
}

/// A buffer for actions, owned by the driver and reused.
pub type Actions = Vec<Action>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_survive_conversion_to_numbers() {
        for (slot, replica) in [(0, 0), (7, 3), (u32::MAX, 7)] {
            let attempt = Attempt { slot, replica: Replica(replica) };
            assert_eq!(Attempt::from_u64(attempt.to_u64()), attempt);
        }
    }
}
