//! The queues of a device, for the thread that serves it.
//!
//! Each tag of each queue has a command in an io_uring: it completes when the tag has a request, and
//! is sent again with the answer. One thread has all queues in one ring; its file descriptor is
//! readable when there is something to take. Data are bytes of the character device.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::sync::{Arc, Mutex, PoisonError};

use io_uring::types::Fd;
use io_uring::{IoUring, opcode, squeue};
use rustix::event::{EventfdFlags, PollFlags, eventfd};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::MAX_BYTES;
use super::abi::{self, Descriptor, MAX_DEPTH, io, op};
use super::control::UblkDevice;
use crate::error::Error;
use crate::requests::{DiskRequest, Found, Taken, Ticket, TicketKind};

/// The number of the ring's entry that waits for other threads.
const TAG_WAKE: u64 = u64::MAX;

/// Answers of other threads: only the thread that serves a queue may send them.
#[derive(Debug)]
pub(crate) struct Mailbox {
    answers: Mutex<Vec<(Ticket, Result<(), Errno>)>>,
    wake: OwnedFd,
}

impl Mailbox {
    pub(crate) fn reply(&self, ticket: Ticket, outcome: Result<(), Errno>) {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).push((ticket, outcome));
        // Fails only if it is signalled already.
        _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    fn take(&self) -> Vec<(Ticket, Result<(), Errno>)> {
        _ = rustix::io::read(&self.wake, &mut [0; 8]);
        std::mem::take(&mut *self.answers.lock().unwrap_or_else(PoisonError::into_inner))
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

/// The queues.
pub(crate) struct Queues {
    ring: IoUring,
    file: File,
    descriptors: Vec<Descriptors>,
    mailbox: Arc<Mailbox>,
    has_ended: bool,
}

impl Queues {
    /// Opens the device, and asks for requests. Only the calling thread may use it.
    pub(super) fn open(device: &UblkDevice) -> Result<Self, Error> {
        let path = format!("/dev/ublkc{}", device.id);
        let failed = |what: &str| Error::system(format!("{what} {path}"));
        let file = File::options().read(true).write(true).open(&path).map_err(failed("open"))?;
        let tags = u32::from(device.queues) * u32::from(device.depth);
        let entries = (tags + 1).next_power_of_two();
        let ring = IoUring::builder().setup_single_issuer().dontfork().build(entries);
        let ring = ring.map_err(Error::system("set up an io_uring for ublk"))?;
        let map = |queue| Descriptors::map(&file, queue, device.depth);
        let descriptors = (0..device.queues).map(map).collect::<Result<_, _>>();
        let descriptors = descriptors.map_err(|e| failed("map")(e.into()))?;
        let wake = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC);
        let wake = wake.map_err(Error::system("make an eventfd"))?;
        let mailbox = Arc::new(Mailbox { answers: Mutex::default(), wake });
        let mut queues = Self { ring, file, descriptors, mailbox, has_ended: false };
        for queue in 0..device.queues {
            for tag in 0..device.depth {
                queues.command(io::FETCH_REQ, queue, tag, 0);
            }
        }
        queues.listen();
        queues.submit();
        Ok(queues)
    }

    pub(crate) fn mailbox(&self) -> Arc<Mailbox> {
        Arc::clone(&self.mailbox)
    }

    /// Sends answers to the kernel.
    pub(crate) fn submit(&mut self) {
        if !self.ring.submission().is_empty() && self.ring.submit().is_err() {
            // Interrupted, or out of memory: the next call sends them.
        }
    }

    /// Takes the next request. A write's data are put into `buffer`.
    pub(crate) fn take<'a>(&mut self, buffer: &'a mut [u8]) -> Taken<'a> {
        self.submit();
        loop {
            let Some(done) = self.ring.completion().next() else { break };
            let number = done.user_data();
            if number == TAG_WAKE {
                self.answer_others();
                continue;
            }
            // No device any more: it is stopped.
            if done.result() < 0 {
                self.has_ended = true;
                continue;
            }
            let (queue, tag) = ((number >> 16) as u16, number as u16);
            let descriptor = self.descriptors[usize::from(queue)].get(tag);
            if let Some(found) = self.found(queue, tag, &descriptor, buffer) {
                let (ticket, request) = found;
                return Taken::Request(ticket, request.with(buffer));
            }
        }
        if self.has_ended { Taken::Ended } else { Taken::Nothing }
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
        self.listen();
        self.submit();
    }

    /// Has the ring's completion wake the thread when another one answers.
    fn listen(&mut self) {
        let poll =
            opcode::PollAdd::new(Fd(self.mailbox.wake.as_raw_fd()), PollFlags::IN.bits().into());
        self.push(&poll.build().user_data(TAG_WAKE));
    }

    fn command(&mut self, command: u32, queue: u16, tag: u16, result: i32) {
        let entry = opcode::UringCmd16::new(Fd(self.file.as_raw_fd()), command);
        let number = u64::from(queue) << 16 | u64::from(tag);
        let entry = entry.cmd(abi::io_command(queue, tag, result)).build().user_data(number);
        self.push(&entry);
    }

    fn push(&mut self, entry: &squeue::Entry) {
        // SAFETY: the entries refer to no memory, and to files that are open as long as the ring.
        while unsafe { self.ring.submission().push(entry) }.is_err() {
            // There is room for an entry of each tag: this one's before has not been sent.
            self.submit();
        }
    }
}

impl AsFd for Queues {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the ring has it open for as long as it is borrowed.
        unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) }
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
