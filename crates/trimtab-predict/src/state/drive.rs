//! The state of a drive as a whole.

use trimtab_io::Nanos;
use zerocopy::FromBytes;

use super::unit::Unit;
use super::window::Window;

/// Lengths of the windows, as powers of two in nanoseconds: 1.05 ms and 34 ms.
pub const WINDOWS: [u32; 2] = [20, 25];

/// Completed requests that are remembered.
pub const HISTORY: usize = 4;

/// The state of a drive as a whole.
///
/// Times are on the tracker's clock (`CLOCK_MONOTONIC` where the kernel tracks). A request
/// counts as completed if its completion brought data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes)]
#[repr(C)]
pub struct DriveState {
    /// The drive as one unit.
    pub whole: Unit,
    /// Bytes written so far: of all writes that were sent.
    pub written: u64,
    /// When a write completed last.
    pub last_write_done: Nanos,
    /// How long that write took.
    pub last_write_latency: Nanos,
    /// When anything was sent last.
    pub last_sent: Nanos,
    /// The last stall.
    pub stall: Stall,
    /// The last idle period.
    pub rest: Rest,
    /// When the oldest read in flight was sent; undefined while there is none
    /// (`whole.reads` is 0).
    pub oldest_read: Nanos,
    /// When the oldest request in flight other than a read was sent; 0: there is none.
    pub oldest_other: Nanos,
    /// Bytes of the reads in flight.
    pub read_bytes: u64,
    /// Bytes of the writes in flight.
    pub write_bytes: u64,
    /// Requests in flight, of all kinds.
    pub requests: u32,
    /// 4 KiB pages in flight, of reads and writes.
    pub pages: u32,
    /// The latencies of the reads that completed last, the latest first.
    pub latencies: [Nanos; HISTORY],
    /// KiB written, by the time of submission, in each of the [`WINDOWS`].
    pub bytes_written: [Window; WINDOWS.len()],
    /// Reads completed.
    pub reads_completed: [Window; WINDOWS.len()],
    /// Their latencies, in ticks of 1024 ns.
    pub read_latencies: [Window; WINDOWS.len()],
    /// The reads and writes that completed last, the latest first.
    pub history: [CompletedIo; HISTORY],
    /// Zero.
    pub reserved: [u64; 2],
}

/// A stall: a period in which no read completed although several were in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes)]
#[repr(C)]
pub struct Stall {
    /// When it ended.
    pub ended: Nanos,
    /// How long no read had completed.
    pub length: Nanos,
    /// Bytes written to the drive by the time it ended.
    pub written: u64,
}

/// An idle period: nothing was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes)]
#[repr(C)]
pub struct Rest {
    /// When it ended.
    pub ended: Nanos,
    /// Bytes written to the drive by the time it ended.
    pub written: u64,
}

/// A completed read or write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes)]
#[repr(C)]
pub struct CompletedIo {
    /// Its latency.
    pub latency: Nanos,
    /// 4 KiB pages in flight when it was sent, its own included.
    pub pages_then: u32,
    /// Requests in flight when it was sent, without it.
    pub queue_then: u32,
}

// As bpf/state.h asserts it of the kernel's side.
const _: () = {
    assert!(size_of::<DriveState>() == 384 && align_of::<DriveState>() == 64);
    assert!(std::mem::offset_of!(DriveState, written) == 64);
    assert!(std::mem::offset_of!(DriveState, oldest_read) == 136);
    assert!(std::mem::offset_of!(DriveState, latencies) == 176);
    assert!(std::mem::offset_of!(DriveState, bytes_written) == 208);
    assert!(std::mem::offset_of!(DriveState, history) == 304);
};
