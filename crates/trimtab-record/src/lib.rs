//! The recorder: every request that real block devices serve.
//!
//! ```text
//!   block_io_start ─┐ kernel                                  user space
//!   block_rq_issue ─┼─ table of requests ── on completion: ring of events ─┐
//!   …_complete ─────┘      │                                               │
//!                          └─ oldest in flight ──> watermark ─> sort ─────┴─> Records
//! ```
//!
//! The kernel sends one event per request, at its completion. User space sorts the events by
//! arrival: it scans the kernel's table for the oldest request still in flight, and releases
//! what arrived before that.
//!
//! A recording's life is a chain of types: [`Recorder::load`] verifies and attaches the
//! programs, [`Recorder::start`] makes a [`Recording`], and [`Recording::stop`] ends it and
//! reports losses. Dropping any of them detaches and unloads the programs; the kernel does so
//! if the process dies.
//!
//! ```no_run
//! use std::time::Duration;
//! use trimtab_block::BlockDevice;
//! use trimtab_record::{Recorder, RecorderOptions};
//!
//! # fn main() -> Result<(), trimtab_record::Error> {
//! let disk = BlockDevice::find("nvme0n1")?;
//! let mut recording = Recorder::load(&[disk], &RecorderOptions::default())?.start();
//! let mut records = Vec::new();
//! for _ in 0..100 {
//!     std::thread::sleep(Duration::from_millis(10));
//!     recording.poll(&mut records)?;
//! }
//! let outcome = recording.stop(Duration::from_secs(5), |rest, _| {
//!     records.extend_from_slice(rest);
//!     Ok::<_, trimtab_record::Error>(())
//! })?;
//! assert_eq!(outcome.losses.total(), 0);
//! # Ok(())
//! # }
//! ```
//!
//! [`monitor`] turns the recorder's stream into rates, latencies and scores of models, while
//! drives are in use.
//!
//! # Design
//!
//! - **A trace's rows are the requests that the drive was sent.** Merged bios are one row. A
//!   flush command is a row; requests that merely wait for it are counted (`empty_flushes`).
//!   The kernel's own statistics count those as writes of no bytes, so both can be compared
//!   exactly, and a test does.
//! - **One event per request, its state in a shared table.** Three events per request would
//!   triple the cost and the losses under pressure. A slot is one cache line, because a
//!   request mostly completes on another CPU than the one it was submitted on.
//! - **A dedicated ring.** Two counters and a memory-mapped array cost only their stores; the
//!   kernel's ring buffer for BPF takes a lock and wakes the reader, which costs as much as
//!   the rest of the completion handler (docs/measurements/recording.md).
//! - **Two completion handlers where they may be needed.** The kernel skips a BPF program that
//!   is already running on the same CPU, so an interrupt during the handler would lose its
//!   completion. A second handler takes over; it is attached only for devices whose
//!   completions can interrupt each other.
//! - **The monitor uses the recorder's stream, not the tracked state.** The state shows only
//!   the present; scoring a forecast takes every read with its completion.

pub mod monitor;

mod abi;
mod error;
mod recorder;
mod recording;
mod ring;
mod table;
mod unseen;

pub use error::Error;
pub use recorder::{Recorder, RecorderOptions};
pub use recording::{Losses, Outcome, Recording};

use trimtab_bpf::Arrival;

/// Checks that this process may record and that the kernel has the tracepoints. Call it before
/// a long preparation that leads to a recording.
///
/// # Errors
/// As [`Recorder::load`], except for errors that only loading the programs reveals.
pub fn check() -> Result<(), Error> {
    trimtab_bpf::check_privilege()?;
    trimtab_bpf::available(Arrival::Auto)?;
    Ok(())
}
