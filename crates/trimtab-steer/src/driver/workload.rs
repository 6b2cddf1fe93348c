//! The workload of a driver.

use trimtab_io::{DeviceId, Flags, Nanos, Op, Request, RequestId, SplitMix64};

use crate::replica::{Order, Replica};

/// A request of an array's workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrayIo {
    /// When it arrives.
    pub at: Nanos,
    /// What it does.
    pub op: Op,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// Its primary replica: the drive that its workload belongs to.
    pub primary: Replica,
}

impl ArrayIo {
    /// The request under this identifier.
    #[must_use]
    pub const fn request(&self, id: RequestId) -> Request {
        Request {
            id,
            device: DeviceId(self.primary.0 as u32),
            arrival: self.at,
            op: self.op,
            offset: self.offset,
            length: self.length,
            flags: Flags::empty(),
            deadline: None,
        }
    }

    /// The order in which a read with this identifier fails over among `replicas`
    /// replicas. It depends on the seed and the identifier only, so it is the same under
    /// all strategies.
    #[must_use]
    pub fn order(&self, id: RequestId, replicas: usize, seed: u64) -> Order {
        // Any number unique to the read suffices.
        let random = SplitMix64::new(seed ^ (id.0 << 1)).next();
        Order::shuffled(self.primary, replicas, random)
    }
}
