//! An io_uring for one read, and its buffer.

use std::io;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::os::fd::AsRawFd as _;
use std::sync::Mutex;
use std::time::Duration;

use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode, squeue};
use rustix::io::Errno;
use trimtab_io::Nanos;

use super::{Ask, Left, copy};
use trimtab_block::DirectBuffer;
use trimtab_io::monotonic;

/// Entries of a ring, of which one is used. The kernel runs as many workers for a thread as
/// its first ring has entries: with one, a read that blocks its worker would hold up all
/// others. It takes the same memory as one entry.
const ENTRIES: u32 = 32;
/// The initial size of a buffer.
const LEAST: usize = 4096;
/// The longest wait of one system call: the kernel adds it to the time, which must not
/// overflow.
const AT_ONCE: Nanos = Nanos::from_millis(3_600_000);

/// The result of a read.
pub(super) enum Outcome {
    Done(io::Result<usize>),
    /// The deadline has passed; the kernel has the read, and the buffer.
    Left,
    /// The kernel did not accept it. The slot is unusable.
    Unsent,
}

/// Belongs to one thread. Other threads access it only after its read was abandoned, to check
/// whether the read has completed.
#[derive(Debug)]
pub(super) struct Slot(Mutex<Inner>);

struct Inner {
    /// Closed before the buffer is freed.
    ring: IoUring,
    buffer: ManuallyDrop<DirectBuffer>,
    /// The kernel has a read, and may write into the buffer.
    is_out: bool,
}

impl Slot {
    /// For reads of the calling thread.
    ///
    /// # Errors
    /// The kernel has no io_uring, lacks a feature that this needs, or has no memory for it.
    pub(super) fn new() -> io::Result<Self> {
        let mut builder = IoUring::builder();
        builder.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag().dontfork();
        let ring = builder.build(ENTRIES)?;
        let buffer = ManuallyDrop::new(DirectBuffer::new(LEAST)?);
        Ok(Self(Mutex::new(Inner { ring, buffer, is_out: false })))
    }

    /// Reads, in the thread that made the slot. No earlier read may be in flight.
    pub(super) fn read(&mut self, ask: &Ask<'_>, into: &mut [MaybeUninit<u8>]) -> Outcome {
        let inner = self.inner();
        let outcome = inner.read(ask, into);
        match &outcome {
            // Some files support only blocking reads, and a signal interrupts a worker's read.
            Outcome::Done(Err(e)) if is_to_be_repeated(e) => {
                inner.read(&Ask { may_block: true, ..*ask }, into)
            }
            _ => outcome,
        }
    }

    /// Takes the slot back after its read was abandoned, in the thread that made it. Returns
    /// false if the read has not completed.
    pub(super) fn reclaim(&mut self) -> bool {
        let inner = self.inner();
        if inner.is_out && inner.is_answered() {
            // This makes the kernel finish its deferred work for the read.
            _ = inner.enter(0, Nanos::ZERO);
            inner.is_out = inner.ring.completion().next().is_none();
        }
        !inner.is_out
    }

    fn inner(&mut self) -> &mut Inner {
        self.0.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Left for Slot {
    fn has_ended(&self) -> bool {
        // If another thread holds the lock, that thread finds out.
        self.0.try_lock().is_ok_and(|mut inner| !inner.is_out || inner.is_answered())
    }
}

impl Inner {
    fn read(&mut self, ask: &Ask<'_>, into: &mut [MaybeUninit<u8>]) -> Outcome {
        if self.push(ask, into.len()).is_err() {
            return Outcome::Unsent;
        }
        self.is_out = true;
        loop {
            let entered = self.enter(1, ask.until.since(monotonic()));
            let done = self.ring.completion().next();
            if let Some(done) = done {
                self.is_out = false;
                return Outcome::Done(self.take(done.result(), into));
            }
            if entered.is_err() && !self.ring.submission().is_empty() {
                self.is_out = false;
                return Outcome::Unsent;
            }
            if monotonic() >= ask.until {
                return Outcome::Left;
            }
        }
    }

    /// Puts the read into the submission queue.
    fn push(&mut self, ask: &Ask<'_>, length: usize) -> io::Result<()> {
        if self.buffer.bytes() < length {
            // The old buffer is freed: no read is in flight.
            let larger = DirectBuffer::new(length.next_power_of_two())?;
            drop(std::mem::replace(&mut *self.buffer, larger));
        }
        let length = u32::try_from(length).map_err(|_| Errno::INVAL)?;
        let to = self.buffer.first(length);
        let read = opcode::Read::new(Fd(ask.file.as_raw_fd()), to, length).offset(ask.offset);
        let flags = if ask.may_block { squeue::Flags::ASYNC } else { squeue::Flags::empty() };
        // SAFETY: the buffer has space for `length` bytes. It does not move, and is freed only
        // when the kernel no longer has the read.
        unsafe { self.ring.submission().push(&read.build().flags(flags)) }
            .map_err(|_| Errno::BUSY)?;
        Ok(())
    }

    /// Submits the queue, and waits for this many completions, at most for `most`.
    fn enter(&self, answers: usize, most: Nanos) -> io::Result<()> {
        let most = Timespec::from(Duration::from_nanos(most.min(AT_ONCE).0));
        self.ring.submitter().submit_with_args(answers, &SubmitArgs::new().timespec(&most))?;
        Ok(())
    }

    /// Whether the drive has completed the read, as far as that is visible without a system
    /// call.
    fn is_answered(&mut self) -> bool {
        self.ring.submission().taskrun() || !self.ring.completion().is_empty()
    }

    /// Takes a completion's result, and copies the data to the caller's buffer.
    fn take(&mut self, result: i32, into: &mut [MaybeUninit<u8>]) -> io::Result<usize> {
        match usize::try_from(result) {
            Ok(bytes) => Ok(copy(self.buffer.content(bytes), into)),
            Err(_) => Err(io::Error::from_raw_os_error(-result)),
        }
    }
}

impl Drop for Inner {
    /// The kernel must not write into memory that is used for something else. If its work for
    /// a completed read is still deferred, closing the ring drops that.
    fn drop(&mut self) {
        if !self.is_out || self.is_answered() {
            // SAFETY: once, and it is not used afterwards.
            unsafe { ManuallyDrop::drop(&mut self.buffer) };
        }
    }
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inner").field("is_out", &self.is_out).finish_non_exhaustive()
    }
}

fn is_to_be_repeated(error: &io::Error) -> bool {
    Errno::from_io_error(error).is_some_and(|errno| [Errno::AGAIN, Errno::INTR].contains(&errno))
}
