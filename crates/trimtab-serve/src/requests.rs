//! The seam between a server and the kernel: requests come, answers go, by ticket.
//!
//! ```text
//!              ┌ take ──> DiskRequest, Ticket ┐
//!   Requests ──┤                              ├── the server's thread
//!              └ answer <── Ticket, data ─────┘
//! ```
//!
//! Both back ends are behind it, FUSE's connection and ublk's queues. The server's thread waits for
//! the file descriptor together with whatever else it waits for. Other threads answer by a
//! [`Replier`].

use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use rustix::io::Errno;

use crate::error::Error;
use crate::fuse::{Connection, FuseRequests};
use crate::ublk::{self, Mailbox, Queues, UblkDevice};

/// A request to a device, within its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskRequest<'a> {
    /// Reads; the answer are the bytes.
    Read {
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u64,
    },
    /// Writes.
    Write {
        /// First byte.
        offset: u64,
        /// What is written.
        data: &'a [u8],
    },
    /// Discards, and zeroing without data: the bytes read as zeroes afterwards.
    Zero {
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u64,
    },
    /// What has been answered is to be on stable storage.
    Flush,
}

/// By which a request is answered, once.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ticket {
    /// The kernel's number of it.
    pub(crate) number: u64,
    pub(crate) kind: TicketKind,
    /// Bytes of a read or write.
    pub(crate) length: u32,
}

/// What the kernel expects in the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum TicketKind {
    Read,
    Write,
    #[default]
    Other,
}

/// What was taken.
#[derive(Debug)]
pub enum Taken<'a> {
    /// A request.
    Request(Ticket, DiskRequest<'a>),
    /// None has arrived.
    Nothing,
    /// No more will arrive: the device is being taken down.
    Ended,
}

/// A request whose data are in a buffer.
#[derive(Debug)]
pub(crate) enum Found {
    Read { offset: u64, length: u64 },
    Write { offset: u64, bytes: Range<usize> },
    Zero { offset: u64, length: u64 },
    Flush,
}

/// What the thread that serves a device opens.
#[derive(Debug)]
pub(crate) enum Link {
    Fuse(FuseRequests),
    Ublk(UblkDevice),
}

/// A device's requests, for the thread that serves it.
pub struct Requests {
    side: Side,
    /// For the longest message.
    buffer: Box<[u8]>,
}

enum Side {
    Fuse(FuseRequests),
    Ublk(Box<Queues>),
}

impl Requests {
    pub(crate) fn open(link: Link) -> Result<Self, Error> {
        let (side, bytes) = match link {
            Link::Fuse(requests) => (Side::Fuse(requests), Connection::MESSAGE_BYTES),
            Link::Ublk(device) => (Side::Ublk(Box::new(device.open()?)), ublk::MAX_BYTES as usize),
        };
        Ok(Self { side, buffer: vec![0; bytes].into() })
    }

    /// Takes the next request, without waiting.
    pub fn take(&mut self) -> Taken<'_> {
        match &mut self.side {
            Side::Fuse(requests) => requests.take(&mut self.buffer),
            Side::Ublk(queues) => queues.take(&mut self.buffer),
        }
    }

    /// Answers a request; with the data of a read, otherwise with nothing. The kernel may get it
    /// only with the next [`take`](Self::take) or [`submit`](Self::submit).
    pub fn answer(&mut self, ticket: Ticket, outcome: Result<&[u8], Errno>) {
        match &mut self.side {
            Side::Fuse(requests) => requests.connection().answer(ticket, outcome),
            Side::Ublk(queues) => queues.answer(ticket, outcome),
        }
    }

    /// Sends the answers to the kernel that it has not got.
    pub fn submit(&mut self) {
        if let Side::Ublk(queues) = &mut self.side {
            queues.submit();
        }
    }

    /// Answers from any thread.
    #[must_use]
    pub fn replier(&self) -> Replier {
        Replier(match &self.side {
            Side::Fuse(requests) => Way::Fuse(requests.connection().clone()),
            Side::Ublk(queues) => Way::Ublk(queues.mailbox()),
        })
    }
}

impl AsFd for Requests {
    /// Readable when there is something to take.
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.side {
            Side::Fuse(requests) => requests.connection().as_fd(),
            Side::Ublk(queues) => queues.as_fd(),
        }
    }
}

impl std::fmt::Debug for Requests {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Requests").finish_non_exhaustive()
    }
}

/// Answers requests from any thread, without data.
#[derive(Clone, Debug)]
pub struct Replier(Way);

#[derive(Clone, Debug)]
enum Way {
    Fuse(Connection),
    Ublk(Arc<Mailbox>),
}

impl Replier {
    /// Answers a request that has no data to return, or with an error.
    pub fn reply(&self, ticket: Ticket, outcome: Result<(), Errno>) {
        match &self.0 {
            Way::Fuse(connection) => connection.answer(ticket, outcome.map(|()| &[][..])),
            Way::Ublk(mailbox) => mailbox.reply(ticket, outcome),
        }
    }
}
