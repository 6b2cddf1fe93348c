//! A back end with a write buffer before its drives.

use std::collections::VecDeque;

use trimtab_io::{Nanos, Request};
use trimtab_steer::Replica;
use trimtab_steer::driver::{Backend, Completed, Wake};

use crate::members::Member;
use crate::staging::{Staging, StagingAction};

/// Drives behind a [`Staging`]: to the driver of an array it is drives that acknowledge writes fast.
/// An array without a buffer does not use it, and pays nothing.
#[derive(Debug)]
pub struct Staged<B> {
    backend: B,
    staging: Staging,
    /// By member, completions that the driver has not taken, and whether the drive's own work
    /// delayed them.
    ready: Vec<VecDeque<(Completed, bool)>>,
    /// How many these are.
    untaken: usize,
    was_delayed: bool,
}

impl<B: Backend> Staged<B> {
    /// An empty buffer before drives.
    pub fn new(backend: B, staging: Staging) -> Self {
        let ready = vec![VecDeque::new(); backend.drives()];
        Self { backend, staging, ready, untaken: 0, was_delayed: false }
    }

    /// The drives.
    pub const fn backend(&mut self) -> &mut B {
        &mut self.backend
    }

    /// The buffer.
    pub const fn staging(&self) -> &Staging {
        &self.staging
    }

    /// The drives and the buffer.
    #[must_use]
    pub fn into_parts(self) -> (B, Staging) {
        (self.backend, self.staging)
    }

    /// Carries out the buffer's actions. `delayed`: about the completion that caused them.
    fn act(&mut self, delayed: bool) -> Result<(), B::Error> {
        while let Some(action) = self.staging.next_action() {
            match action {
                StagingAction::Send(member, ticket, request) => {
                    self.backend.submit(Replica(member.0), ticket, &request)?;
                }
                StagingAction::Answer { member, slot, outcome, .. } => {
                    self.untaken += 1;
                    self.ready[member.index()].push_back((Completed { slot, outcome }, delayed));
                }
                StagingAction::Store { .. } | StagingAction::Free(_) => {}
            }
        }
        Ok(())
    }

    /// Hands the completions of a drive to the buffer.
    fn settle(&mut self, drive: Replica) -> Result<(), B::Error> {
        while let Some(Completed { slot, outcome }) = self.backend.completion(drive) {
            let delayed = self.backend.was_delayed();
            self.staging.ended(self.backend.now(), slot, outcome);
            self.act(delayed)?;
        }
        Ok(())
    }

    /// Writes to the drives what they have room for.
    fn destage(&mut self) -> Result<(), B::Error> {
        for member in 0..self.ready.len() as u8 {
            let drive = Replica(member);
            while self.backend.has_room(drive)
                && self.staging.destage(self.backend.now(), Member(member))
            {
                self.act(false)?;
                // Some requests complete at once.
                self.settle(drive)?;
            }
        }
        Ok(())
    }

    fn first_ready(&self) -> Option<Wake> {
        let drive = self.ready.iter().position(|ready| !ready.is_empty())?;
        Some(Wake::Drive(Replica(drive as u8)))
    }
}

impl<B: Backend> Backend for Staged<B> {
    type Error = B::Error;

    fn drives(&self) -> usize {
        self.backend.drives()
    }

    #[inline]
    fn now(&self) -> Nanos {
        self.backend.now()
    }

    fn wait(&mut self, until: Nanos) -> Result<Wake, B::Error> {
        if self.untaken > 0
            && let Some(ready) = self.first_ready()
        {
            return Ok(ready);
        }
        let wake = self.backend.wait(until.min(self.staging.next_event()))?;
        if let Wake::Drive(drive) = wake {
            self.settle(drive)?;
        }
        let now = self.backend.now();
        self.staging.advance(now);
        self.act(false)?;
        self.destage()?;
        Ok(match wake {
            // There may be room, even if nothing is ready.
            Wake::Drive(_) => wake,
            _ if self.untaken > 0 => self.first_ready().unwrap_or(Wake::Idle),
            _ if now >= until => Wake::Due,
            _ => Wake::Idle,
        })
    }

    #[inline]
    fn completion(&mut self, drive: Replica) -> Option<Completed> {
        let (completed, delayed) = self.ready[drive.index()].pop_front()?;
        self.untaken -= 1;
        self.was_delayed = delayed;
        Some(completed)
    }

    #[inline]
    fn has_room(&self, drive: Replica) -> bool {
        self.backend.has_room(drive)
    }

    fn submit(&mut self, drive: Replica, slot: u32, request: &Request) -> Result<(), B::Error> {
        self.staging.submit(self.backend.now(), Member(drive.0), slot, request);
        self.act(false)?;
        // Some requests complete at once.
        self.settle(drive)?;
        self.destage()
    }

    #[inline]
    fn expect(&mut self, drive: Replica, offset: u64) {
        self.backend.expect(drive, offset);
    }

    #[inline]
    fn was_delayed(&self) -> bool {
        self.was_delayed
    }
}
