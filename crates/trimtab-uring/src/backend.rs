//! The back end: a ring, queue depths, and forced samples.

use std::ops::ControlFlow;

use trimtab_io::{LatencyHistogram, Nanos, Request};
use trimtab_steer::Replica;
use trimtab_steer::driver::{ArrayIo, Backend, Completed, Wake};

use crate::ring::Ring;
use crate::{Disk, Error};

/// How often progress is reported.
const REPORT_EVERY: Nanos = Nanos::from_millis(200);

/// Disks behind a ring.
pub(super) struct UringBackend<'a> {
    ring: Ring,
    slots: Vec<QueueSlots>,
    /// The time of the event that is being handled.
    now: Nanos,
    /// The completion that the driver has not taken yet.
    pending: Option<Completed>,
    /// Times that a drive was refused.
    refusals: u64,
    sample_every: u64,
    lateness: LatencyHistogram,
    progress: &'a mut dyn FnMut(Nanos) -> ControlFlow<()>,
    reported: Nanos,
}

/// A disk's queue depth, and the part of it that is in use.
struct QueueSlots {
    depth: u32,
    used: u32,
}

impl<'a> UringBackend<'a> {
    /// Starts the clock.
    pub(super) fn new(
        disks: &[Disk],
        largest: Option<&ArrayIo>,
        sample_every: u32,
        progress: &'a mut dyn FnMut(Nanos) -> ControlFlow<()>,
    ) -> Result<Self, Error> {
        let slots = |disk: &Disk| QueueSlots { depth: disk.depth.max(1), used: 0 };
        let mut backend = Self {
            ring: Ring::new(disks, largest)?,
            slots: disks.iter().map(slots).collect(),
            now: Nanos::ZERO,
            pending: None,
            refusals: 0,
            sample_every: sample_every.into(),
            lateness: LatencyHistogram::new(),
            progress,
            reported: Nanos::ZERO,
        };
        backend.ring.begin();
        Ok(backend)
    }

    /// How late requests were handed out, and how long the run took.
    pub(super) fn finish(self) -> (LatencyHistogram, Nanos) {
        (self.lateness, self.now)
    }

    fn report_progress(&mut self) -> Result<(), Error> {
        if self.now.since(self.reported) < REPORT_EVERY {
            return Ok(());
        }
        self.reported = self.now;
        match (self.progress)(self.now) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Error::Ended),
        }
    }
}

impl Backend for UringBackend<'_> {
    type Error = Error;

    fn drives(&self) -> usize {
        self.slots.len()
    }

    fn now(&self) -> Nanos {
        self.now
    }

    fn wait(&mut self, until: Nanos) -> Result<Wake, Error> {
        self.report_progress()?;
        // Completions first: the next decision must use them.
        let taken = self.ring.take();
        self.now = self.ring.now();
        if let Some((drive, completed)) = taken {
            self.slots[drive.index()].used -= 1;
            self.pending = Some(completed);
            return Ok(Wake::Drive(drive));
        }
        if until <= self.now {
            return Ok(Wake::Due);
        }
        self.ring.wait(until.min(self.now + REPORT_EVERY))?;
        Ok(Wake::Idle)
    }

    fn completion(&mut self, _: Replica) -> Option<Completed> {
        self.pending.take()
    }

    fn has_room(&self, drive: Replica) -> bool {
        let QueueSlots { depth, used } = self.slots[drive.index()];
        used < depth
    }

    fn submit(&mut self, drive: Replica, slot: u32, request: &Request) -> Result<(), Error> {
        self.ring.submit(drive, slot, request)?;
        self.slots[drive.index()].used += 1;
        Ok(())
    }

    fn handed_out(&mut self, due: Nanos) {
        self.lateness.record(self.now.since(due));
    }

    /// Real drives cannot be copied: one in `sample_every` refused reads is sent.
    fn sample_refusal<'q>(
        &mut self,
        _: Replica,
        _: &Request,
        _: impl Iterator<Item = &'q Request>,
    ) -> bool {
        self.refusals += 1;
        self.sample_every != 0 && self.refusals.is_multiple_of(self.sample_every)
    }
}
