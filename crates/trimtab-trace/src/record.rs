//! A record of a trace.

use trimtab_io::{Completion, DeviceId, Flags, Issuer, Nanos, Op, Outcome, Request, RequestId};

use crate::names::CommandId;

/// A request of a trace, with its outcome as far as it was measured.
///
/// Its fields are the columns of the native format (docs/trace-format.md). Device and command are
/// numbers; the trace's [`Names`](crate::Names) holds the texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// When the request arrived at the block layer, on the trace's clock.
    pub arrival: Nanos,
    /// When it was first sent to the drive, if measured.
    pub issue: Option<Nanos>,
    /// When the drive had completed it, if measured.
    pub complete: Option<Nanos>,
    /// First byte on the device.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// The device.
    pub device: DeviceId,
    /// The submitting process, if known.
    pub pid: Option<u32>,
    /// The submitting process's name, if known.
    pub command: Option<CommandId>,
    /// Flags; the same bits as in [`Request`].
    pub flags: Flags,
    /// The operation.
    pub op: Op,
}

impl Record {
    /// A record without measured times except its arrival.
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

    /// Arrival to completion, if measured.
    #[must_use]
    pub fn response_time(&self) -> Option<Nanos> {
        self.complete.map(|at| at.since(self.arrival))
    }

    /// Issue to completion, if both were measured.
    #[must_use]
    pub fn service_time(&self) -> Option<Nanos> {
        Some(self.complete?.since(self.issue?))
    }

    /// Enforces arrival ≤ issue ≤ completion, where slightly different CPU clocks violate it: later
    /// events are moved later.
    pub(crate) fn enforce_time_order(&mut self) {
        self.issue = self.issue.map(|at| at.max(self.arrival));
        let sent = self.issue.unwrap_or(self.arrival);
        self.complete = self.complete.map(|at| at.max(sent));
    }

    /// The first byte after the request.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.offset.saturating_add(self.length)
    }

    /// The record as a [`Request`].
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
            issuer: Issuer::of_process(0),
        }
    }

    /// Its completion, if measured. A missing issue time is replaced by the arrival.
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
