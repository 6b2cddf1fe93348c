//! What the driver drives.

use trimtab_device::{Error, Served, Ssd, SsdStats};
use trimtab_io::{Nanos, Request};

/// Something that serves requests in virtual time: a drive, or whatever is made
/// of drives.
///
/// It is a state machine. Time only moves when the driver says so, and what
/// happens depends on nothing but what it was given. The driver is compiled for
/// each kind of server, so no call is an indirect one.
pub trait Server {
    /// Bytes that it holds.
    fn capacity(&self) -> u64;

    /// Takes a request at time `now`; all that happens up to then happens first.
    ///
    /// # Errors
    /// The request reaches beyond the end, or `now` is in the past.
    fn submit(&mut self, now: Nanos, request: &Request) -> Result<(), Error>;

    /// Says that a request for this place will be submitted soon. It may make
    /// the simulation faster, and changes nothing else.
    fn expect(&mut self, offset: u64) {
        _ = offset;
    }

    /// When something will happen next, if nothing is submitted before.
    fn next_event(&self) -> Option<Nanos>;

    /// Lets time pass: all that happens up to and including `until`.
    fn advance(&mut self, until: Nanos);

    /// Lets time pass until a request completes, or something else happens, at
    /// most up to and including `until`; returns the time that has come.
    fn advance_to_answer(&mut self, until: Nanos) -> Nanos {
        let at = self.next_event().map_or(until, |at| at.min(until));
        self.advance(at);
        at
    }

    /// Hands over the completions since the last call, in order of time.
    fn drain(&mut self, take: impl FnMut(&Served));

    /// What has been going on inside, for reports. What a server does not count
    /// stays zero.
    fn study(&self) -> SsdStats {
        SsdStats::default()
    }
}

impl Server for Ssd {
    fn capacity(&self) -> u64 {
        self.capacity()
    }

    #[inline]
    fn submit(&mut self, now: Nanos, request: &Request) -> Result<(), Error> {
        self.submit(now, request)
    }

    #[inline]
    fn expect(&mut self, offset: u64) {
        self.prefetch(offset);
    }

    #[inline]
    fn next_event(&self) -> Option<Nanos> {
        self.next_event()
    }

    #[inline]
    fn advance(&mut self, until: Nanos) {
        self.advance(until);
    }

    #[inline]
    fn advance_to_answer(&mut self, until: Nanos) -> Nanos {
        self.advance_to_answer(until)
    }

    #[inline]
    fn drain(&mut self, take: impl FnMut(&Served)) {
        self.drain(take);
    }

    fn study(&self) -> SsdStats {
        self.stats()
    }
}
