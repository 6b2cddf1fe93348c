//! The host queues before the drives, and the requests in flight.

use std::collections::VecDeque;

use trimtab_io::{Nanos, Op, Outcome, Request};

use super::backend::{Backend, Completed};
use crate::in_flight::InFlightTable;
use crate::replica::Replica;

/// One request as a drive saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// When it entered the host queue.
    pub arrival: Nanos,
    /// When the drive took it; none if it was cancelled before.
    pub issue: Option<Nanos>,
    /// When it completed; none after a cancellation or an error.
    pub complete: Option<Nanos>,
    /// What it did.
    pub op: Op,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
}

/// Host queues before the drives of a [`Backend`], first come, first served, and the table
/// of the requests in flight. `P` is what the driver remembers of a request.
///
/// This layer is independent of reads and strategies: the driver of parity arrays uses it with
/// another `P`.
#[derive(Debug)]
pub struct HostQueues<P> {
    queues: Vec<VecDeque<u32>>,
    in_flight: InFlightTable<InFlight<P>>,
    /// By drive, in the order of arrival; empty if nothing is logged.
    log: Vec<Vec<LogEntry>>,
}

/// A request in a host queue or on a drive.
#[derive(Clone, Copy, Debug)]
pub struct InFlight<P> {
    /// The drive.
    pub drive: Replica,
    /// When it entered the host queue.
    pub sent: Nanos,
    /// What the driver remembers of it.
    pub purpose: P,
    /// What it does.
    pub request: Request,
    /// Its row in the drive's log.
    row: u32,
}

impl<P: Copy> HostQueues<P> {
    /// Empty queues before this many drives.
    #[must_use]
    pub fn new(drives: usize, log: bool) -> Self {
        Self {
            queues: vec![VecDeque::new(); drives],
            in_flight: InFlightTable::default(),
            log: vec![Vec::new(); if log { drives } else { 0 }],
        }
    }

    /// Whether no request is queued or on a drive.
    #[must_use]
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// Requests queued or on a drive.
    #[must_use]
    #[inline]
    pub const fn len(&self) -> usize {
        self.in_flight.len()
    }

    /// What each drive was sent, in order of arrival; empty if nothing is logged.
    #[must_use]
    pub fn into_log(self) -> Vec<Vec<LogEntry>> {
        self.log
    }

    /// Queues a request; returns whether it is the only one in its queue.
    #[inline]
    pub fn push(&mut self, now: Nanos, drive: Replica, request: Request, purpose: P) -> bool {
        let mut row = 0;
        if let Some(log) = self.log.get_mut(drive.index()) {
            row = log.len() as u32;
            let Request { op, offset, length, .. } = request;
            log.push(LogEntry { arrival: now, issue: None, complete: None, op, offset, length });
        }
        let slot = self.in_flight.insert(InFlight { drive, sent: now, purpose, request, row });
        let queue = &mut self.queues[drive.index()];
        queue.push_back(slot);
        queue.len() == 1
    }

    /// Submits the first request of a drive's queue if the drive has room; returns its
    /// purpose.
    ///
    /// # Errors
    /// The drive does not take the request.
    #[inline]
    pub fn issue<B: Backend>(
        &mut self,
        now: Nanos,
        drive: Replica,
        backend: &mut B,
    ) -> Result<Option<P>, B::Error> {
        if !backend.has_room(drive) {
            return Ok(None);
        }
        let Some(slot) = self.queues[drive.index()].pop_front() else { return Ok(None) };
        let InFlight { purpose, request, row, .. } = &self.in_flight[slot];
        backend.submit(drive, slot, request)?;
        if let Some(log) = self.log.get_mut(drive.index()) {
            log[*row as usize].issue = Some(now);
        }
        Ok(Some(*purpose))
    }

    /// Takes a completed request out of the table.
    #[inline]
    pub fn complete(&mut self, now: Nanos, completed: Completed) -> &InFlight<P> {
        let Completed { slot, outcome } = completed;
        self.in_flight.remove(slot);
        let request = &self.in_flight[slot];
        if let Some(log) = self.log.get_mut(request.drive.index())
            && outcome != Outcome::Error
        {
            log[request.row as usize].complete = Some(now);
        }
        request
    }

    /// Takes the first request that fits out of a drive's queue; returns whether there was
    /// one. A request that the drive has cannot be taken back.
    pub fn cancel(&mut self, drive: Replica, fits: impl Fn(&P) -> bool) -> bool {
        self.take_back(drive, (Nanos::ZERO, Nanos::MAX), fits).is_some()
    }

    /// The same of requests that were queued between two times, both included: in long queues the
    /// others cost no time. Returns the request.
    pub fn take_back(
        &mut self,
        drive: Replica,
        (first, last): (Nanos, Nanos),
        fits: impl Fn(&P) -> bool,
    ) -> Option<&InFlight<P>> {
        let (queue, in_flight) = (&mut self.queues[drive.index()], &mut self.in_flight);
        // Queues are in the order of time.
        let from = queue.partition_point(|&slot| in_flight[slot].sent < first);
        let queued = queue.range(from..).take_while(|&&slot| in_flight[slot].sent <= last);
        let place = from + { queued }.position(|&slot| fits(&in_flight[slot].purpose))?;
        let slot = queue.remove(place)?;
        in_flight.remove(slot);
        Some(&in_flight[slot])
    }

    /// The request of this slot, which is queued or on a drive.
    #[must_use]
    #[inline]
    pub fn get(&self, slot: u32) -> &InFlight<P> {
        &self.in_flight[slot]
    }

    /// The slot of a request to a drive whose purpose fits, queued or on the drive.
    pub fn find(&self, drive: Replica, fits: impl Fn(&P) -> bool) -> Option<u32> {
        self.in_flight.find(|request| request.drive == drive && fits(&request.purpose))
    }

    /// Forgets a request that was taken back from its drive.
    pub fn taken_back(&mut self, slot: u32) {
        self.in_flight.remove(slot);
    }

    /// The requests in a drive's queue, in order.
    pub fn queued(&self, drive: Replica) -> impl Iterator<Item = &Request> {
        self.queues[drive.index()].iter().map(|&slot| &self.in_flight[slot].request)
    }
}
