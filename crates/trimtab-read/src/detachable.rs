//! A read that its caller can leave at a deadline, whatever the drive does.
//!
//! A read that the kernel has begun cannot be taken back: to cancel one that a block
//! device has is without effect, and its memory is the kernel's until the device answers.
//! So data is read into a buffer of this module's own, and copied to the caller's when it
//! is in time. A caller that leaves gets [`Came::Late`], its own buffer is not touched any
//! more, and the other one is used again only when the kernel has completed the read.
//!
//! ```text
//!  read ─> slot of this thread: an io_uring with room for one read, and a buffer
//!            │ submit and wait, in one system call ─ in time ──> copy ──> Came::Read
//!            │ deadline
//!            └─> Came::Late: the slot stays with the read, the thread takes another
//!  no io_uring here ─> helper thread with a buffer ─ the same
//! ```
//!
//! A thread's slot is its own, so the common case takes no lock and allocates nothing: one
//! system call, as `pread(2)`, and a copy. The ring defers all work to its owner's next
//! call (`IORING_SETUP_DEFER_TASKRUN`): a late completion interrupts nothing that the
//! thread does meanwhile. Anyone may ask whether it has come ([`Left::has_ended`]), for the
//! kernel says so in memory (`IORING_SETUP_TASKRUN_FLAG`); so it does when the thread is
//! gone. Linux 6.1 has all of this; before, and where io_uring is not allowed, it is
//! [`Helpers`].
//!
//! Nothing here knows of models, drives or figures: what is done with a read that was
//! left is its caller's to decide.

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

/// No read is longer than this: longer ones are made in pieces. So it is the most memory
/// that a read holds that was left.
pub(super) const LONGEST: usize = 1 << 20;

/// A read, and until when it is waited for.
#[derive(Clone, Copy)]
pub(super) struct Ask<'a> {
    pub(super) file: &'a Arc<File>,
    pub(super) offset: u64,
    /// By [`monotonic`](trimtab_io::monotonic).
    pub(super) until: Nanos,
    /// Whether to submit it may block, because the drive's queue is full: then a worker
    /// of the kernel's does that, which costs a change of threads.
    pub(super) may_block: bool,
}

/// What came of a read.
#[derive(Debug)]
pub(super) enum Came {
    /// This many bytes, or it failed.
    Read(io::Result<usize>),
    /// Nothing until the deadline. The kernel still has the read; none if it was never
    /// sent.
    Late(Option<Arc<dyn Left>>),
}

/// A read that was left.
pub(super) trait Left: Debug + Send + Sync {
    /// Whether the drive has answered by now. Any thread may ask.
    fn has_ended(&self) -> bool;
}

/// Reads at most [`LONGEST`] bytes into the buffer. It is not written to after this has
/// returned.
pub(super) fn read(ask: &Ask<'_>, into: &mut [MaybeUninit<u8>], helpers: &Arc<Helpers>) -> Came {
    match slots::read(ask, into) {
        Some(came) => came,
        None => helpers.read(ask, into),
    }
}

/// Copies the data to the caller's buffer; how many bytes there were.
fn copy(from: &[u8], into: &mut [MaybeUninit<u8>]) -> usize {
    for (to, byte) in into[..from.len()].iter_mut().zip(from) {
        to.write(*byte);
    }
    from.len()
}
