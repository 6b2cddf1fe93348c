//! The ring of a run, and its clock.

use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, RawFd};
use std::time::{Duration, Instant};

use io_uring::opcode;
use io_uring::types::Fd;
use trimtab_block::DirectBuffer;
use trimtab_io::{Nanos, Op, Outcome, Request};
use trimtab_steer::Replica;
use trimtab_steer::driver::{ArrayIo, Completed};

use crate::queue::{KernelQueue, Reported};
use crate::{Disk, Error};

/// Requests that can be handed to the kernel at once.
const ENTRIES: u32 = 256;

/// The alignment of offsets and lengths in direct I/O.
const SECTOR: u64 = 512;

/// The kernel wakes a sleeping thread some microseconds late; the last part of a wait is
/// spent polling the clock.
const SPIN: Duration = Duration::from_micros(25);

/// How long the end of a run waits for requests in flight.
const PATIENCE: Nanos = Nanos::from_millis(2_000);

/// Checks that the kernel gives this process an io_uring, before long work that needs it.
///
/// # Errors
/// It does not.
pub fn check() -> Result<(), Error> {
    KernelQueue::new(1, 2).map(drop).map_err(Error::Ring)
}

/// The data kept for a submitted request.
#[derive(Clone, Copy)]
struct Submitted {
    drive: Replica,
    /// The bytes that the kernel reports if all was done.
    length: u32,
}

/// The kernel's queues, and the time since the run began.
pub(super) struct Ring {
    queue: KernelQueue,
    start: Instant,
    files: Vec<RawFd>,
    /// The kernel works with these until all requests are complete.
    read_into: ManuallyDrop<DirectBuffer>,
    written: ManuallyDrop<DirectBuffer>,
    /// By slot.
    submitted: Vec<Submitted>,
}

impl Ring {
    /// A ring for requests to these disks, the largest of which is `largest`.
    pub(super) fn new(disks: &[Disk], largest: Option<&ArrayIo>) -> Result<Self, Error> {
        let all: u32 = disks.iter().map(|disk| disk.depth).sum();
        // The kernel takes a power of two; all completions must fit.
        let room = (2 * all).clamp(2 * ENTRIES, 1 << 16).next_power_of_two();
        let queue = KernelQueue::new(ENTRIES, room).map_err(Error::Ring)?;
        let (offset, length) = largest.map_or((0, 0), |io| (io.offset, io.length));
        if u32::try_from(length).is_err() {
            return Err(Error::TooLarge { offset, length });
        }
        let bytes = length.next_multiple_of(SECTOR) + SECTOR;
        // All requests share them: read data are not used, and zeroes are written.
        let buffer =
            || DirectBuffer::new(bytes as usize).map_err(|source| Error::Memory { bytes, source });
        Ok(Self {
            queue,
            start: Instant::now(),
            files: disks.iter().map(|disk| disk.file.as_raw_fd()).collect(),
            read_into: ManuallyDrop::new(buffer()?),
            written: ManuallyDrop::new(buffer()?),
            submitted: Vec::new(),
        })
    }

    /// Starts the clock.
    pub(super) fn begin(&mut self) {
        self.start = Instant::now();
    }

    pub(super) fn now(&self) -> Nanos {
        Nanos(u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// Submits a request to a drive, under its slot number.
    pub(super) fn submit(&mut self, drive: Replica, slot: u32, io: &Request) -> Result<(), Error> {
        let file = Fd(self.files[drive.index()]);
        // Whole sectors, as a file system would request.
        let offset = io.offset / SECTOR * SECTOR;
        let length = io.end().next_multiple_of(SECTOR) - offset;
        let too_large = || Error::TooLarge { offset: io.offset, length: io.length };
        let length = u32::try_from(length).map_err(|_| too_large())?;
        let (entry, length) = match io.op {
            Op::Read => {
                let into = self.read_into.first(length);
                (opcode::Read::new(file, into, length).offset(offset).build(), length)
            }
            Op::Write => {
                let from = self.written.first(length);
                (opcode::Write::new(file, from, length).offset(offset).build(), length)
            }
            Op::Flush => (opcode::Fsync::new(file).build(), 0),
            Op::Discard => {
                const KEEP_SIZE_PUNCH_HOLE: i32 = 0x01 | 0x02;
                let discard = opcode::Fallocate::new(file, length.into());
                (discard.offset(offset).mode(KEEP_SIZE_PUNCH_HOLE).build(), 0)
            }
        };
        let (place, submitted) = (slot as usize, Submitted { drive, length });
        if place >= self.submitted.len() {
            self.submitted.resize(place + 1, submitted);
        }
        self.submitted[place] = submitted;
        let entry = entry.user_data(slot.into());
        loop {
            // SAFETY: the files and the buffers outlive the requests in the ring (see
            // `drop`), the buffers are as large as any request, and their content is never
            // read by this program.
            let pushed = unsafe { self.queue.push(&entry) };
            // At once: a request in the ring is not in flight on its drive, while its
            // latency counts.
            self.queue.submit()?;
            if pushed {
                return Ok(());
            }
        }
    }

    /// Takes a completion, if there is one. A request that was done in part is an error.
    pub(super) fn take(&mut self) -> Option<(Replica, Completed)> {
        let Reported { slot, result } = self.queue.take()?;
        let Submitted { drive, length } = self.submitted[slot as usize];
        let whole = result >= 0 && result.unsigned_abs() == length;
        let outcome = if whole { Outcome::Done } else { Outcome::Error };
        Some((drive, Completed { slot, outcome }))
    }

    /// Waits for a completion, until the given time at most.
    pub(super) fn wait(&mut self, until: Nanos) -> Result<(), Error> {
        let left = Duration::from_nanos(until.since(self.now()).0);
        if left > SPIN {
            return self.queue.submit_and_wait(left - SPIN);
        }
        self.queue.submit()?;
        while self.now() < until && !self.queue.has_completion() {
            std::hint::spin_loop();
        }
        Ok(())
    }
}

impl Drop for Ring {
    /// Waits for the requests in flight: the kernel must not write to freed memory.
    fn drop(&mut self) {
        let until = self.now() + PATIENCE;
        while self.queue.in_flight() > 0 && self.now() < until {
            if self.wait(self.now() + Nanos::from_millis(100)).is_err() {
                break;
            }
            while self.take().is_some() {}
        }
        if self.queue.in_flight() > 0 {
            // A drive does not complete its requests: leave the memory to the kernel.
            return;
        }
        // SAFETY: dropped once, here, and no request in flight uses them.
        unsafe {
            ManuallyDrop::drop(&mut self.read_into);
            ManuallyDrop::drop(&mut self.written);
        }
    }
}
