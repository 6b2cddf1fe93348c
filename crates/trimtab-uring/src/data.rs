//! A ring for a server that reads from and writes to several files: each request has data of its own.

use std::os::fd::{AsFd, AsRawFd as _};
use std::sync::Arc;
use std::time::Duration;

use io_uring::types::{Fd, FsyncFlags};
use io_uring::{opcode, squeue};
use rustix::event::PollFlags;
use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use trimtab_block::DirectBuffer;
use trimtab_io::{Nanos, monotonic};

use crate::Error;
use crate::queue::{KernelQueue, Reported};

/// Requests that can be handed to the kernel at once, and completions that it has room for.
const ENTRIES: u32 = 256;
const COMPLETIONS: u32 = 4096;
/// How long the end of a ring waits for requests in flight.
const PATIENCE: Nanos = Nanos::from_millis(2_000);

/// A file that stays open until its requests are complete.
pub type Watched = Arc<dyn AsFd + Send + Sync>;

/// What a request does.
#[derive(Debug)]
pub enum Io {
    /// Fills the first `length` bytes of the buffer from this offset of the file.
    Read {
        /// Offset in the file.
        offset: u64,
        /// Bytes.
        length: u32,
        /// Where they go to.
        buffer: DirectBuffer,
    },
    /// Writes the first `length` bytes of the buffer.
    Write {
        /// Offset in the file.
        offset: u64,
        /// Bytes.
        length: u32,
        /// Where they come from.
        buffer: DirectBuffer,
    },
    /// The same, and on stable storage when it is complete (`RWF_DSYNC`).
    WriteThrough {
        /// Offset in the file.
        offset: u64,
        /// Bytes.
        length: u32,
        /// Where they come from.
        buffer: DirectBuffer,
    },
    /// Makes zeroes of bytes, without data, and lets go of their space (`FALLOC_FL_PUNCH_HOLE`).
    Zero {
        /// Offset in the file.
        offset: u64,
        /// Bytes.
        length: u64,
    },
    /// What was written before is on stable storage afterwards (`fdatasync`).
    Flush,
    /// Waits until the file can be read without blocking.
    WaitReadable,
}

/// A request that is complete.
#[derive(Debug)]
pub struct Finished {
    /// The caller's number.
    pub tag: u64,
    /// Whether all of it was done. Less than all is [`Errno::IO`].
    pub outcome: Result<(), Errno>,
    /// The request's buffer.
    pub buffer: Option<DirectBuffer>,
}

/// A request that the kernel has.
struct Slot {
    tag: u64,
    /// The bytes that the kernel reports if all was done; none if that does not matter.
    expected: Option<u32>,
    /// Whether it only waits: the end of the ring does not wait for it.
    waits: bool,
    buffer: Option<DirectBuffer>,
    _file: Watched,
}

/// The ring, for the thread that made it.
pub struct DataRing {
    queue: KernelQueue,
    slots: Vec<Option<Slot>>,
    free: Vec<u32>,
}

impl DataRing {
    /// An empty ring.
    ///
    /// # Errors
    /// The kernel does not give this process an io_uring.
    pub fn new() -> Result<Self, Error> {
        let queue = KernelQueue::of_this_thread(ENTRIES, COMPLETIONS).map_err(Error::Ring)?;
        Ok(Self { queue, slots: Vec::new(), free: Vec::new() })
    }

    /// Requests that are not complete.
    #[must_use]
    pub const fn in_flight(&self) -> usize {
        self.queue.in_flight()
    }

    /// Adds a request, which the kernel gets with the next [`submit`](Self::submit) or
    /// [`wait`](Self::wait).
    ///
    /// # Errors
    /// The kernel takes no more.
    ///
    /// # Panics
    /// A buffer is smaller than its length.
    pub fn push(&mut self, file: &Watched, io: Io, tag: u64) -> Result<(), Error> {
        let fd = Fd(file.as_fd().as_raw_fd());
        let waits = matches!(io, Io::WaitReadable);
        let (entry, expected, buffer) = match io {
            Io::Read { offset, length, buffer } => {
                let entry = opcode::Read::new(fd, buffer.first(length), length).offset(offset);
                (entry.build(), Some(length), Some(buffer))
            }
            Io::Write { offset, length, buffer } => {
                let entry = opcode::Write::new(fd, buffer.first(length), length).offset(offset);
                (entry.build(), Some(length), Some(buffer))
            }
            Io::WriteThrough { offset, length, buffer } => {
                // RWF_DSYNC, <linux/fs.h>.
                const DSYNC: i32 = 2;
                let entry = opcode::Write::new(fd, buffer.first(length), length).offset(offset);
                (entry.rw_flags(DSYNC).build(), Some(length), Some(buffer))
            }
            Io::Zero { offset, length } => {
                let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                let entry = opcode::Fallocate::new(fd, length).offset(offset);
                (entry.mode(mode.bits().cast_signed()).build(), None, None)
            }
            Io::Flush => {
                let entry = opcode::Fsync::new(fd).flags(FsyncFlags::DATASYNC);
                (entry.build(), None, None)
            }
            Io::WaitReadable => {
                let entry = opcode::PollAdd::new(fd, PollFlags::IN.bits().into());
                (entry.build(), None, None)
            }
        };
        let slot = Slot { tag, expected, waits, buffer, _file: Arc::clone(file) };
        let number = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as u32 - 1
        });
        // Before the kernel has it: it must own the buffer by then.
        self.slots[number as usize] = Some(slot);
        self.hand_over(&entry.user_data(number.into()))
    }

    fn hand_over(&mut self, entry: &squeue::Entry) -> Result<(), Error> {
        loop {
            // SAFETY: file and buffer belong to the slot until the completion has been taken, or for
            // ever (see `drop`). A buffer is a mapping, which does not move with its owner.
            if unsafe { self.queue.push(entry) } {
                return Ok(());
            }
            self.queue.submit()?;
        }
    }

    /// Hands what was pushed to the kernel.
    ///
    /// # Errors
    /// The kernel does not take it.
    pub fn submit(&mut self) -> Result<(), Error> {
        if self.queue.has_unsubmitted() { self.queue.submit() } else { Ok(()) }
    }

    /// The same, and waits for a completion, or until this time of the monotonic clock at the longest.
    /// It may return earlier.
    ///
    /// # Errors
    /// The kernel does not take it.
    pub fn wait(&mut self, until: Nanos) -> Result<(), Error> {
        self.queue.submit_and_wait_until(until)
    }

    /// Takes a completion, if there is one.
    pub fn take(&mut self) -> Option<Finished> {
        let Reported { slot: number, result } = self.queue.take()?;
        let slot = self.slots.get_mut(number as usize).and_then(Option::take)?;
        self.free.push(number);
        let outcome = match (result, slot.expected) {
            (error, _) if error < 0 => Err(Errno::from_raw_os_error(-error)),
            (bytes, Some(expected)) if bytes.unsigned_abs() != expected => Err(Errno::IO),
            _ => Ok(()),
        };
        Some(Finished { tag: slot.tag, outcome, buffer: slot.buffer })
    }
}

impl Drop for DataRing {
    /// Waits for the requests in flight: the kernel must not write to freed memory.
    fn drop(&mut self) {
        let until = monotonic() + PATIENCE;
        let is_busy = |ring: &Self| ring.slots.iter().flatten().any(|slot| !slot.waits);
        while is_busy(self) && monotonic() < until {
            if self.queue.submit_and_wait(Duration::from_millis(100)).is_err() {
                break;
            }
            while self.take().is_some() {}
        }
        // What a drive does not complete is left to the kernel.
        self.slots.drain(..).flatten().for_each(|slot| std::mem::forget(slot.buffer));
    }
}

impl std::fmt::Debug for DataRing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DataRing").field("in_flight", &self.in_flight()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::FileExt as _;

    use super::*;

    fn buffer(byte: u8) -> DirectBuffer {
        let mut buffer = DirectBuffer::new(4096).unwrap();
        buffer.content(4096).fill(byte);
        buffer
    }

    #[test]
    fn requests_have_data_of_their_own() {
        let mut ring = match DataRing::new() {
            Err(Error::Ring(_)) => return,
            ring => ring.unwrap(),
        };
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, [1; 8192]).unwrap();
        let open = File::options().read(true).write(true).open(&path).unwrap();
        let file: Watched = Arc::new(open);
        let write = Io::Write { offset: 4096, length: 4096, buffer: buffer(2) };
        ring.push(&file, write, 10).unwrap();
        ring.push(&file, Io::Read { offset: 0, length: 4096, buffer: buffer(0) }, 11).unwrap();
        // Only a part of it is there.
        ring.push(&file, Io::Read { offset: 6144, length: 4096, buffer: buffer(0) }, 12).unwrap();
        ring.push(&file, Io::Flush, 13).unwrap();
        let through = Io::WriteThrough { offset: 0, length: 4096, buffer: buffer(1) };
        ring.push(&file, through, 14).unwrap();
        let mut all = Vec::new();
        while all.len() < 5 {
            ring.wait(Nanos::MAX).unwrap();
            all.extend(std::iter::from_fn(|| ring.take()));
        }
        all.sort_by_key(|finished| finished.tag);
        let outcomes: Vec<_> = all.iter().map(|finished| finished.outcome).collect();
        assert_eq!(outcomes, [Ok(()), Ok(()), Err(Errno::IO), Ok(()), Ok(())]);
        assert_eq!(all[1].buffer.as_mut().unwrap().content(4096), [1; 4096]);
        let mut written = [0; 4096];
        File::open(&path).unwrap().read_exact_at(&mut written, 4096).unwrap();
        assert_eq!(written, [2; 4096]);
        assert_eq!(ring.in_flight(), 0);
    }
}
