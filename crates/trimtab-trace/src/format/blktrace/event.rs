//! Block-layer events, common to the binary and the text format.

use trimtab_io::{DeviceId, Flags, Nanos, Op};

/// Event types. Readers skip plugging, remapping, sleeping and the like: they do not affect
/// requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::format) enum Action {
    /// `Q`: a bio was handed to the block layer.
    Queue,
    /// `M`: a bio, or a whole request, was appended to another request.
    BackMerge,
    /// `F`: a bio was put in front of a request.
    FrontMerge,
    /// `G`: a bio got a request of its own.
    GetRequest,
    /// `I`: a request went to the scheduler.
    Insert,
    /// `D`: a request went to the driver.
    Issue,
    /// `R`: the driver sent a request back, to be issued again.
    Requeue,
    /// `C`: a request, or a part of it, is done.
    Complete,
    /// `X`: a bio was cut; the event gives the part that goes ahead.
    Split,
}

impl Action {
    /// The action for blkparse's letter; `None` for skipped ones.
    pub(in crate::format) const fn from_letter(letter: u8) -> Option<Self> {
        Some(match letter {
            b'Q' => Self::Queue,
            b'M' => Self::BackMerge,
            b'F' => Self::FrontMerge,
            b'G' => Self::GetRequest,
            b'I' => Self::Insert,
            b'D' => Self::Issue,
            b'R' => Self::Requeue,
            b'C' => Self::Complete,
            b'X' => Self::Split,
            _ => return None,
        })
    }

    /// Whether it happens in the submitting process, so that its pid is the submitter's. Later
    /// events happen in any context.
    pub(in crate::format) const fn tells_submitter(self) -> bool {
        matches!(self, Self::Queue | Self::GetRequest)
    }
}

/// 32 bytes, because a window of them is held back for sorting.
#[derive(Clone, Copy, Debug)]
pub(in crate::format) struct Event {
    pub(in crate::format) time: Nanos,
    /// First byte; undefined if `bytes` is 0.
    pub(in crate::format) offset: u64,
    pub(in crate::format) bytes: u32,
    pub(in crate::format) pid: u32,
    pub(in crate::format) device: DeviceId,
    /// Of the bio or request, and [`Flags::ERROR`] of a completion.
    pub(in crate::format) flags: Flags,
    /// [`Op::Flush`] for the request that flushes the drive's cache. The empty write by which a
    /// file system requests that is an [`Op::Write`] of no bytes with [`Flags::PREFLUSH`].
    pub(in crate::format) op: Op,
    pub(in crate::format) action: Action,
}

impl Event {
    /// The first byte after it.
    pub(in crate::format) const fn end(&self) -> u64 {
        self.offset + self.bytes as u64
    }
}

/// Bytes per sector, whatever the drive's own sectors are.
pub(in crate::format) const SECTOR: u64 = 512;
