//! A back end for a thread of a program: reads whose data are used.
//!
//! Beside the queues that it shares with a [run](crate::run), it has a buffer for each request.
//! The kernel cannot take back a read that a device has begun, so a request may outlive the call
//! that made it: its buffer belongs to the kernel until the request has completed, and no memory
//! of the program is ever written to. Buffers are taken from a pool, which grows to the largest
//! number of requests in flight.
//!
//! Requests are handed to the kernel with the wait for their completion, in one system call.

use std::fs::File;
use std::mem::ManuallyDrop;
use std::os::fd::AsRawFd as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use io_uring::types::Fd;
use io_uring::{opcode, squeue};
use rustix::io::Errno;
use trimtab_block::DirectBuffer;
use trimtab_io::{Nanos, Outcome, Request, monotonic};
use trimtab_steer::Replica;
use trimtab_steer::driver::{Backend, Completed, Wake};

use crate::Error;
use crate::queue::{KernelQueue, Reported};

/// Requests that can be handed to the kernel at once.
const ENTRIES: u32 = 32;
/// Requests that a drive has from one thread, at most: it does not take others then.
const DEPTH: usize = 32;
/// The smallest buffer, bytes.
const LEAST: usize = 4096;
/// How long the end of a thread waits for its requests in flight.
const PATIENCE: Nanos = Nanos::from_millis(50);

/// Requests of threads that have ended. Their buffers belong to the kernel.
static LEFT: Mutex<Vec<InFlight>> = Mutex::new(Vec::new());

/// A file or device that reads go to.
#[derive(Clone, Debug)]
pub struct ReadFile {
    /// Open for reading.
    pub file: Arc<File>,
    /// What offsets and lengths of requests to it are rounded to, bytes: the logical block size
    /// for direct I/O, otherwise 1. A power of two.
    pub alignment: u32,
    /// Bytes that it has. A read that ends before is an error of the replica.
    pub length: u64,
}

/// The data of a completed read, or why there are none.
#[derive(Clone, Copy, Debug)]
pub enum Data<'a> {
    /// The bytes: fewer than requested at the end of the file.
    Bytes(&'a [u8]),
    /// The error's number.
    Failed(i32),
}

/// The back end of one thread. Belongs to the thread that made it.
///
/// Between the calls of a program nothing is taken from the kernel. What has completed by the
/// next call is reported with the time at which the thread left, as its earliest time of
/// completion ([`resume`](Self::resume)).
pub struct ReadBackend {
    io: ManuallyDrop<InFlight>,
    /// Requests that each drive has.
    used: Vec<usize>,
    free: Vec<DirectBuffer>,
    now: Nanos,
    /// Completions that came while the thread was away, and have not been taken.
    missed: usize,
    /// The completion that the driver has not taken yet.
    pending: Option<Completed>,
    last: Last,
}

/// What the kernel works with until its requests are complete.
struct InFlight {
    queue: KernelQueue,
    files: Arc<[ReadFile]>,
    /// By slot.
    submitted: Vec<Option<Submitted>>,
    /// Set when its thread ends, if one request is in flight: that the kernel has deferred work can
    /// only mean that this one has completed.
    shows_end: bool,
}

/// The data kept for a submitted request.
struct Submitted {
    drive: Replica,
    buffer: DirectBuffer,
    /// The range that is read, rounded to the file's alignment.
    start: u64,
    length: u32,
    /// The part of it that was requested.
    skip: usize,
    wanted: usize,
    /// Whether a worker of the kernel reads.
    is_async: bool,
}

/// The request that was completed last.
enum Last {
    None,
    Data { buffer: DirectBuffer, skip: usize, bytes: usize },
    Failed(i32),
}

impl ReadBackend {
    /// A back end for the calling thread.
    ///
    /// # Errors
    /// The kernel does not give this process an io_uring.
    pub fn new(files: Arc<[ReadFile]>) -> Result<Self, Error> {
        reap();
        let completions = (files.len() * DEPTH).next_power_of_two().max(64) as u32;
        let queue = KernelQueue::of_this_thread(ENTRIES, completions).map_err(Error::Ring)?;
        let used = vec![0; files.len()];
        Ok(Self {
            io: ManuallyDrop::new(InFlight {
                queue,
                files,
                submitted: Vec::new(),
                shows_end: false,
            }),
            used,
            free: Vec::new(),
            now: monotonic(),
            missed: 0,
            pending: None,
            last: Last::None,
        })
    }

    /// The thread is back. Returns how many requests have completed since it left: the next
    /// so many steps of the driver handle them, at the time at which it left.
    ///
    /// # Errors
    /// The kernel's queue has failed.
    pub fn resume(&mut self) -> Result<usize, Error> {
        if self.io.queue.in_flight() > 0 && self.io.queue.has_completion() {
            self.io.queue.finish_deferred()?;
            self.missed = self.io.queue.completions();
        }
        Ok(self.missed)
    }

    /// The time is this, from now on: what was missed has been handled.
    pub fn present(&mut self, now: Nanos) {
        (self.missed, self.now) = (0, now.max(self.now));
    }

    /// The time of the last event.
    #[must_use]
    pub const fn clock(&self) -> Nanos {
        self.now
    }

    /// The thread leaves: hands to the kernel what has not been.
    ///
    /// # Errors
    /// The kernel's queue has failed.
    pub fn leave(&mut self) -> Result<(), Error> {
        if self.io.queue.has_unsubmitted() {
            self.io.queue.submit()?;
        }
        Ok(())
    }

    /// Requests that the kernel has.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.io.queue.in_flight()
    }

    /// The data of the request that was completed last; valid until the next step.
    #[must_use]
    pub fn data(&mut self) -> Data<'_> {
        match &mut self.last {
            Last::Data { buffer, skip, bytes } => {
                Data::Bytes(&buffer.content(*skip + *bytes)[*skip..])
            }
            Last::Failed(errno) => Data::Failed(*errno),
            Last::None => Data::Failed(Errno::IO.raw_os_error()),
        }
    }

    /// A free buffer of at least this size.
    fn buffer(&mut self, bytes: usize) -> Result<DirectBuffer, Error> {
        if let Some(at) = self.free.iter().rposition(|buffer| buffer.bytes() >= bytes) {
            return Ok(self.free.swap_remove(at));
        }
        // None is large enough: a larger one takes the place of one of them.
        self.free.pop();
        let bytes = bytes.next_power_of_two().max(LEAST);
        DirectBuffer::new(bytes).map_err(|source| Error::Memory { bytes: bytes as u64, source })
    }

    fn push(&mut self, slot: u32) -> Result<(), Error> {
        let InFlight { queue, files, submitted, .. } = &mut *self.io;
        let Some(Some(request)) = submitted.get(slot as usize) else { return Ok(()) };
        let file = Fd(files[request.drive.index()].file.as_raw_fd());
        let into = request.buffer.first(request.length);
        let flags = if request.is_async { squeue::Flags::ASYNC } else { squeue::Flags::empty() };
        let read = opcode::Read::new(file, into, request.length).offset(request.start);
        let entry = read.build().flags(flags).user_data(slot.into());
        loop {
            // SAFETY: the file and the buffer stay in `InFlight` until the request's completion
            // has been taken, also after the end of this thread (see `drop`).
            if unsafe { queue.push(&entry) } {
                return Ok(());
            }
            queue.submit()?;
        }
    }

    /// Takes a completion, if there is one.
    fn take(&mut self) -> Result<Option<(Replica, Completed)>, Error> {
        while let Some(Reported { slot, result }) = self.io.queue.take() {
            let Some(request) = self.io.submitted[slot as usize].as_mut() else { continue };
            // Some files support only blocking reads, and a signal interrupts a worker's read.
            let again = [Errno::AGAIN, Errno::INTR].map(|errno| -errno.raw_os_error());
            if again.contains(&result) {
                request.is_async = true;
                self.push(slot)?;
                continue;
            }
            let Some(request) = self.io.submitted[slot as usize].take() else { continue };
            let drive = request.drive;
            self.used[drive.index()] -= 1;
            let expected = self.io.files[drive.index()].length;
            let (outcome, last) = request.end(result, expected);
            if let Last::Data { buffer, .. } = std::mem::replace(&mut self.last, last) {
                self.free.push(buffer);
            }
            return Ok(Some((drive, Completed { slot, outcome })));
        }
        Ok(None)
    }
}

impl Submitted {
    /// The outcome of a request to a file of this length, bytes.
    fn end(self, result: i32, file_length: u64) -> (Outcome, Last) {
        let Ok(read) = usize::try_from(result) else {
            return (Outcome::Error, Last::Failed(-result));
        };
        let bytes = read.saturating_sub(self.skip).min(self.wanted);
        let left = file_length.saturating_sub(self.start + self.skip as u64);
        let is_whole = bytes as u64 >= left.min(self.wanted as u64);
        let outcome = if is_whole { Outcome::Done } else { Outcome::Error };
        (outcome, Last::Data { buffer: self.buffer, skip: self.skip, bytes })
    }
}

impl Backend for ReadBackend {
    type Error = Error;

    fn drives(&self) -> usize {
        self.used.len()
    }

    fn now(&self) -> Nanos {
        self.now
    }

    fn wait(&mut self, until: Nanos) -> Result<Wake, Error> {
        if let Some((drive, completed)) = self.take()? {
            if self.missed > 0 {
                self.missed -= 1;
            } else {
                self.now = monotonic();
            }
            self.pending = Some(completed);
            return Ok(Wake::Drive(drive));
        }
        // What has just been pushed was pushed now.
        if !self.io.queue.has_unsubmitted() {
            self.now = monotonic();
        }
        if until <= self.now {
            return Ok(Wake::Due);
        }
        self.io.queue.submit_and_wait_until(until)?;
        Ok(Wake::Idle)
    }

    fn completion(&mut self, _: Replica) -> Option<Completed> {
        self.pending.take()
    }

    fn has_room(&self, drive: Replica) -> bool {
        self.used[drive.index()] < DEPTH
    }

    fn submit(&mut self, drive: Replica, slot: u32, request: &Request) -> Result<(), Error> {
        let too_large = Error::TooLarge { offset: request.offset, length: request.length };
        let alignment = u64::from(self.io.files[drive.index()].alignment.max(1));
        let start = request.offset / alignment * alignment;
        let end = request.offset.checked_add(request.length);
        let end = end.and_then(|end| end.checked_next_multiple_of(alignment));
        let length = end.and_then(|end| u32::try_from(end - start).ok());
        let Some(length) = length.filter(|length| i32::try_from(*length).is_ok()) else {
            return Err(too_large);
        };
        let submitted = Submitted {
            drive,
            buffer: self.buffer(length as usize)?,
            start,
            length,
            skip: (request.offset - start) as usize,
            wanted: request.length as usize,
            is_async: false,
        };
        let place = slot as usize;
        if place >= self.io.submitted.len() {
            self.io.submitted.resize_with(place + 1, || None);
        }
        self.io.submitted[place] = Some(submitted);
        self.used[drive.index()] += 1;
        self.push(slot)
    }
}

impl InFlight {
    /// Whether no request is in flight any more. After the end of its thread the kernel's deferred
    /// work is done no more, so the end of one request shows, and only if nothing else could have
    /// made that work. Otherwise the memory stays with the kernel.
    fn has_ended(&mut self) -> bool {
        while self.queue.take().is_some() {}
        match self.queue.in_flight() {
            0 => true,
            1 => self.shows_end && self.queue.has_completion(),
            _ => false,
        }
    }
}

impl Drop for ReadBackend {
    /// Waits a little for the requests in flight. The memory of those that are still with their
    /// drives then is freed when they have completed: by the next thread that begins to read.
    fn drop(&mut self) {
        // SAFETY: once, here, and it is not used afterwards.
        let mut io = unsafe { ManuallyDrop::take(&mut self.io) };
        if io.queue.in_flight() > 0 {
            io.queue.take_back_alarms();
        }
        let until = monotonic() + PATIENCE;
        while io.queue.in_flight() > 0 {
            let left = until.since(monotonic());
            // What has been pushed, also what takes alarms back.
            _ = io.queue.submit();
            _ = io.queue.finish_deferred();
            while io.queue.take().is_some() {}
            io.shows_end = io.queue.in_flight() == 1 && io.queue.is_quiet();
            if io.shows_end || io.queue.in_flight() == 0 || left == Nanos::ZERO {
                break;
            }
            if io.queue.submit_and_wait(Duration::from_nanos(left.0)).is_err() {
                break;
            }
        }
        if io.queue.in_flight() > 0 {
            LEFT.lock().unwrap_or_else(PoisonError::into_inner).push(io);
        }
    }
}

/// Frees the memory of requests of threads that have ended, if they have completed.
fn reap() {
    // If another thread is at it, that is enough.
    if let Ok(mut left) = LEFT.try_lock() {
        left.retain_mut(|io| !io.has_ended());
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Write as _, pipe};
    use std::thread;

    use trimtab_io::{DeviceId, Op, RequestId};

    use super::*;

    const READ: Request = Request::new(RequestId(0), DeviceId(0), Nanos::ZERO, Op::Read, 0, 4);

    /// An alarm is deferred work of the kernel, too.
    #[test]
    fn memory_of_a_thread_that_has_ended_is_kept_until_its_request_completes() {
        const WAIT: Duration = Duration::from_millis(300);
        let pipes = [pipe().unwrap(), pipe().unwrap()];
        let [(first, mut to_first), (second, mut to_second)] = pipes;
        let file = |file: std::os::fd::OwnedFd| ReadFile {
            file: Arc::new(File::from(file)),
            alignment: 1,
            length: 4,
        };
        let files: Arc<[_]> = [file(first.into()), file(second.into())].into();
        let thread = thread::spawn(move || {
            let mut backend = ReadBackend::new(files).unwrap();
            for slot in 0..2 {
                backend.submit(Replica(slot as u8), slot, &READ).unwrap();
            }
            let until = monotonic() + Nanos(WAIT.as_nanos() as u64);
            // The alarm for this time is still set when the other read has completed.
            while !matches!(backend.wait(until).unwrap(), Wake::Drive(_)) {
                assert!(monotonic() < until, "nothing came");
            }
        });
        thread::sleep(Duration::from_millis(20));
        to_first.write_all(b"data").unwrap();
        thread.join().unwrap();
        let mut io = LEFT.lock().unwrap().pop().expect("one request is in flight");
        thread::sleep(WAIT);
        assert!(!io.has_ended(), "its memory would be freed");
        to_second.write_all(b"data").unwrap();
        let until = monotonic() + Nanos::from_secs(5);
        while !io.has_ended() {
            assert!(monotonic() < until, "it is kept for ever");
            thread::sleep(Duration::from_millis(1));
        }
    }
}
