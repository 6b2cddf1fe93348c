//! The state tracker: the BPF programs that keep each drive's state current.
//!
//! [`StateTracker::load`] attaches the programs; they stay attached until it is dropped. It
//! returns a [`LiveDrive`](trimtab_state::LiveDrive) to its own process, and
//! [`StateTracker::pin`] makes the memory readable for all others. Only BPF programs can write
//! it: user space, including the tracker, can do so neither by a call nor by a mapping. (A
//! process that may load BPF programs, such as root's, could load one that does.) The memory
//! holds figures only: single requests, their offsets and the kernel's addresses are in
//! private maps of the programs.
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
//! If enabled ([`TrackerOptions::in_kernel`]), the kernel evaluates LinnOS's network (Hao et
//! al., OSDI'20, §4.3) itself, after each change and for two
//! [`SizeClass`](trimtab_state::SizeClass)es of reads, so that a decision is one memory load.
//! It costs every request more than two microseconds of the machine's time, even if no program
//! reads the decision (docs/measurements). User space needs a tenth of a microsecond for each
//! decision that it makes, so this is for programs that cannot evaluate a model themselves.
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
//! - **Sent means arrived**, as in the recordings that predictors are trained on: a request
//!   that waits in the scheduler is in flight. The growth of a request by merging counts from
//!   its issue; a recording has the final size from the beginning.
//! - **Handlers never block on the drive lock.** The kernel's spin lock for BPF allows no call
//!   while it is held, and a custom lock cannot disable interrupts. A handler that fails to
//!   take the lock appends its event to a 64-entry queue, which the holder drains, up to 64
//!   events, before it applies newer ones. The lock word is the readers' sequence count.
//!   Clocks are read before the lock; an event that is older than the last counts as
//!   simultaneous.
//! - **A drive is two values:** the part that every process may read, and the requests in
//!   flight. Each event takes two look-ups, and masked indices for the rest. A request has one
//!   cache line, found by its address, because cache lines dominate the cost.
//! - **The lock holder is not preempted.** Calls from user space that take the lock are raw
//!   tracepoint programs, for which the kernel disables preemption. Units are cleared without
//!   the lock, while no unit functions are set.
//! - **Only programs write the drives' memory.** The map is frozen, so every user may open it.
//!   A socket that hands out the memory would need a process that serves it.
//! - **The kernel decides outside the drive's lock.** It copies nine numbers as readers do;
//!   the network has a separate lock. A decision carries the sequence count of its state. Sums
//!   are updated by the digits that changed, two neurons in a word: exact, because they cannot
//!   overflow.
//! - **Lost completions are detected in three ways:** the kernel reuses the request's
//!   structure; the request is in flight for a minute; the drive is quiet, and the kernel
//!   counts nothing in flight.
//! - **Drives are found by a hash table without collisions**, in one cache line for any number
//!   of drives (bpf/devices.h). A drive takes 1.06 MB of kernel memory, nearly all of it the 3
//!   × 4,096 units.

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

/// How long to retry a change while the kernel writes the state: a write takes some
/// microseconds, but its processor may be descheduled by a hypervisor.
const PATIENCE: Duration = Duration::from_secs(1);
