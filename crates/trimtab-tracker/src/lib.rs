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
//!
//! # Design
//!
//! - **Sent means arrived**, because recordings, from which predictors learn, call it that: a
//!   request that waits in the scheduler is in flight. What merging adds to a request counts
//!   from its issue; a recording has the final size from the beginning.
//! - **Handlers never block on the drive lock.** The kernel's spin lock for BPF allows no call
//!   under it, and a lock of our own cannot keep interrupts away. A handler that fails to take
//!   the lock appends its event to a 64-entry queue, which the holder drains, up to 64 events,
//!   before it applies newer ones. The lock word is the readers' sequence count. Clocks are
//!   read before the lock; an event that is older than the last counts as simultaneous.
//! - **A drive is two values:** the part that every process may read, and the requests in
//!   flight. Two look-ups for each event, an index with a mask for the rest. A request has one
//!   cache line, found by its address, because cache lines are the cost.
//! - **The lock holder is not preempted.** Calls from user space that take the lock are raw
//!   tracepoint programs, for which the kernel disables preemption. Units are cleared without
//!   the lock, while none are told apart.
//! - **Only programs write the drives' memory.** The map is frozen, so every user may open it.
//!   A socket that hands out the memory would need a process that answers.
//! - **The kernel decides outside the drive's lock.** It copies nine numbers as readers do; the
//!   network has a lock of its own. A decision carries the sequence count of its state. Sums
//!   follow the digits that changed, two neurons in a word: exact, because they cannot
//!   overflow.
//! - **Lost completions are found in three ways:** the kernel reuses the request's structure;
//!   the request is in flight for a minute; the drive is quiet, and the kernel counts nothing
//!   in flight.
//! - **Drives are found by a hash table without collisions**, in one cache line for any number
//!   of drives (bpf/devices.h). A drive takes 1.06 MB of kernel memory, nearly all of it the
//!   3 × 4,096 units.

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
