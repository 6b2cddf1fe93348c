//! A drive with what its host has above it.

use trimtab_device::Drive;

use crate::cached::Cached;
use crate::scheduled::MaybeScheduled;
use crate::server::one_of;

/// A drive below its host's I/O scheduler and page cache, where it has any.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "there are as many as a simulation has devices")]
pub enum HostedDrive {
    /// Without a page cache.
    Uncached(MaybeScheduled<Drive>),
    /// Below a page cache.
    Cached(Box<Cached<MaybeScheduled<Drive>>>),
}

impl HostedDrive {
    /// The drive, to be changed from outside.
    pub const fn drive_mut(&mut self) -> &mut Drive {
        match self {
            Self::Uncached(scheduled) => scheduled.device_mut(),
            Self::Cached(cached) => cached.server_mut().device_mut(),
        }
    }
}

one_of!(HostedDrive, [Uncached, Cached]);
