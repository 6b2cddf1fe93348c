//! What is known of a drive at a moment: plain numbers, whoever keeps them.
//!
//! [`Watch`](crate::Watch) keeps a [`DriveState`] as it is told of requests and
//! answers: in simulation, and in training. On a running machine the kernel
//! keeps the same (bpf/state.bpf.c), in memory that is mapped here. What is
//! decided by, [`DriveState::features`], is one and the same code for both. The
//! layout is that of `struct st_drive` and `struct st_unit` in bpf/state.h: no
//! padding, and any bits are a value.

mod features;
mod unit;
mod window;

use trimtab_io::Nanos;

pub use features::{FEATURE_NAMES, FEATURES};
pub use unit::Unit;
pub use window::Window;

pub(crate) use features::ticks;

/// Lengths of the windows, as powers of two in nanoseconds: 1.05 ms and 34 ms.
pub const WINDOWS: [u32; 2] = [20, 25];

/// Answers that are remembered.
pub const HISTORY: usize = 4;

/// What is known of a drive as a whole.
///
/// Times are on the clock of whoever keeps it (`CLOCK_MONOTONIC`, where that is
/// the kernel). "Answered" is an answer that brought its data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct DriveState {
    /// The drive as one unit.
    pub whole: Unit,
    /// Bytes written so far: of all writes that were sent.
    pub written: u64,
    /// When a write was answered last.
    pub last_write_done: Nanos,
    /// How long that write took.
    pub last_write_latency: Nanos,
    /// When anything was sent last.
    pub last_sent: Nanos,
    /// The last time that reads did not come back.
    pub stall: Stall,
    /// The last time that nothing was sent.
    pub rest: Rest,
    /// When the oldest read in flight was sent; it means nothing if there is none
    /// (`whole.reads` is 0).
    pub oldest_read: Nanos,
    /// When the oldest in flight of what is no read was sent; 0: there is none.
    pub oldest_other: Nanos,
    /// Bytes of the reads in flight.
    pub read_bytes: u64,
    /// Bytes of the writes in flight.
    pub write_bytes: u64,
    /// Requests in flight, of all kinds.
    pub requests: u32,
    /// 4 KiB pages in flight, of reads and writes.
    pub pages: u32,
    /// The latencies of the reads that were answered last, the latest first.
    pub latencies: [Nanos; HISTORY],
    /// KiB written, by when it was sent; for each of the [`WINDOWS`].
    pub bytes_written: [Window; WINDOWS.len()],
    /// Reads answered.
    pub reads_answered: [Window; WINDOWS.len()],
    /// Their latencies, in ticks of 1024 ns.
    pub read_latencies: [Window; WINDOWS.len()],
    /// The reads and writes that were answered last, the latest first.
    pub history: [Answered; HISTORY],
    /// Zero.
    pub reserved: [u64; 2],
}

/// The last time that reads did not come back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Stall {
    /// When it was over.
    pub ended: Nanos,
    /// How long none had come back.
    pub length: Nanos,
    /// What had been written to the drive when it ended, bytes.
    pub written: u64,
}

/// The last time that nothing was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Rest {
    /// When it was over.
    pub ended: Nanos,
    /// What had been written to the drive when it ended, bytes.
    pub written: u64,
}

/// An answer that came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Answered {
    /// How long it took.
    pub latency: Nanos,
    /// 4 KiB pages that had been in flight when it was sent, with its own.
    pub pages_then: u32,
    /// Requests that had been in flight then, without it.
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
