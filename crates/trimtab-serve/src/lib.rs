//! Block devices that a process serves: what emulated drives and arrays have in common.
//!
//! ```text
//!   any program ─> /dev/loopN ─> loop ─> FUSE ─> server
//! ```
//!
//! The kernel sees a disk: with a scheduler, with tracepoints, for any file system. Needs FUSE and
//! loop devices only. On a kernel with ublk, ublk would replace the loop device and [`Connection`].
//!
//! - [`Connection`], [`Message`] and [`ServedFile`] are the FUSE protocol: a file system with one
//!   file, for a thread that also waits for other things.
//! - **A server never touches its own device.** A thread that waits in the kernel for what its own
//!   process must answer cannot be killed, and keeps `/dev/fuse` open forever. A [`Helper`] process
//!   per job attaches the device, reads from it and detaches it (helper.rs): [`Device`].
//! - **Nothing is left behind.** A device's directory has a lock that goes with the server's
//!   process: [`RunDirectory`]. From there the rest of a killed server is found and removed: its FUSE
//!   connection by number, the devices over its file, and the mount (directory.rs).
//! - [`Client`] sends commands to a server, which takes them with [`next_client`] and
//!   [`read_command`].
//! - [`PredictableDrive`] is the interface by which a drive's firmware helps an array (predictable.rs).
//! - [`serve_io`] protects a server from memory pressure.

mod client;
mod device;
mod directory;
mod error;
mod fuse;
mod fusectl;
mod helper;
mod holder;
mod loopdev;
mod predictable;
mod protect;
mod reads;
mod run_directory;

pub use client::{Client, next_client, read_command, read_line, write_line};
pub use device::{Attachment, Device};
pub use directory::{Claimed, DeviceDirectory};
pub use error::Error;
pub use fuse::{
    Connection, FileRequest, Handled, Message, Mounted, ServedFile, open_device, wrote,
};
pub use helper::{Helper, assist};
pub use loopdev::{LoopDevice, open_control};
pub use predictable::{
    Announced, Flag, FlagTable, Lease, PredictableCommand, PredictableDrive, PredictableReply,
};
pub use protect::{available_memory, serve_io};
pub use reads::{Aligned, Pace, READ_BYTES, Timings, open, read_serially, set_timer_slack};
pub use run_directory::{DeviceInfo, DeviceKind, RunDirectory, Status, check_name};
