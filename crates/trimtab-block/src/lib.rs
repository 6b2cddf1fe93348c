//! Block devices as the system has them.
//!
//! - [`BlockDevice`] finds a disk by name or path, identifies it, and reads the kernel's own
//!   counters of it.
//! - [`topology`] tells what a device is made of, and which disk holds a range of it:
//!   partitions, LVM, dm-crypt, md, NVMe multipath.
//! - [`Location`] maps a range of an open file or device to the disk that holds it: files by
//!   their extents, devices by their topology.
//! - [`claim`] opens devices and files that are to be overwritten, if nothing else uses them.
//! - [`DirectBuffer`] is memory that direct I/O accepts.
//!
//! All of it reads `/sys`, `/proc` and ioctls of the running kernel; nothing here loads a
//! program. Capabilities are needed by [`claim`], which writes, and for the tables of
//! device-mapper devices.
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
//! if let Ok((disk, Place::At(offset))) = location.find(4096, 512, monotonic()) {
//!     let disk = location.disk_at(disk).expect("it was found");
//!     println!("{} at byte {offset}", disk.device.name);
//! }
//! # Ok(())
//! # }
//! ```

pub mod claim;
pub mod topology;

mod device;
mod direct;
mod error;
mod extents;
mod layers;
mod location;
mod refresh;

pub use claim::{FileSystem, mounted_here};
pub use device::{BlockDevice, DeviceStat, OpStat};
pub use direct::DirectBuffer;
pub use error::DeviceError;
pub use location::{Location, NoDrive, Place};
pub use topology::{Disk, Topology};

/// The type of the file system of an emulated drive, as `/proc/self/mountinfo` shows it.
pub const EMULATED_FILE_SYSTEM: &str = "fuse.trimtab";
