//! The interface between a driver and the drives.

use trimtab_io::{HostEvent, Nanos, Outcome, Request};

use crate::replica::Replica;

/// Drives and a clock.
///
/// A back end serves requests to drives, each with a limited queue depth, and waits. It is
/// independent of reads and strategies: a request is a drive, a slot number and a [`Request`],
/// and its completion is the slot number and an [`Outcome`]. So a driver that makes several
/// member reads of one read (a parity array) can use the same back ends.
///
/// The driver calls it from one thread. It is compiled for each back end, so the methods
/// of the hot path ([`wait`](Self::wait), [`completion`](Self::completion),
/// [`has_room`](Self::has_room), [`submit`](Self::submit)) are direct calls.
pub trait Backend {
    /// Why the back end cannot go on.
    type Error;

    /// The number of drives.
    fn drives(&self) -> usize;

    /// The current time. It does not advance between two calls of [`wait`](Self::wait), so all
    /// effects of one event happen at one time.
    fn now(&self) -> Nanos;

    /// Waits for the first of two: a drive may have completions, or `until` comes
    /// ([`Nanos::MAX`]: nothing is due). Completions go first at the same time.
    ///
    /// # Errors
    /// The drives have failed, or nothing will ever happen.
    fn wait(&mut self, until: Nanos) -> Result<Wake, Self::Error>;

    /// The next completion of a drive that [`wait`](Self::wait) has named, or that was
    /// just sent a request, if there is one.
    fn completion(&mut self, drive: Replica) -> Option<Completed>;

    /// Whether a drive takes another request now.
    fn has_room(&self, drive: Replica) -> bool;

    /// Submits a request under its slot number to a drive that has room.
    ///
    /// # Errors
    /// The drive does not take the request.
    fn submit(&mut self, drive: Replica, slot: u32, request: &Request) -> Result<(), Self::Error>;

    /// A request at this offset arrives at the drive soon. A hint, which may make the back
    /// end faster and changes nothing else.
    #[inline]
    fn expect(&mut self, drive: Replica, offset: u64) {
        _ = (drive, offset);
    }

    /// A request of the workload that was due at this time is being handed out.
    #[inline]
    fn handed_out(&mut self, due: Nanos) {
        _ = due;
    }

    /// Whether the drive's own work (cleaning, say) delayed the request whose completion was taken
    /// last. Only a simulation knows; it is for analysis.
    #[inline]
    fn was_delayed(&self) -> bool {
        false
    }

    /// A predictor has refused this read of a drive. Its host may bring the data into memory.
    ///
    /// # Errors
    /// The drive has failed.
    #[inline]
    fn refused(&mut self, drive: Replica, request: &Request) -> Result<(), Self::Error> {
        _ = (drive, request);
        Ok(())
    }

    /// A predictor has refused this read of a drive whose host queue holds `queued`. A back
    /// end that can determine how the read would have performed does so now and returns false.
    /// Otherwise it returns true, and the driver sends the read as a forced sample that no
    /// read waits for.
    fn sample_refusal<'q>(
        &mut self,
        drive: Replica,
        request: &Request,
        queued: impl Iterator<Item = &'q Request>,
    ) -> bool {
        _ = (drive, request, queued);
        false
    }

    /// Takes back a request that its drive's scheduler still holds. False if it holds it no more;
    /// real schedulers take nothing back.
    fn take_back(&mut self, drive: Replica, slot: u32) -> bool {
        _ = (drive, slot);
        false
    }

    /// Hands over the requests that drives have got from their schedulers since the last call, if
    /// these tell it: by slot.
    #[inline]
    fn dispatches(&mut self, take: impl FnMut(u32)) {
        _ = take;
    }

    /// Hands over what the hosts of drives have learnt beside requests, since the last
    /// call: by drive, and in order of time for each.
    #[inline]
    fn host_events(&mut self, take: impl FnMut(Replica, HostEvent)) {
        _ = take;
    }
}

/// Why [`Backend::wait`] has returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// This drive may have completions.
    Drive(Replica),
    /// The time has come.
    Due,
    /// Neither: wait again.
    Idle,
}

/// The end of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completed {
    /// The slot number under which it was submitted.
    pub slot: u32,
    /// How it ended.
    pub outcome: Outcome,
}

impl<B: Backend> Backend for &mut B {
    type Error = B::Error;

    #[inline]
    fn drives(&self) -> usize {
        (**self).drives()
    }

    #[inline]
    fn now(&self) -> Nanos {
        (**self).now()
    }

    #[inline]
    fn wait(&mut self, until: Nanos) -> Result<Wake, Self::Error> {
        (**self).wait(until)
    }

    #[inline]
    fn completion(&mut self, drive: Replica) -> Option<Completed> {
        (**self).completion(drive)
    }

    #[inline]
    fn has_room(&self, drive: Replica) -> bool {
        (**self).has_room(drive)
    }

    #[inline]
    fn submit(&mut self, drive: Replica, slot: u32, request: &Request) -> Result<(), Self::Error> {
        (**self).submit(drive, slot, request)
    }

    #[inline]
    fn expect(&mut self, drive: Replica, offset: u64) {
        (**self).expect(drive, offset);
    }

    #[inline]
    fn handed_out(&mut self, due: Nanos) {
        (**self).handed_out(due);
    }

    #[inline]
    fn was_delayed(&self) -> bool {
        (**self).was_delayed()
    }

    #[inline]
    fn sample_refusal<'q>(
        &mut self,
        drive: Replica,
        request: &Request,
        queued: impl Iterator<Item = &'q Request>,
    ) -> bool {
        (**self).sample_refusal(drive, request, queued)
    }

    #[inline]
    fn refused(&mut self, drive: Replica, request: &Request) -> Result<(), Self::Error> {
        (**self).refused(drive, request)
    }

    fn take_back(&mut self, drive: Replica, slot: u32) -> bool {
        (**self).take_back(drive, slot)
    }

    #[inline]
    fn dispatches(&mut self, take: impl FnMut(u32)) {
        (**self).dispatches(take);
    }

    #[inline]
    fn host_events(&mut self, take: impl FnMut(Replica, HostEvent)) {
        (**self).host_events(take);
    }
}
