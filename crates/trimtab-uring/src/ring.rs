//! Requests to files by io_uring, and a clock to wait by.

use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, RawFd};
use std::time::{Duration, Instant};

use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode};
use trimtab_io::{Nanos, Op, Request};

use super::{Disk, Error};
use crate::pages::Pages;

/// Requests that can be handed to the kernel at once.
const ENTRIES: u32 = 256;

/// What direct I/O is aligned to, wherever it is not told otherwise.
const SECTOR: u64 = 512;

/// The kernel wakes a sleeper some microseconds late; the last of a wait is spent
/// looking at the clock.
const SPIN: Duration = Duration::from_micros(25);

/// A run that has ended waits so long for drives that have not answered.
const PATIENCE: Nanos = Nanos::from_millis(2_000);

/// Whether the kernel has io_uring for this process, before anything long that leads to it.
///
/// # Errors
/// It has not.
pub fn check() -> Result<(), Error> {
    IoUring::new(1).map(drop).map_err(Error::Ring)
}

/// The end of a request: its number, and whether all of it was done.
#[derive(Clone, Copy, Debug)]
pub(super) struct Done {
    pub(super) number: u32,
    pub(super) whole: bool,
}

/// The kernel's queues, with the time since a run began.
pub(super) struct Ring {
    ring: IoUring,
    start: Instant,
    files: Vec<RawFd>,
    /// The kernel works with these until all is answered.
    read_into: ManuallyDrop<Pages>,
    written: ManuallyDrop<Pages>,
    /// How long each request is, by its number.
    lengths: Vec<u32>,
    /// Given to the kernel and not taken back.
    out: usize,
}

impl Ring {
    /// For requests to these disks of at most so many bytes.
    pub(super) fn new(disks: &[Disk], largest: u64) -> Result<Self, Error> {
        let all: u32 = disks.iter().map(|disk| disk.depth).sum();
        // The kernel takes a power of two; answers must not be more than fit.
        let room = (2 * all).clamp(2 * ENTRIES, 1 << 16).next_power_of_two();
        let ring = IoUring::builder().setup_cqsize(room).build(ENTRIES).map_err(Error::Ring)?;
        let bytes = largest.next_multiple_of(SECTOR) + SECTOR;
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        // Requests share them: what is read is not looked at, and what is written is zeroes.
        let pages = || Pages::new(bytes).map_err(|source| Error::Memory { bytes, source });
        Ok(Self {
            ring,
            start: Instant::now(),
            files: disks.iter().map(|disk| disk.file.as_raw_fd()).collect(),
            read_into: ManuallyDrop::new(pages()?),
            written: ManuallyDrop::new(pages()?),
            lengths: Vec::new(),
            out: 0,
        })
    }

    /// Begins to count the time.
    pub(super) fn begin(&mut self) {
        self.start = Instant::now();
    }

    pub(super) fn now(&self) -> Nanos {
        Nanos(u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// Requests that have not been answered.
    pub(super) const fn out(&self) -> usize {
        self.out
    }

    /// Hands a request to a disk, under a number of its own.
    pub(super) fn submit(&mut self, disk: usize, number: u32, io: &Request) -> Result<(), Error> {
        let file = Fd(self.files[disk]);
        // Whole sectors, as a file system would ask for.
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
        let place = number as usize;
        self.lengths.resize(self.lengths.len().max(place + 1), 0);
        self.lengths[place] = length;
        let entry = entry.user_data(number.into());
        loop {
            // SAFETY: the files and the pages outlive the ring, and the pages are
            // as large as any request; nobody looks at what is in them.
            let pushed = unsafe { self.ring.submission().push(&entry) }.is_ok();
            // At once: what lies in the ring is sent in no drive's eyes, and its time
            // runs.
            self.hand_over()?;
            if pushed {
                self.out += 1;
                return Ok(());
            }
        }
    }

    fn hand_over(&self) -> Result<(), Error> {
        match self.ring.submit() {
            Ok(_) => Ok(()),
            Err(e) if is_no_failure(&e) => Ok(()),
            Err(e) => Err(Error::Wait(e)),
        }
    }

    /// Takes an answer, if there is one.
    pub(super) fn take(&mut self) -> Option<Done> {
        let entry = self.ring.completion().next()?;
        self.out -= 1;
        let number = entry.user_data() as u32;
        let length = self.lengths[number as usize];
        Some(Done { number, whole: entry.result() >= 0 && entry.result().unsigned_abs() == length })
    }

    /// Waits for an answer, but not for longer
    /// than until then.
    pub(super) fn wait(&mut self, until: Nanos) -> Result<(), Error> {
        let left = Duration::from_nanos(until.since(self.now()).0);
        if left > SPIN {
            let time = Timespec::from(left - SPIN);
            let result =
                self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&time));
            return match result {
                Ok(_) => Ok(()),
                Err(e) if is_no_failure(&e) => Ok(()),
                Err(e) => Err(Error::Wait(e)),
            };
        }
        self.hand_over()?;
        while self.now() < until && self.ring.completion().is_empty() {
            std::hint::spin_loop();
        }
        Ok(())
    }
}

/// The time is over, a signal came, or the kernel wants answers to be taken first.
fn is_no_failure(error: &std::io::Error) -> bool {
    use rustix::io::Errno;
    let expected = [Errno::TIME, Errno::INTR, Errno::BUSY, Errno::AGAIN];
    Errno::from_io_error(error).is_some_and(|errno| expected.contains(&errno))
}

impl Drop for Ring {
    /// The kernel must not work with pages that are gone.
    fn drop(&mut self) {
        let until = self.now() + PATIENCE;
        while self.out > 0 && self.now() < until {
            if self.wait(self.now() + Nanos::from_millis(100)).is_err() {
                break;
            }
            while self.take().is_some() {}
        }
        if self.out > 0 {
            // A drive does not answer. Nothing can be done but to leave the kernel the memory.
            return;
        }
        // SAFETY: once, and nobody uses them any more.
        unsafe {
            ManuallyDrop::drop(&mut self.read_into);
            ManuallyDrop::drop(&mut self.written);
        }
    }
}
