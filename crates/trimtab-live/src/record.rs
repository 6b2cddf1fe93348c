//! Recording every request that real block devices serve.
//!
//! ```text
//!   block_io_start ─┐ kernel                                  user space
//!   block_rq_issue ─┼─ table of requests ── on completion: ring of events ─┐
//!   …_complete ─────┘      │                                               │
//!                          └─ oldest on its way ──> watermark ─> sort ─────┴─> Records
//! ```
//!
//! The kernel sends one event per request, when it ends. User space brings
//! them into order of arrival: it looks into the kernel's table for the oldest
//! request still on its way, and releases what arrived before that.
//!
//! A recording's life is a chain of types: [`Recorder::load`] verifies and
//! attaches the programs, [`Recorder::start`] makes a [`Recording`], and
//! [`Recording::stop`] ends it and tells what was lost. Dropping any of them
//! detaches and unloads the programs; so does the kernel if the process dies.
//!
//! ```no_run
//! use std::time::Duration;
//! use trimtab_live::record::{BlockDevice, Options, Recorder};
//!
//! # fn main() -> Result<(), trimtab_live::record::Error> {
//! let disk = BlockDevice::find("nvme0n1")?;
//! let mut recording = Recorder::load(&[disk], &Options::default())?.start();
//! let mut records = Vec::new();
//! for _ in 0..100 {
//!     std::thread::sleep(Duration::from_millis(10));
//!     recording.poll(&mut records)?;
//! }
//! let outcome = recording.stop(Duration::from_secs(5), |rest, _| {
//!     records.extend_from_slice(rest);
//!     Ok::<_, trimtab_live::record::Error>(())
//! })?;
//! assert_eq!(outcome.losses.total(), 0);
//! # Ok(())
//! # }
//! ```

mod abi;
mod device;
mod error;
mod identity;
pub(crate) mod overhead;
mod recorder;
mod recording;
mod ring;
mod table;
mod unseen;

pub use device::{BlockDevice, DeviceStat, OpStat};
pub use error::Error;
pub use overhead::{Handler, Overhead};
pub use recorder::{Arrival, Options, Recorder};
pub use recording::{Losses, Outcome, Recording};

/// Whether this process may record, and the kernel has what that takes: to be asked before
/// anything long that leads to it.
///
/// # Errors
/// As [`Recorder::load`], but for what only loading the programs shows.
pub fn check() -> Result<(), Error> {
    crate::bpf::check_privilege()?;
    crate::bpf::available(Arrival::Auto).map(drop)
}
