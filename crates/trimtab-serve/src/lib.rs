//! Block devices that a process serves: what emulated drives and arrays have in common.
//!
//! ```text
//!   any program ─┬─> /dev/ublkbN ─> ublk ──────────┬─> Requests ─> server
//!                └─> /dev/loopN ─> loop ─> FUSE ───┘
//! ```
//!
//! The kernel sees a disk: with a scheduler, with tracepoints, for any file system. There are two
//! back ends ([`Backend`]): ublk where the kernel has it, otherwise a file in FUSE with a loop device
//! over it, which any kernel has.
//!
//! - [`Requests`] is the seam: requests come, answers go by [`Ticket`], and a file descriptor tells
//!   when, for a thread that also waits for other things. FUSE's protocol (fuse.rs) and ublk's
//!   (ublk.rs) are behind it. [`Served`] is a device and the thread that serves it.
//! - **A server never touches its own device.** A thread that waits in the kernel for what its own
//!   process must answer cannot be killed, and keeps `/dev/fuse` open forever. A [`Helper`] process
//!   per job attaches the device, reads from it and detaches it (helper.rs): [`Device`].
//! - **Nothing is left behind.** A device's directory has a lock that goes with the server's
//!   process: [`RunDirectory`]. From there the rest of a killed server is found and removed: its FUSE
//!   connection by number, the devices over its file, and the mount; its ublk device by a cookie
//!   (directory.rs).
//! - **A killed server can be followed by another one** over ublk: the device stays, requests wait,
//!   and [`Served::take_over`] hands them to the next.
//! - [`Client`] sends commands to a server, which takes them with [`next_client`] and
//!   [`read_command`].
//! - [`transfer_serially`] and [`transfer_concurrently`] measure a device from outside, by reads or
//!   writes of a page (transfers.rs).
//! - [`PredictableDrive`] is the interface by which a drive's firmware helps an array (predictable.rs).
//! - [`serve_io`] protects a server from memory pressure.

mod backend;
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
mod requests;
mod run_directory;
mod served;
mod transfers;
mod ublk;

pub use backend::{Backend, BackendChoice};
pub use client::{Client, next_client, read_command, read_line, write_line};
pub use device::Device;
pub use directory::{Claimed, DeviceDirectory};
pub use error::Error;
pub use helper::{Helper, assist};
pub use loopdev::{LoopDevice, open_control, still_used};
pub use predictable::{
    Announced, Flag, FlagTable, Lease, PredictableCommand, PredictableDrive, PredictableReply,
};
pub use protect::{available_memory, serve_io};
pub use requests::{DiskRequest, Replier, Requests, Taken, Ticket};
pub use run_directory::{DeviceInfo, DeviceKind, RunDirectory, Status, check_name};
pub use served::{Serve, Served, ServedDisk};
pub use transfers::{
    PAGE_BYTES, Pace, Timings, Transfer, open, set_timer_slack, transfer_concurrently,
    transfer_serially,
};
