//! Reads that their caller can abandon at a deadline, even if the drive does not complete
//! them.
//!
//! The kernel cannot take back a read once a block device has it: cancelling has no effect,
//! and the memory belongs to the kernel until the device completes. So data is read into a
//! buffer of this module, and copied to the caller's buffer if it arrives in time. A caller
//! that abandons a read gets [`Came::Late`]; its own buffer is not touched any more, and the
//! module's buffer is reused only when the kernel has completed the read.
//!
//! ```text
//!  read ─> slot of this thread: an io_uring with room for one read, and a buffer
//!            │ submit and wait, in one system call ─ in time ──> copy ──> Came::Read
//!            │ deadline
//!            └─> Came::Late: the slot stays with the read, the thread takes another
//!  no io_uring here ─> helper thread with a buffer ─ the same
//! ```
//!
//! A slot belongs to one thread, so the common case takes no lock and allocates nothing: one
//! system call, as for `pread(2)`, and a copy. The ring defers all work to its owner's next
//! call (`IORING_SETUP_DEFER_TASKRUN`): a late completion does not interrupt the thread. Any
//! thread may check whether the read has completed ([`Left::has_ended`]), because the kernel
//! sets a flag in memory (`IORING_SETUP_TASKRUN_FLAG`), even when the owner is gone. This
//! takes Linux 6.1; on older kernels, and if io_uring is not permitted, [`Helpers`] do the
//! work.
//!
//! This module is independent of models, drives and counters: the caller decides what to do
//! with an abandoned read.

mod helpers;
mod slot;
mod slots;

use std::fmt::Debug;
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::sync::Arc;

use trimtab_io::Nanos;

pub(super) use helpers::Helpers;

/// The longest single read: longer ones are split. It is also the most memory that an
/// abandoned read holds.
pub(super) const LONGEST: usize = 1 << 20;

/// A read, and its deadline.
#[derive(Clone, Copy)]
pub(super) struct Ask<'a> {
    pub(super) file: &'a Arc<File>,
    pub(super) offset: u64,
    /// By [`monotonic`](trimtab_io::monotonic).
    pub(super) until: Nanos,
    /// Whether submission may block because the drive's queue is full: then a worker of the
    /// kernel submits it, which costs a context switch.
    pub(super) may_block: bool,
}

/// The result of a read.
#[derive(Debug)]
pub(super) enum Came {
    /// This many bytes, or an error.
    Read(io::Result<usize>),
    /// No result by the deadline. The read that the kernel still has; `None` if it was never
    /// sent.
    Late(Option<Arc<dyn Left>>),
}

/// An abandoned read.
pub(super) trait Left: Debug + Send + Sync {
    /// Whether the drive has completed it. Any thread may ask.
    fn has_ended(&self) -> bool;
}

/// Reads at most [`LONGEST`] bytes into the buffer, which is not written to after the return.
pub(super) fn read(ask: &Ask<'_>, into: &mut [MaybeUninit<u8>], helpers: &Arc<Helpers>) -> Came {
    match slots::read(ask, into) {
        Some(came) => came,
        None => helpers.read(ask, into),
    }
}

/// Copies the data to the caller's buffer. Returns the number of bytes.
fn copy(from: &[u8], into: &mut [MaybeUninit<u8>]) -> usize {
    for (to, byte) in into[..from.len()].iter_mut().zip(from) {
        to.write(*byte);
    }
    from.len()
}
