//! What becomes of a read, and the pair that it may be.

use trimtab_io::{Nanos, RequestId};

use crate::question::Question;
use crate::replica::Replica;

/// What becomes of a read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Decision {
    /// Where it goes.
    pub(crate) to: Replica,
    /// Why there.
    pub(crate) by: Choice,
    /// The question that the read answers if it is a pair, and the replicas of the first and the
    /// second alternative, one of which is `to`.
    pub(crate) rival: Option<([Replica; 2], Question)>,
    /// What the pair costs, in usual reads.
    pub(crate) weight: f64,
}

/// By which alternative a replica was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// It is the primary.
    Stay,
    /// Its queue is the shortest.
    Queue,
    /// The forecast.
    Forecast,
}

/// A read that was sent to two replicas.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair {
    pub(crate) read: RequestId,
    pub(crate) question: Question,
    pub(crate) arrival: Nanos,
    pub(crate) primary: Replica,
    /// The replicas of the first and of the second alternative.
    pub(crate) sides: [Replica; 2],
    /// The longest difference that counts.
    pub(crate) clip: Nanos,
    /// The latency of a side that is not sent because the other has completed the read before.
    pub(crate) unsent: Nanos,
    /// What half of the reads take less than.
    pub(crate) typical: Nanos,
    /// What a move costs other reads, ns.
    pub(crate) toll: f64,
    /// The latency of either side, once known.
    pub(crate) took: [Option<Nanos>; 2],
}
