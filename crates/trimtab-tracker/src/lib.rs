//! The state tracker: the BPF programs that keep each drive's state current.
//!
//! [`StateTracker::load`] attaches the programs; they stay as long as it lives. It gives a
//! [`LiveDrive`](trimtab_state::LiveDrive) to its own process, and [`StateTracker::pin`]
//! makes the memory available to all others, which can read it and not write it: only
//! programs can. User space, the tracker too, can neither by a call nor by a mapping. (A
//! process that may load BPF programs, root for one, could load one that does.) The memory
//! holds figures only: single requests, their places and the kernel's addresses are in maps
//! of the programs' own.
//!
//! ```no_run
//! use trimtab_block::BlockDevice;
//! use trimtab_tracker::{StateTracker, TrackerOptions};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let model = trimtab_predict::Model::load("nvme0n1.model".as_ref())?;
//! let devices = [BlockDevice::find("nvme0n1")?];
//! let mut tracker = StateTracker::load(&devices, &TrackerOptions::default())?;
//! tracker.set_functions(0, model.trained.functions())?;
//! tracker.pin("/sys/fs/bpf/trimtab".as_ref())?;
//! # Ok(())
//! # }
//! ```
//!
//! # Deciding in the kernel
//!
//! If asked to ([`TrackerOptions::in_kernel`]), the kernel decides by LinnOS's network (Hao
//! et al., OSDI'20, §4.3) itself, after each change and for two
//! [`SizeClass`](trimtab_state::SizeClass)es of reads, so that a decision is one memory
//! load. It costs every request more than two microseconds of the machine's time, whether a
//! program asks or not (docs/measurements), where user space needs a tenth of one for each
//! decision that it does make: it is for programs that cannot decide themselves.
//!
//! ```no_run
//! use trimtab_block::BlockDevice;
//! use trimtab_io::monotonic;
//! use trimtab_predict::Verdict;
//! use trimtab_state::SizeClass;
//! use trimtab_tracker::{StateTracker, TrackerOptions};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let model = trimtab_predict::Model::load("linnos.model".as_ref())?;
//! let options = TrackerOptions { in_kernel: true, ..TrackerOptions::default() };
//! let tracker = StateTracker::load(&[BlockDevice::find("nvme0n1")?], &options)?;
//! tracker.set_network(0, Some(&model.trained))?;
//! let drive = tracker.drive(0)?;
//! let is_late = drive.verdict(SizeClass::of(4096)) == Some(Verdict::Late);
//! if is_late && drive.is_fresh(monotonic()) {
//!     // Ask another drive.
//! }
//! # Ok(())
//! # }
//! ```

mod abi;
mod bpf_mount;
mod calls;
mod error;
mod housekeeping;
mod log;
mod network;
mod pins;
mod staging;
mod tracker;

#[doc(hidden)]
pub use calls::InjectedEvent;
pub use error::Error;
pub use log::{Act, Extent, Step};
pub use tracker::{StateTracker, TrackerOptions};

use std::time::Duration;

/// How long the kernel may be writing while something is to be changed: a write takes some
/// microseconds at most, but its processor may be taken away.
const PATIENCE: Duration = Duration::from_secs(1);
