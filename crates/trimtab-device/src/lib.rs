//! Models of drives, as plain state machines.
//!
//! A drive takes requests with a time, and returns completions with a time. It reads no clock,
//! starts no thread and draws random numbers from a seed, so the same code runs in virtual time and
//! behind an emulated block device. Times are whole nanoseconds and no order depends on a hash
//! table: a simulation gives the same bytes on any machine.
//!
//! - [`Ssd`] is a flash drive: channels, dies and planes, a mapping table, a write buffer, garbage
//!   collection and wear levelling (IODA, Li et al., describes this class of models;
//!   docs/device-profile.md names the source of each parameter).
//! - [`Disk`] is a disk: arm, spindle, zones, buffer and the device's queue; [`DiskTiming`] has its
//!   service times in closed form.
//! - [`Profile`] and [`DiskProfile`] describe them in TOML; [`DriveProfile`] is one or the other, and
//!   [`Drive`] a drive of either.
//! - [`Firmware`] makes its decisions replaceable: when to clean, which block, and how a blocked
//!   read proceeds. [`FirmwareKind`] names the published ones, for drives and for arrays of them;
//!   [`WindowController`] is the array's side of one.
//! - [`PageCache`] is the memory above a drive: its lists, readahead and eviction.
//! - [`scheduler`] models what decides which request a drive gets next: Linux's I/O schedulers.
//! - [`Faults`] make it stall, slow down or fail at given times.
//! - [`AgedState`] and [`Ssd::age`] start a drive in the state of one in use.
//!
//! A clone of an [`Ssd`] continues exactly as its original: whether a refused read would have been
//! fast is measured by serving it on a copy.
//!
//! ```
//! use trimtab_device::{Profile, Ssd};
//! use trimtab_io::{DeviceId, Nanos, Op, Request, RequestId};
//!
//! let mut ssd = Ssd::new(&Profile::builtin("reference").unwrap(), DeviceId(0), 1);
//! ssd.fill_in_order(1.0);
//! let read = Request::new(RequestId(7), DeviceId(0), Nanos(1000), Op::Read, 4096, 4096);
//! ssd.submit(Nanos(1000), &read)?;
//! ssd.advance(Nanos::from_millis(1));
//! // 40 µs in the die, 5.12 µs on the channel.
//! let served = ssd.served().next().unwrap();
//! assert_eq!(served.completion.service_time(), Nanos(45_120));
//! # Ok::<(), trimtab_device::Error>(())
//! ```

mod blocks;
mod disk;
mod drive;
mod error;
pub mod faults;
mod firmware;
mod layout;
mod map;
mod memory;
mod page_cache;
mod permutation;
mod profile;
pub mod scheduler;
mod slab;
mod ssd;
mod stats;
mod timer_queue;
mod window_controller;

pub use disk::{
    Disk, DiskCache, DiskLocation, DiskProfile, DiskQueue, DiskStats, DiskTiming, Interface, Order,
    Platters, Seek,
};
pub use drive::{Drive, DriveProfile};
pub use error::{Error, Inconsistency};
#[doc(inline)]
pub use faults::{Effect, Fault, FaultError, FaultOps, Faults, SecondsRange, Slowdowns};
pub use firmware::{
    ArrayPosition, Candidate, Candidates, Concerns, ContentionDecision, Firmware, FirmwareKind,
    Harmonia, HarmoniaOptions, Ideal, PlIo, PlIoOptions, PlannedCleaning, ReadContention, Standard,
    TimeWindow, TinyTail, TinyTailOptions, WindowFormula, WindowOptions, WindowSchedule, Windows,
};
pub use page_cache::{
    Below, CacheProfile, CacheProfileError, CacheStats, Lookup, OpenFile, PAGE, PageCache,
};
pub use profile::{
    Buffer, CopyMode, Dimension, Ftl, Gc, Geometry, Noise, Profile, Schedule, Scope, Timing,
    Victim, WatermarksOf, Wear,
};
pub use ssd::{AgedState, CleaningInterval, FillProgress, FlashLocation, Served, Ssd};
pub use stats::{LatencyBreakdown, SsdStats};
pub use window_controller::{ControllerSettings, WindowController};
