//! The state of each drive right now, always current, for every process.
//!
//! ```text
//!   block tracepoints ─> bpf/state.bpf.c ─> DriveState, Units   (mapped memory)
//!                                                  │
//!               any process that may read it:  LiveDrive::snapshot ─> features ─> Forecast
//! ```
//!
//! The kernel's programs update the same numbers that [`trimtab_predict::DriveTracker`]
//! updates in simulation and training, for every request of the machine, and the same code
//! makes forecasts from them. Reading takes some tens of nanoseconds and no system call.
//!
//! The state tracker (crate `trimtab-tracker`) attaches the programs. This crate is the
//! reader: it needs no libbpf, and no privilege except to open the pinned map, which it cannot
//! change. A reader must also check [`LiveDrive::is_fresh`]: if the tracker has ended, the
//! numbers no longer change and must not be used.
//!
//! # A consistent copy
//!
//! `seq` is the drive's lock word and its sequence count (a seqlock: Hemminger, "fast reader/
//! writer lock for gettimeofday", Linux 2.5.60). A program makes it odd while it writes. A
//! reader takes a copy between two loads of the same even value, and otherwise tries again;
//! after 128 tries [`StateSnapshot::is_consistent`] is false.
//!
//! ```no_run
//! use trimtab_block::BlockDevice;
//! use trimtab_io::{DeviceId, Flags, Issuer, Nanos, Op, Request, RequestId, monotonic};
//! use trimtab_state::LiveDrive;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // A state tracker has pinned it: `trimtab watch nvme0n1 --pin /sys/fs/bpf/trimtab`.
//! let device = BlockDevice::find("nvme0n1")?;
//! let drive = LiveDrive::open("/sys/fs/bpf/trimtab".as_ref(), &device)?;
//! let model = trimtab_predict::Model::load("nvme0n1.model".as_ref())?;
//! let request = Request {
//!     id: RequestId(0),
//!     device: DeviceId(0),
//!     arrival: Nanos::ZERO,
//!     op: Op::Read,
//!     offset: 4096,
//!     length: 4096,
//!     flags: Flags::empty(),
//!     deadline: None,
//!     issuer: Issuer::of_process(0),
//! };
//! let now = monotonic();
//! if drive.is_fresh(now) {
//!     let forecast = drive.forecast(&model.trained, now, &request);
//! }
//! # Ok(())
//! # }
//! ```

pub mod abi;

mod drive;
mod error;
mod memory;
mod snapshot;
mod verdict;

pub use abi::Counters;
pub use drive::LiveDrive;
pub use error::Error;
pub use memory::{PIN_NAME, StateMemory};
pub use snapshot::StateSnapshot;
pub use verdict::SizeClass;
