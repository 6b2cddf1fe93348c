//! A drive with what its host has above it.

use trimtab_device::{Drive, Error, Served, SsdStats};
use trimtab_io::{HostEvent, Nanos, Request, RequestId};

use crate::cached::Cached;
use crate::scheduled::{Dispatch, MaybeScheduled};
use crate::server::Server;

/// A drive below its host's I/O scheduler and page cache, where it has any.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "there are as many as a simulation has devices")]
pub enum HostedDrive {
    /// Without a page cache.
    Uncached(MaybeScheduled<Drive>),
    /// Below a page cache.
    Cached(Box<Cached<MaybeScheduled<Drive>>>),
}

/// Calls a method of the server that it is.
macro_rules! each {
    ($self:expr, $server:ident => $call:expr) => {
        match $self {
            Self::Uncached($server) => $call,
            Self::Cached($server) => $call,
        }
    };
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

impl Server for HostedDrive {
    fn capacity(&self) -> u64 {
        each!(self, server => server.capacity())
    }

    #[inline]
    fn now(&self) -> Nanos {
        each!(self, server => server.now())
    }

    #[inline]
    fn in_flight(&self) -> usize {
        each!(self, server => server.in_flight())
    }

    #[inline]
    fn submit(&mut self, now: Nanos, request: &Request) -> Result<(), Error> {
        each!(self, server => server.submit(now, request))
    }

    #[inline]
    fn expect(&mut self, offset: u64) {
        each!(self, server => server.expect(offset));
    }

    #[inline]
    fn next_event(&self) -> Option<Nanos> {
        each!(self, server => server.next_event())
    }

    #[inline]
    fn advance(&mut self, until: Nanos) {
        each!(self, server => server.advance(until));
    }

    #[inline]
    fn advance_to_answer(&mut self, until: Nanos) -> Nanos {
        each!(self, server => server.advance_to_answer(until))
    }

    #[inline]
    fn drain(&mut self, take: impl FnMut(&Served)) {
        each!(self, server => server.drain(take));
    }

    #[inline]
    fn cancel(&mut self, id: RequestId) -> bool {
        each!(self, server => server.cancel(id))
    }

    #[inline]
    fn take_dispatches(&mut self, take: impl FnMut(Dispatch)) {
        each!(self, server => server.take_dispatches(take));
    }

    fn tell_dispatches(&mut self) -> bool {
        each!(self, server => server.tell_dispatches())
    }

    fn tells_events(&self) -> bool {
        each!(self, server => server.tells_events())
    }

    #[inline]
    fn take_host_events(&mut self, take: impl FnMut(HostEvent)) {
        each!(self, server => server.take_host_events(take));
    }

    fn refused(&mut self, now: Nanos, request: &Request) -> Result<(), Error> {
        each!(self, server => server.refused(now, request))
    }

    fn study(&self) -> SsdStats {
        each!(self, server => server.study())
    }
}
