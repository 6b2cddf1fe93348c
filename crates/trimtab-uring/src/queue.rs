//! The kernel's queues.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use io_uring::types::{SubmitArgs, Timespec};
use io_uring::{IoUring, squeue};
use rustix::io::Errno;
use trimtab_io::{Nanos, monotonic};

use crate::Error;
use crate::alarms::{Alarm, Alarms};

/// The longest wait of one system call: the kernel adds it to the time, which must not overflow.
const AT_ONCE: Duration = Duration::from_secs(3600);

/// The kernel takes about as long to put a thread to sleep and to wake it: waits that are expected
/// to be no longer poll.
const SPIN: Nanos = Nanos::from_micros(25);
/// A longer wait counts as one of this length, so that a drive that has stalled once is soon polled
/// again.
const MOST_OF_A_WAIT: Nanos = Nanos::from_micros(100);

/// A submission queue and a completion queue, and the number of requests between them.
pub(crate) struct KernelQueue {
    ring: IoUring,
    /// Requests pushed whose completions have not been taken.
    in_flight: usize,
    /// Completions that the kernel has reported, and that have not been taken.
    reported: VecDeque<Reported>,
    /// They do not count as in flight.
    alarms: Alarms,
    /// Moving average of the waits.
    typical: Nanos,
}

/// A completion as the kernel reports it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reported {
    pub(crate) slot: u32,
    /// Bytes, or a negative `errno`.
    pub(crate) result: i32,
}

impl KernelQueue {
    /// Queues for `entries` requests at once, and `completions` that have not been taken.
    pub(crate) fn new(entries: u32, completions: u32) -> io::Result<Self> {
        Ok(Self::over(IoUring::builder().setup_cqsize(completions).build(entries)?))
    }

    fn over(ring: IoUring) -> Self {
        Self {
            ring,
            in_flight: 0,
            reported: VecDeque::new(),
            alarms: Alarms::default(),
            typical: Nanos::ZERO,
        }
    }

    /// The same for the calling thread alone: a completion interrupts nothing that the thread
    /// does elsewhere, because the kernel defers its work to the thread's next call. On kernels
    /// before Linux 6.1 as [`new`](Self::new).
    pub(crate) fn of_this_thread(entries: u32, completions: u32) -> io::Result<Self> {
        let mut builder = IoUring::builder();
        builder.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag();
        let ring = builder.dontfork().setup_cqsize(completions).build(entries);
        match ring {
            Err(e) if e.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => {
                let mut builder = IoUring::builder();
                Ok(Self::over(builder.dontfork().setup_cqsize(completions).build(entries)?))
            }
            ring => Ok(Self::over(ring?)),
        }
    }

    /// Requests pushed whose completions have not been taken.
    pub(crate) const fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Puts a request into the submission queue; false if that is full.
    ///
    /// # Safety
    /// The file and the memory of the request stay as they are until its completion has been
    /// taken.
    pub(crate) unsafe fn push(&mut self, entry: &squeue::Entry) -> bool {
        // SAFETY: the caller's promise.
        let pushed = unsafe { self.ring.submission().push(entry) }.is_ok();
        self.in_flight += usize::from(pushed);
        pushed
    }

    /// Whether requests have been pushed that the kernel does not have.
    pub(crate) fn has_unsubmitted(&mut self) -> bool {
        !self.ring.submission().is_empty()
    }

    /// Hands the requests to the kernel.
    pub(crate) fn submit(&self) -> Result<(), Error> {
        expected(self.ring.submit())
    }

    /// Hands the requests to the kernel, and waits for a completion, `most` at the longest.
    pub(crate) fn submit_and_wait(&self, most: Duration) -> Result<(), Error> {
        let time = Timespec::from(most.min(AT_ONCE));
        expected(self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&time)))
    }

    /// Hands the requests to the kernel, and waits for a completion, or until this time of the
    /// monotonic clock at the longest. It may return earlier. For waits that follow each other
    /// closely: see [`Alarms`].
    pub(crate) fn submit_and_wait_until(&mut self, until: Nanos) -> Result<(), Error> {
        if self.has_unsubmitted() {
            self.submit()?;
        }
        // The page cache answers at once.
        let says_more = self.has_completion();
        if says_more {
            self.finish_deferred()?;
            if self.has_completed() {
                return Ok(());
            }
        }
        // A kernel that says wrongly that there is more goes on saying so.
        let is_wrong = says_more && self.ring.submission().taskrun();
        let has_completion = |queue: &mut Self| match is_wrong {
            true => queue.has_completed(),
            false => queue.has_completion(),
        };
        let begun = monotonic();
        let polled = match self.typical <= SPIN || until.since(begun) <= SPIN {
            true => until.min(begun + SPIN),
            false => begun,
        };
        while !has_completion(self) && monotonic() < polled {
            std::hint::spin_loop();
        }
        self.finish_deferred()?;
        if polled < until && !self.has_completed() {
            self.sleep(until)?;
        }
        let took = monotonic().since(begun).min(MOST_OF_A_WAIT);
        self.typical = Nanos((7 * self.typical.0 + took.0) / 8);
        Ok(())
    }

    fn sleep(&mut self, until: Nanos) -> Result<(), Error> {
        let left = || Duration::from_nanos(until.since(monotonic()).0);
        if until == Nanos::MAX {
            return self.submit_and_wait(AT_ONCE);
        }
        match self.alarms.by(until) {
            Alarm::Set => expected(self.ring.submit_and_wait(1)),
            // SAFETY: the time that it points to belongs to `alarms`, and the kernel reads it when
            // the entry is submitted.
            Alarm::New(entry) if unsafe { self.ring.submission().push(&entry) }.is_ok() => {
                expected(self.ring.submit_and_wait(1))
            }
            Alarm::New(_) => {
                self.alarms.withdraw(until);
                self.submit_and_wait(left())
            }
            Alarm::TooMany => self.submit_and_wait(left()),
        }
    }

    /// Takes back the alarms. They are over when their completions have been taken.
    pub(crate) fn take_back_alarms(&mut self) {
        for entry in self.alarms.to_take_back() {
            // SAFETY: it has no file, and no memory of this process.
            if unsafe { self.ring.submission().push(&entry) }.is_err() {
                // The alarm rings sometime.
                break;
            }
        }
    }

    /// Whether nothing but requests that are in flight can make the kernel say that it has
    /// deferred work: it says so of none, and no alarm is set.
    pub(crate) fn is_quiet(&mut self) -> bool {
        self.alarms.are_over() && !self.ring.submission().taskrun()
    }

    /// Whether a completion can be taken, as far as that is visible without a system call.
    ///
    /// It may say so wrongly: a kernel that is told of deferred work while it ends some goes on saying
    /// that there is more.
    pub(crate) fn has_completion(&mut self) -> bool {
        self.has_completed() || self.ring.submission().taskrun()
    }

    fn has_completed(&mut self) -> bool {
        !self.reported.is_empty() || !self.ring.completion().is_empty()
    }

    /// Makes the kernel finish what it has deferred to the thread's next call.
    pub(crate) fn finish_deferred(&mut self) -> Result<(), Error> {
        if self.ring.submission().taskrun() {
            let time = Timespec::new();
            let args = SubmitArgs::new().timespec(&time);
            return expected(self.ring.submitter().submit_with_args(0, &args));
        }
        Ok(())
    }

    /// Completions that can be taken now.
    pub(crate) fn completions(&mut self) -> usize {
        while let Some(reported) = self.next_reported() {
            self.reported.push_back(reported);
        }
        self.reported.len()
    }

    /// Takes a completion, if there is one.
    pub(crate) fn take(&mut self) -> Option<Reported> {
        let reported = self.reported.pop_front().or_else(|| self.next_reported())?;
        self.in_flight -= 1;
        Some(reported)
    }

    /// The next completion of a request in the kernel's queue.
    fn next_reported(&mut self) -> Option<Reported> {
        loop {
            let entry = self.ring.completion().next()?;
            if !self.alarms.rang(entry.user_data()) {
                return Some(Reported { slot: entry.user_data() as u32, result: entry.result() });
            }
        }
    }
}

fn expected(result: io::Result<usize>) -> Result<(), Error> {
    match result {
        Ok(_) => Ok(()),
        Err(e) if is_expected(&e) => Ok(()),
        Err(e) => Err(Error::Wait(e)),
    }
}

/// The time is over, a signal came, or the kernel wants completions to be taken first.
fn is_expected(error: &io::Error) -> bool {
    let expected = [Errno::TIME, Errno::INTR, Errno::BUSY, Errno::AGAIN];
    Errno::from_io_error(error).is_some_and(|errno| expected.contains(&errno))
}
