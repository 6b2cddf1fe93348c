//! Block devices as the system has them.
//!
//! - [`BlockDevice`] finds a disk by name or path, identifies it, and reads the kernel's own
//!   counters of it.
//! - [`Location`] maps an offset in an open file or device to an offset on the disk that
//!   holds it: partitions by their start, files by their extents.
//! - [`claim`] opens devices and files that are to be overwritten, if nothing else uses them.
//! - [`DirectBuffer`] is memory that direct I/O accepts.
//!
//! All of it reads `/sys`, `/proc` and ioctls of the running kernel; nothing here loads a
//! program or needs a capability but [`claim`], which writes.
//!
//! ```no_run
//! use std::fs::File;
//! use std::sync::Arc;
//!
//! use trimtab_block::{Location, Place};
//! use trimtab_io::monotonic;
//!
//! # fn main() -> std::io::Result<()> {
//! let file = Arc::new(File::open("/var/lib/db/data")?);
//! let location = Location::of(&file)?;
//! if let (Some(disk), Place::At(offset)) = (location.disk(), location.find(4096, monotonic())) {
//!     println!("{} at byte {offset}", disk.device.name);
//! }
//! # Ok(())
//! # }
//! ```

pub mod claim;

mod device;
mod direct;
mod error;
mod extents;
mod location;

pub use device::{BlockDevice, DeviceStat, OpStat};
pub use direct::DirectBuffer;
pub use error::DeviceError;
pub use location::{Disk, Location, Place};

/// The type of the file system of an emulated drive, as `/proc/self/mountinfo` shows it.
pub const EMULATED_FILE_SYSTEM: &str = "fuse.trimtab";
