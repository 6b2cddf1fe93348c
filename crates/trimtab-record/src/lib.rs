//! The recorder: every request that real block devices serve.
//!
//! ```text
//!   block_io_start ─┐ kernel                                  user space
//!   block_rq_issue ─┼─ table of requests ── on completion: ring of events ─┐
//!   …_complete ─────┘      │                                               │
//!                          └─ oldest in flight ──> watermark ─> sort ─────┴─> Records
//! ```
//!
//! The kernel sends one event per request, when it ends. User space brings
//! them into order of arrival: it looks into the kernel's table for the oldest
//! request still in flight, and releases what arrived before that.
//!
//! A recording's life is a chain of types: [`Recorder::load`] verifies and
//! attaches the programs, [`Recorder::start`] makes a [`Recording`], and
//! [`Recording::stop`] ends it and tells what was lost. Dropping any of them
//! detaches and unloads the programs; so does the kernel if the process dies.
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

/// Checks that this process may record and that the kernel has the tracepoints: to be asked
/// before anything long that leads to a recording.
///
/// # Errors
/// As [`Recorder::load`], except for what only loading the programs shows.
pub fn check() -> Result<(), Error> {
    trimtab_bpf::check_privilege()?;
    trimtab_bpf::available(Arrival::Auto)?;
    Ok(())
}
