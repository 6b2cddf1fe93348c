//! What is known of each drive, always current, whoever uses it.
//!
//! ```text
//!   block tracepoints ─> bpf/state.bpf.c ─> DriveState, Units   (mapped memory)
//!                                                  │
//!               any process that may read it:  LiveDrive::look ─> features ─> Forecast
//! ```
//!
//! The kernel keeps the very numbers that [`trimtab_predict::DriveTracker`] keeps in
//! simulation and training, for every request of the machine, and forecasts are
//! made from them by the same code. Reading them is no system call and takes some
//! ten nanoseconds.
//!
//! [`Keeper::load`] attaches the programs; they stay as long as it lives. It gives
//! a [`LiveDrive`] to its own process, and [`Keeper::pin`] makes the memory
//! available to all others ([`LiveDrive::open`]), who can read it and not write it:
//! only programs can, and user space, the keeper too, can neither by a call nor by a
//! mapping. (Whoever may load BPF programs, root for one, could load one that does.)
//! It has figures only: single requests, their places and the kernel's addresses are in
//! memory of the programs' own.
//! Whoever reads asks [`LiveDrive::is_fresh`] too: if the keeper is gone the numbers
//! stand still, and nothing may be concluded from them.
//!
//! ```no_run
//! use trimtab_io::{DeviceId, Flags, Nanos, Op, Request, RequestId};
//! use trimtab_live::record::BlockDevice;
//! use trimtab_live::state::{self, Keeper, Options};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let model = trimtab_predict::Model::load("nvme0n1.model".as_ref())?;
//! let mut keeper = Keeper::load(&[BlockDevice::find("nvme0n1")?], &Options::default())?;
//! keeper.set_functions(0, model.trained.functions())?;
//! let drive = keeper.drive(0)?;
//! let request = Request {
//!     id: RequestId(0),
//!     device: DeviceId(0),
//!     arrival: Nanos::ZERO,
//!     op: Op::Read,
//!     offset: 4096,
//!     length: 4096,
//!     flags: Flags::empty(),
//!     deadline: None,
//! };
//! let now = state::now();
//! if drive.is_fresh(now) {
//!     let forecast = drive.forecast(&model.trained, now, &request);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Deciding in the kernel
//!
//! If asked to ([`Options::in_kernel`]), the kernel decides by LinnOS's network (Hao et
//! al., OSDI'20, §4.3) itself, after each change and for two [`SizeClass`]es of reads,
//! so that a decision is one memory load. It costs every request more than two
//! microseconds of the machine's time, whether anyone asks or not (docs/measurements.md
//! has the figures), where user space needs a tenth of one per decision that it does
//! make: it is for what cannot decide itself.
//!
//! ```no_run
//! use trimtab_live::record::BlockDevice;
//! use trimtab_live::state::{self, Keeper, Options, SizeClass};
//! use trimtab_predict::Verdict;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let model = trimtab_predict::Model::load("linnos.model".as_ref())?;
//! let options = Options { in_kernel: true, ..Options::default() };
//! let keeper = Keeper::load(&[BlockDevice::find("nvme0n1")?], &options)?;
//! keeper.set_network(0, Some(&model.trained))?;
//! let drive = keeper.drive(0)?;
//! let is_late = drive.verdict(SizeClass::of(4096)) == Some(Verdict::Late);
//! if is_late && drive.is_fresh(state::now()) {
//!     // Ask another drive.
//! }
//! # Ok(())
//! # }
//! ```

mod abi;
mod calls;
mod desk;
mod drive;
mod keeper;
mod log;
mod network;
mod pin_place;
mod pins;
mod tend;

pub use abi::Counters;
#[doc(hidden)]
pub use calls::Pretended;
pub use drive::{LiveDrive, Look};
pub use keeper::{Keeper, Options};
pub use log::{Act, Extent, Step};
pub use network::SizeClass;

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use trimtab_io::Nanos;

/// How long the kernel may be writing while something is to be changed: a write takes
/// some microseconds at most, but its processor may be taken away.
const PATIENCE: Duration = Duration::from_secs(1);

/// The time on the kernel's clock, `CLOCK_MONOTONIC`.
#[must_use]
pub fn now() -> Nanos {
    let now = clock_gettime(ClockId::Monotonic);
    Nanos(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
}
