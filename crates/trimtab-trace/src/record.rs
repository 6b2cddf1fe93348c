//! One row of a trace.

use trimtab_io::{Completion, DeviceId, Flags, Nanos, Op, Outcome, Request, RequestId};

use crate::names::CommandId;

/// One request of a trace and what became of it, as far as was measured.
///
/// Its fields are the columns of the native format (docs/trace-format.md).
/// Device and command are numbers that the trace's [`Names`](crate::Names)
/// turn into text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// When the request arrived at the block layer, on the trace's clock.
    pub arrival: Nanos,
    /// When it was first sent to the drive, if that was measured.
    pub issue: Option<Nanos>,
    /// When the drive had answered it in full, if that was measured.
    pub complete: Option<Nanos>,
    /// First byte on the device.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// The device.
    pub device: DeviceId,
    /// The submitting process, where known.
    pub pid: Option<u32>,
    /// The submitting process's name, where known.
    pub command: Option<CommandId>,
    /// Marks; the same bits as in [`Request`].
    pub flags: Flags,
    /// What was asked.
    pub op: Op,
}

impl Record {
    /// A record of which only the request itself is known.
    #[must_use]
    pub const fn arriving(
        arrival: Nanos,
        device: DeviceId,
        op: Op,
        offset: u64,
        length: u64,
    ) -> Self {
        Self {
            arrival,
            issue: None,
            complete: None,
            offset,
            length,
            device,
            pid: None,
            command: None,
            flags: Flags::empty(),
            op,
        }
    }

    /// From arrival to completion, where that was measured.
    #[must_use]
    pub fn response_time(&self) -> Option<Nanos> {
        self.complete.map(|at| at.since(self.arrival))
    }

    /// From issue to completion, where both were measured.
    #[must_use]
    pub fn service_time(&self) -> Option<Nanos> {
        Some(self.complete?.since(self.issue?))
    }

    /// Makes arrival, issue and completion follow each other, where clocks of
    /// different CPUs have it otherwise by a little: what comes later happened
    /// no earlier.
    pub(crate) fn put_times_in_order(&mut self) {
        self.issue = self.issue.map(|at| at.max(self.arrival));
        let sent = self.issue.unwrap_or(self.arrival);
        self.complete = self.complete.map(|at| at.max(sent));
    }

    /// The first byte after the request.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.offset.saturating_add(self.length)
    }

    /// The request in the vocabulary of the rest of the house.
    #[must_use]
    pub const fn request(&self, id: RequestId) -> Request {
        Request {
            id,
            device: self.device,
            arrival: self.arrival,
            op: self.op,
            offset: self.offset,
            length: self.length,
            flags: self.flags,
            deadline: None,
        }
    }

    /// How it ended, where that was measured. An issue time that was not
    /// measured is taken to be the arrival.
    #[must_use]
    pub fn completion(&self, id: RequestId) -> Option<Completion> {
        Some(Completion {
            request: id,
            device: self.device,
            issue: self.issue.unwrap_or(self.arrival),
            complete: self.complete?,
            outcome: if self.flags.contains(Flags::ERROR) { Outcome::Error } else { Outcome::Done },
        })
    }
}
