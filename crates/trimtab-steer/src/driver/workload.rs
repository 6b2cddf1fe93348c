//! What drivers of an array have in common, in virtual time and on the wall clock:
//! what they are given to do, what they have yet to do, and what came of it.

mod agenda;
mod figures;

pub use agenda::{Agenda, Todo};
pub use figures::{ArrayFigures, HomeFigures, Judged};

use trimtab_io::{DeviceId, Flags, Nanos, Op, Request, RequestId};

use crate::random::Random;
use crate::replica::{Order, Replica};

/// A request of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrayIo {
    /// When it comes.
    pub at: Nanos,
    /// What it does.
    pub op: Op,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// The drive whose workload it is of.
    pub home: Replica,
}

impl ArrayIo {
    /// The request under this name.
    #[must_use]
    pub const fn request(&self, id: RequestId) -> Request {
        Request {
            id,
            device: DeviceId(self.home.0 as u32),
            arrival: self.at,
            op: self.op,
            offset: self.offset,
            length: self.length,
            flags: Flags::empty(),
            deadline: None,
        }
    }

    /// The order in which a read under this name fails over among so many drives.
    /// It depends on nothing but the seed and the name, so it is the same for all
    /// strategies.
    #[must_use]
    pub fn order(&self, id: RequestId, drives: usize, seed: u64) -> Order {
        // Any number that is the read's own will do.
        let random = Random::new(seed ^ (id.0 << 1)).next();
        Order::shuffled(self.home, drives, random)
    }
}
