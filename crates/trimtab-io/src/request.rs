//! Requests to a drive.

use std::fmt;

use bitflags::bitflags;
use serde::{Deserialize, Serialize};

use crate::{Issuer, Nanos};

/// Operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum Op {
    /// Data from the drive.
    Read = 0,
    /// Data to the drive (also writing zeroes and zone appends).
    Write = 1,
    /// The range's data is not needed any more (TRIM, UNMAP, DEALLOCATE).
    Discard = 2,
    /// Makes earlier writes durable: flushes the drive's volatile cache.
    Flush = 3,
}

impl Op {
    /// All operations, in listing order.
    pub const ALL: [Self; 4] = [Self::Read, Self::Write, Self::Discard, Self::Flush];

    /// The name in traces, tables and options.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Discard => "discard",
            Self::Flush => "flush",
        }
    }

    /// The plural of the name.
    #[must_use]
    pub const fn plural(self) -> &'static str {
        match self {
            Self::Read => "reads",
            Self::Write => "writes",
            Self::Discard => "discards",
            Self::Flush => "flushes",
        }
    }

    /// The operation with this number ([`Op::Read`] is 0), if there is one.
    #[must_use]
    pub const fn from_u8(n: u8) -> Option<Self> {
        match n {
            0 => Some(Self::Read),
            1 => Some(Self::Write),
            2 => Some(Self::Discard),
            3 => Some(Self::Flush),
            _ => None,
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

bitflags! {
    /// Properties of a request beyond its operation and range.
    ///
    /// The bits are part of the trace format (docs/trace-format.md): a bit never gets a new
    /// meaning.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Flags: u16 {
        /// A program waits for it: worth refusing early and reading elsewhere.
        const LATENCY_CRITICAL = 1 << 0;
        /// The submitter waits for it (the kernel's `REQ_SYNC`).
        const SYNC = 1 << 1;
        /// File-system metadata (`REQ_META`).
        const META = 1 << 2;
        /// Read-ahead; no program waits yet (`REQ_RAHEAD`).
        const READAHEAD = 1 << 3;
        /// Written through to the medium (`REQ_FUA`).
        const FUA = 1 << 4;
        /// Preceded by a flush of the drive's cache (`REQ_PREFLUSH`).
        const PREFLUSH = 1 << 5;
        /// Background work (`REQ_BACKGROUND`).
        const BACKGROUND = 1 << 6;
        /// Writes zeroes without sending them (`REQ_OP_WRITE_ZEROES`).
        const ZEROES = 1 << 7;
        /// Grew by merging between arrival and issue: covers several arrivals.
        const MERGED = 1 << 8;
        /// Requeued by the driver and issued again; the issue time is the first.
        const REQUEUED = 1 << 9;
        /// Completed in several parts; the completion time is the last.
        const PARTIAL = 1 << 10;
        /// Completed with an error.
        const ERROR = 1 << 11;
        /// Its arrival was not seen; the arrival time is that of its issue.
        const ARRIVAL_IS_ISSUE = 1 << 12;
    }
}

/// A device, as an index into a table of the context (a trace's device names, a simulation's
/// drives).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct DeviceId(pub u32);

/// A request's number, unique within one run.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct RequestId(pub u64);

/// A block I/O request at its arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Its number, which completions refer to.
    pub id: RequestId,
    /// Its device.
    pub device: DeviceId,
    /// When it arrived.
    pub arrival: Nanos,
    /// Its operation.
    pub op: Op,
    /// First byte on the device. Zero for a flush.
    pub offset: u64,
    /// Bytes. Zero for a flush.
    pub length: u64,
    /// Flags.
    pub flags: Flags,
    /// When its data becomes worthless, on the clock of `arrival`.
    pub deadline: Option<Nanos>,
    /// The process that issued it; for schedulers.
    pub issuer: Issuer,
}

impl Request {
    /// A request without flags or deadline, of process 0. To set these, use struct update syntax: `Request {
    /// flags, ..Request::new(…) }`.
    #[must_use]
    pub const fn new(
        id: RequestId,
        device: DeviceId,
        arrival: Nanos,
        op: Op,
        offset: u64,
        length: u64,
    ) -> Self {
        let flags = Flags::empty();
        let issuer = Issuer::of_process(0);
        Self { id, device, arrival, op, offset, length, flags, deadline: None, issuer }
    }

    /// The first byte after the request; saturates at the end of the address
    /// space.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.offset.saturating_add(self.length)
    }
}
