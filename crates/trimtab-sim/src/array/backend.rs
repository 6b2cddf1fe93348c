//! The back end of the driver: drives in virtual time.

use trimtab_io::{HostEvent, Nanos, Request, RequestId};
use trimtab_steer::Replica;
use trimtab_steer::driver::{Backend, Completed, DecisionScore, Wake};

use super::ArrayDrive;
use super::sampler::Sampler;
use crate::error::Error;
use crate::server::Server;
use crate::source::NEVER;

/// Simulated drives with a common clock.
pub(crate) struct Simulated<'a, S> {
    pub(crate) drives: Vec<ArrayDrive<S>>,
    now: Nanos,
    /// Completions of the current drive, each with whether its own work delayed it, and how many of
    /// them have been taken.
    completed: Vec<(Completed, bool)>,
    taken: usize,
    /// The thresholds by which samples of refused reads are scored.
    thresholds: Option<&'a [Nanos]>,
    sampler: Sampler,
    /// Whether any drive tells its internal operations.
    open: bool,
    /// Whether any drive tells what its scheduler dispatches.
    tells_dispatches: bool,
}

impl<'a, S: Server + Clone> Simulated<'a, S> {
    /// Samples are taken if there are thresholds.
    pub(crate) fn new(
        drives: Vec<ArrayDrive<S>>,
        thresholds: Option<&'a [Nanos]>,
        sampler: Sampler,
    ) -> Self {
        let now = drives.iter().map(|drive| drive.server.now()).max().unwrap_or_default();
        let open = drives.iter().any(|drive| drive.server.tells_events());
        let tells_dispatches = drives.iter().any(ArrayDrive::tells_dispatches);
        let completed = Vec::new();
        Self { drives, now, completed, taken: 0, thresholds, sampler, open, tells_dispatches }
    }

    /// Adds the samples of refused reads.
    pub(super) fn add_samples(&self, score: &mut DecisionScore) {
        score.sampled = self.sampler.count();
        score.false_revokes = self.sampler.fast();
    }

    /// A drive has requests, and no event of any drive will complete them.
    fn stuck(&self) -> Error {
        let in_flight = ArrayDrive::<S>::in_flight;
        let stuck = self.drives.iter().position(|drive| in_flight(drive) > 0);
        Error::Stuck {
            device: stuck.unwrap_or_default().to_string(),
            at: self.now,
            in_flight: self.drives.iter().map(in_flight).sum(),
        }
    }
}

impl<S: Server + Clone> Backend for Simulated<'_, S> {
    type Error = Error;

    fn drives(&self) -> usize {
        self.drives.len()
    }

    #[inline]
    fn now(&self) -> Nanos {
        self.now
    }

    #[inline]
    fn wait(&mut self, until: Nanos) -> Result<Wake, Error> {
        // The drive with the earliest event, and the time of the earliest other event.
        let (mut first, mut at, mut other) = (0, NEVER, until);
        for (number, drive) in self.drives.iter().enumerate() {
            if drive.next() < at {
                (first, other) = (number, other.min(at));
                at = drive.next();
            } else {
                other = other.min(drive.next());
            }
        }
        if at <= until && at != NEVER {
            let drive = &mut self.drives[first];
            drive.advance(other);
            self.now = self.now.max(drive.server.now());
            return Ok(Wake::Drive(Replica(first as u8)));
        }
        if until == NEVER {
            return Err(self.stuck());
        }
        self.now = until;
        Ok(Wake::Due)
    }

    #[inline]
    fn completion(&mut self, drive: Replica) -> Option<Completed> {
        if self.taken == self.completed.len() {
            self.taken = 0;
            self.completed.clear();
            let completed = &mut self.completed;
            self.drives[drive.index()].drain(|request, outcome, delayed| {
                completed.push((Completed { slot: request.0 as u32, outcome }, delayed));
            });
        }
        let next = self.completed.get(self.taken).map(|(completed, _)| *completed);
        self.taken += usize::from(next.is_some());
        next
    }

    fn was_delayed(&self) -> bool {
        self.taken.checked_sub(1).is_some_and(|last| self.completed[last].1)
    }

    #[inline]
    fn has_room(&self, drive: Replica) -> bool {
        self.drives[drive.index()].has_room()
    }

    #[inline]
    fn submit(&mut self, drive: Replica, slot: u32, request: &Request) -> Result<(), Error> {
        let request = Request { id: RequestId(slot.into()), ..*request };
        let submitted = self.drives[drive.index()].submit(self.now, &request);
        submitted.map_err(|source| Error::Device { device: drive.index().to_string(), source })
    }

    #[inline]
    fn expect(&mut self, drive: Replica, offset: u64) {
        self.drives[drive.index()].server.expect(offset);
    }

    /// Some of the refused reads are served by a copy of the drive.
    fn sample_refusal<'q>(
        &mut self,
        drive: Replica,
        request: &Request,
        queued: impl Iterator<Item = &'q Request>,
    ) -> bool {
        if let Some(thresholds) = self.thresholds
            && self.sampler.is_due()
        {
            let drive_now = &self.drives[drive.index()];
            let took = drive_now.would_take(self.now, request, queued);
            let fast = took.is_some_and(|took| took <= thresholds[drive.index()]);
            self.sampler.add(fast);
        }
        false
    }

    fn refused(&mut self, drive: Replica, request: &Request) -> Result<(), Error> {
        let refused = self.drives[drive.index()].refused(self.now, request);
        refused.map_err(|source| Error::Device { device: drive.index().to_string(), source })
    }

    fn take_back(&mut self, drive: Replica, slot: u32) -> bool {
        self.drives[drive.index()].take_back(RequestId(slot.into()))
    }

    #[inline]
    fn dispatches(&mut self, mut take: impl FnMut(u32)) {
        if self.tells_dispatches {
            for drive in &mut self.drives {
                drive.server.take_dispatches(|dispatch| take(dispatch.request.0 as u32));
            }
        }
    }

    #[inline]
    fn host_events(&mut self, mut take: impl FnMut(Replica, HostEvent)) {
        if self.open {
            for (number, drive) in (0..).zip(&mut self.drives) {
                drive.server.take_host_events(|event| take(Replica(number), event));
            }
        }
    }
}
