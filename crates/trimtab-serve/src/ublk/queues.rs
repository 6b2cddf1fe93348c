//! The queues of a device, for the thread that serves it.
//!
//! Each tag of each queue has a command in an io_uring: it completes when the tag has a request, and
//! is sent again with the answer. One thread serves all queues. An eventfd, which the rings and the
//! threads that answer share, is readable when there may be something to take. Data are bytes of the
//! character device.
//!
//! # When the server is killed
//! The kernel takes back the requests that the server has, once for each queue, and then lets new ones
//! wait for the next server. From Linux 6.7 to 6.14 one that arrives in between is handed to the thread
//! that dies, and lost: the device then waits for it for ever, so that it can neither be taken over
//! nor removed. That cannot be avoided here, but made short. So each queue has a ring of its own, and
//! completions are deferred until this thread asks for them: the kernel hands out what a ring has
//! pending right before it takes back what that ring's queue has. With one ring for all queues,
//! which handed out requests at any time, some killed servers in a hundred lost one under load.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use io_uring::types::Fd;
use io_uring::{IoUring, opcode};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::MAX_BYTES;
use super::abi::{self, Descriptor, MAX_DEPTH, io, op};
use super::control::UblkDevice;
use crate::error::Error;
use crate::requests::{DiskRequest, Found, Taken, Ticket, TicketKind};

/// Answers of other threads: only the thread that serves a queue may send them.
#[derive(Debug)]
pub(crate) struct Mailbox {
    answers: Mutex<Vec<(Ticket, Result<(), Errno>)>>,
    is_filled: AtomicBool,
    /// Wakes the thread that serves. The rings signal it too.
    wake: OwnedFd,
}

impl Mailbox {
    fn new() -> Result<Self, Error> {
        let wake = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC);
        let wake = wake.map_err(Error::system("make an eventfd"))?;
        Ok(Self { answers: Mutex::default(), is_filled: AtomicBool::new(false), wake })
    }

    pub(crate) fn reply(&self, ticket: Ticket, outcome: Result<(), Errno>) {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).push((ticket, outcome));
        self.is_filled.store(true, Ordering::Release);
        self.wake();
    }

    fn wake(&self) {
        // Fails only if it is signalled already.
        _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    fn take(&self) -> Vec<(Ticket, Result<(), Errno>)> {
        if !self.is_filled.swap(false, Ordering::Acquire) {
            return Vec::new();
        }
        std::mem::take(&mut *self.answers.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Makes it not readable until it is signalled again.
    fn reset(&self) {
        _ = rustix::io::read(&self.wake, &mut [0; 8]);
    }
}

/// The descriptors of one queue's requests.
struct Descriptors {
    first: *const Descriptor,
    bytes: usize,
}

impl Descriptors {
    fn map(file: &File, queue: u16, depth: u16) -> rustix::io::Result<Self> {
        let page = rustix::param::page_size();
        let bytes = (usize::from(depth) * size_of::<Descriptor>()).next_multiple_of(page);
        let step = (MAX_DEPTH * size_of::<Descriptor>()).next_multiple_of(page);
        let offset = (usize::from(queue) * step) as u64;
        let (access, flags) = (ProtFlags::READ, MapFlags::SHARED | MapFlags::POPULATE);
        // SAFETY: a new mapping, at an address that the kernel chooses.
        let first = unsafe { mmap(std::ptr::null_mut(), bytes, access, flags, file, offset) }?;
        Ok(Self { first: first.cast(), bytes })
    }

    /// The request of a tag, which the kernel does not change before it is answered.
    fn get(&self, tag: u16) -> Descriptor {
        // SAFETY: tags are smaller than the depth that was mapped; the kernel also writes here.
        unsafe { self.first.add(usize::from(tag)).read_volatile() }
    }
}

impl Drop for Descriptors {
    fn drop(&mut self) {
        // SAFETY: made by `map`, and not used any more.
        _ = unsafe { munmap(self.first.cast_mut().cast(), self.bytes) };
    }
}

/// A queue, and the ring of its commands.
struct Queue {
    ring: IoUring,
    descriptors: Descriptors,
}

impl Queue {
    fn open(file: &File, queue: u16, depth: u16, wake: &OwnedFd) -> Result<Self, Error> {
        let mut builder = IoUring::builder();
        builder.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag().dontfork();
        let ring = builder.build(u32::from(depth).next_power_of_two());
        let ring = ring.map_err(Error::system("set up an io_uring for ublk"))?;
        let registered = ring.submitter().register_eventfd(wake.as_raw_fd());
        registered.map_err(Error::system("have an io_uring signal an eventfd"))?;
        let descriptors = Descriptors::map(file, queue, depth);
        let descriptors = descriptors.map_err(Error::system("map a ublk queue"))?;
        Ok(Self { ring, descriptors })
    }

    /// Sends commands, and has the kernel complete what it has deferred.
    fn submit(&mut self) {
        let submission = self.ring.submission();
        let is_needed = !submission.is_empty() || submission.taskrun();
        drop(submission);
        if is_needed {
            // What the kernel does not take, the next call sends.
            _ = self.ring.submit();
        }
    }

    fn has_arrivals(&mut self) -> bool {
        !self.ring.completion().is_empty()
    }

    /// Whether commands were not sent: the kernel had no memory, or was interrupted.
    fn has_unsent(&mut self) -> bool {
        !self.ring.submission().is_empty()
    }
}

/// The queues.
pub(crate) struct Queues {
    queues: Vec<Queue>,
    file: File,
    mailbox: Arc<Mailbox>,
    /// The queue from which a request is taken next.
    next: usize,
    has_ended: bool,
}

impl Queues {
    /// Opens the device, and asks for requests. Only the calling thread may use it.
    pub(super) fn open(device: &UblkDevice) -> Result<Self, Error> {
        let path = format!("/dev/ublkc{}", device.id);
        let open = Error::system(format!("open {path}"));
        let file = File::options().read(true).write(true).open(&path).map_err(open)?;
        let mailbox = Arc::new(Mailbox::new()?);
        let open = |queue| Queue::open(&file, queue, device.depth, &mailbox.wake);
        let queues = (0..device.queues).map(open).collect::<Result<_, _>>()?;
        let mut queues = Self { queues, file, mailbox, next: 0, has_ended: false };
        for queue in 0..device.queues {
            for tag in 0..device.depth {
                queues.command(io::FETCH_REQ, queue, tag, 0);
            }
        }
        queues.submit();
        Ok(queues)
    }

    pub(crate) fn mailbox(&self) -> Arc<Mailbox> {
        Arc::clone(&self.mailbox)
    }

    /// Sends answers to the kernel.
    pub(crate) fn submit(&mut self) {
        self.queues.iter_mut().for_each(Queue::submit);
    }

    /// Takes the next request. A write's data are put into `buffer`.
    pub(crate) fn take<'a>(&mut self, buffer: &'a mut [u8]) -> Taken<'a> {
        self.answer_others();
        self.submit();
        loop {
            while let Some((queue, tag)) = self.arrived() {
                let descriptor = self.queues[usize::from(queue)].descriptors.get(tag);
                if let Some(found) = self.found(queue, tag, &descriptor, buffer) {
                    let (ticket, request) = found;
                    return Taken::Request(ticket, request.with(buffer));
                }
            }
            // What is signalled from here on wakes the thread; what was before is asked for now. That
            // a ring says that it has deferred something is no reason to go on: kernels may leave that
            // flag set when there is nothing.
            self.mailbox.reset();
            self.answer_others();
            self.submit();
            if !self.queues.iter_mut().any(Queue::has_arrivals) {
                break;
            }
        }
        if self.queues.iter_mut().any(Queue::has_unsent) {
            self.mailbox.wake();
        }
        if self.has_ended { Taken::Ended } else { Taken::Nothing }
    }

    /// The queue and tag of a request that has arrived, from each queue in turn.
    fn arrived(&mut self) -> Option<(u16, u16)> {
        for _ in 0..self.queues.len() {
            let queue = self.next;
            self.next = (queue + 1) % self.queues.len();
            while let Some(done) = self.queues[queue].ring.completion().next() {
                // No device any more: it is stopped.
                if done.result() < 0 {
                    self.has_ended = true;
                    continue;
                }
                return Some((queue as u16, done.user_data() as u16));
            }
        }
        None
    }

    fn found(
        &mut self,
        queue: u16,
        tag: u16,
        descriptor: &Descriptor,
        buffer: &mut [u8],
    ) -> Option<(Ticket, Found)> {
        let (offset, length) = (descriptor.offset(), descriptor.length());
        let number = u64::from(queue) << 16 | u64::from(tag);
        let ticket = |kind| Ticket { number, kind, length: length as u32 };
        match descriptor.op() {
            op::READ => Some((ticket(TicketKind::Read), Found::Read { offset, length })),
            op::WRITE => {
                let data = &mut buffer[..length as usize];
                if self.file.read_exact_at(data, abi::data_at(queue, tag)).is_err() {
                    self.command(io::COMMIT_AND_FETCH_REQ, queue, tag, -Errno::IO.raw_os_error());
                    return None;
                }
                let bytes = 0..length as usize;
                Some((ticket(TicketKind::Write), Found::Write { offset, bytes }))
            }
            op::DISCARD | op::WRITE_ZEROES => {
                Some((ticket(TicketKind::Other), Found::Zero { offset, length }))
            }
            op::FLUSH => Some((ticket(TicketKind::Other), Found::Flush)),
            _ => {
                let error = -Errno::OPNOTSUPP.raw_os_error();
                self.command(io::COMMIT_AND_FETCH_REQ, queue, tag, error);
                None
            }
        }
    }

    /// Answers a request. The kernel gets it with the next [`submit`](Self::submit) or `take`.
    pub(crate) fn answer(&mut self, ticket: Ticket, outcome: Result<&[u8], Errno>) {
        let (queue, tag) = ((ticket.number >> 16) as u16, ticket.number as u16);
        let result = match (outcome, ticket.kind) {
            (Err(error), _) => -error.raw_os_error(),
            (Ok(data), TicketKind::Read) => {
                match self.file.write_all_at(data, abi::data_at(queue, tag)) {
                    Ok(()) => data.len() as i32,
                    Err(_) => -Errno::IO.raw_os_error(),
                }
            }
            (Ok(_), TicketKind::Write) => ticket.length as i32,
            (Ok(_), TicketKind::Other) => 0,
        };
        self.command(io::COMMIT_AND_FETCH_REQ, queue, tag, result);
    }

    fn answer_others(&mut self) {
        for (ticket, outcome) in self.mailbox.take() {
            self.answer(ticket, outcome.map(|()| &[][..]));
        }
    }

    fn command(&mut self, command: u32, queue: u16, tag: u16, result: i32) {
        let entry = opcode::UringCmd16::new(Fd(self.file.as_raw_fd()), command);
        let entry = entry.cmd(abi::io_command(queue, tag, result)).build().user_data(tag.into());
        let queue = &mut self.queues[usize::from(queue)];
        // SAFETY: the entry refers to no memory, and to a file that is open as long as the ring.
        while unsafe { queue.ring.submission().push(&entry) }.is_err() {
            // There is room for an entry of each tag: this one's before has not been sent.
            queue.submit();
        }
    }
}

impl AsFd for Queues {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.mailbox.wake.as_fd()
    }
}

const _: () = assert!(MAX_BYTES <= i32::MAX as u32);

/// A request's parts without the data.
impl Found {
    pub(crate) fn with(self, buffer: &[u8]) -> DiskRequest<'_> {
        match self {
            Self::Read { offset, length } => DiskRequest::Read { offset, length },
            Self::Write { offset, bytes } => DiskRequest::Write { offset, data: &buffer[bytes] },
            Self::Zero { offset, length } => DiskRequest::Zero { offset, length },
            Self::Flush => DiskRequest::Flush,
        }
    }
}
