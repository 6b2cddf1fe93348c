//! ublk: block devices whose requests a process takes from the kernel by io_uring.
//!
//! ```text
//!   /dev/ublkbN ─> queues ─> io_uring ─> server
//!                      └──── /dev/ublkcN: data
//! ```
//!
//! Spoken to directly (Documentation/block/ublk.rst in Linux's source): a dozen commands, so that a
//! server's thread waits for requests together with whatever else it waits for. In the crate for it,
//! libublk, each request is a task of an executor that has its thread, and a ring of that thread, for
//! itself; here one thread has all queues, the members, the policy's times and the commands of users,
//! and the same server runs over FUSE.
//!
//! A device carries a cookie of its server's directory, by which it is found whatever happened to
//! the server. When that is killed the device stays, and requests wait: those that the server had
//! are sent again to the next one that takes the device over.

mod abi;
mod control;
mod queues;

pub(crate) use control::{Control, UblkDevice, block_device};
pub(crate) use queues::{Mailbox, Queues};

use crate::error::Error;

/// The longest read or write; the kernel splits longer ones.
pub(crate) const MAX_BYTES: u32 = 1 << 20;
/// Requests of a queue.
const DEPTH: u16 = 128;

impl UblkDevice {
    /// Begins to serve it. Only the calling thread may use the queues.
    pub(crate) fn open(&self) -> Result<Queues, Error> {
        Queues::open(self)
    }
}
