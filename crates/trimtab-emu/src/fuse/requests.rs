//! Requests from the kernel's FUSE device, and answers to it.

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use trimtab_io::{Nanos, Op};
use trimtab_serve::{
    Connection, Error, FileRequest, FlagTable, Handled, Message, ServedFile, wrote,
};

use super::super::content::Payload;
use super::super::cpu_idle::UseNotifier;
use super::super::engine::{Answer as _, BackEnd, DueAnswer, Engine, Incoming, WakeEvent};
use super::super::flush::{ByModel, Flusher};
use super::super::store::Store;
use super::super::{clock, engine};
use super::work::{Work, Workers, count_failure};

/// Requests taken at once, at most, before the model's time is advanced.
const BATCH: usize = 32;

/// An outstanding request of the kernel.
pub(crate) struct Ticket {
    pub(super) unique: u64,
    pub(super) answer: Answer,
}

/// The answer to a completed request.
pub(super) enum Answer {
    Nothing,
    Data(Payload),
    Written(u32),
    Flush(ByModel<FlushReply>),
}

/// Answers a flush, possibly from another thread.
pub(super) struct FlushReply {
    connection: Connection,
    unique: u64,
}

impl engine::Answer for FlushReply {
    fn done(self) {
        self.connection.reply(self.unique, Ok(&[]));
    }

    fn failed(self) {
        self.connection.reply(self.unique, Err(Errno::IO));
    }
}

/// The file system: one file, the drive.
pub(super) struct Requests {
    connection: Connection,
    /// Buffer for the longest message.
    message: Box<[u8]>,
    disk: Disk,
}

/// The file.
struct Disk {
    served: ServedFile,
    connection: Connection,
    store: Arc<Store>,
    flusher: Flusher<FlushReply>,
    engine: Arc<Engine<Ticket>>,
    /// Which reads an array has flagged.
    flags: Arc<FlagTable>,
    waker: Option<UseNotifier>,
    /// Threads for content that may block on a disk.
    workers: Option<Workers>,
}

/// The result of a message.
enum Outcome {
    /// Answered at the model's time.
    Request(Incoming<Ticket>),
    /// Answered at once.
    Answer(Vec<u8>),
    Refusal(Errno),
    /// No answer is needed, or a worker sends it.
    Silence,
}

impl Requests {
    /// Serves a file of `capacity` bytes over a mounted FUSE device.
    pub(super) fn new(
        connection: Connection,
        capacity: u64,
        store: Arc<Store>,
        engine: Arc<Engine<Ticket>>,
        flags: Arc<FlagTable>,
        waker: Option<UseNotifier>,
    ) -> Result<Self, Error> {
        let start = || Workers::start(&connection, &store, &engine);
        let workers = store.is_slow().then(start).transpose();
        let workers = workers.map_err(Error::system("start a thread"))?;
        let flusher = Flusher::start(Arc::clone(&store))?;
        let served = ServedFile { capacity, makes_zeroes: true };
        let disk = Disk {
            served,
            connection: connection.clone(),
            store,
            flusher,
            engine,
            flags,
            waker,
            workers,
        };
        let message = vec![0; Connection::MESSAGE_BYTES].into();
        Ok(Self { connection, message, disk })
    }

    fn reply(&self, unique: u64, outcome: Result<&[u8], Errno>) {
        self.connection.reply(unique, outcome);
    }
}

impl BackEnd for Requests {
    type Ticket = Ticket;

    fn take(&mut self, incoming: &mut Vec<Incoming<Ticket>>) -> ControlFlow<()> {
        while incoming.len() < BATCH {
            let length = match self.connection.receive(&mut self.message) {
                Ok(length) => length,
                Err(Errno::AGAIN) => break,
                // The request was dropped meanwhile, or a signal arrived.
                Err(Errno::NOENT | Errno::INTR) => continue,
                // Unmounted or aborted.
                Err(_) => return ControlFlow::Break(()),
            };
            let arrival = clock::now();
            let Some(message) = Message::parse(&self.message[..length]) else { continue };
            let unique = message.unique;
            match self.disk.outcome(&message, arrival) {
                Outcome::Request(request) => incoming.push(request),
                Outcome::Answer(bytes) => self.reply(unique, Ok(&bytes)),
                Outcome::Refusal(errno) => self.reply(unique, Err(errno)),
                Outcome::Silence => {}
            }
        }
        if let Some(waker) = &self.disk.waker
            && let Some(last) = incoming.last()
        {
            waker.used(last.arrival);
        }
        ControlFlow::Continue(())
    }

    fn answer(&mut self, ready: DueAnswer<Ticket>) {
        let DueAnswer { ticket: Ticket { unique, answer }, fails } = ready;
        match answer {
            Answer::Flush(flush) if fails => flush.failed(),
            Answer::Flush(flush) => flush.done(),
            _ if fails => self.reply(unique, Err(Errno::IO)),
            Answer::Nothing => self.reply(unique, Ok(&[])),
            Answer::Data(payload) => self.reply(unique, Ok(payload.bytes())),
            Answer::Written(bytes) => self.reply(unique, Ok(&wrote(bytes))),
        }
    }

    fn wait(&mut self, wake: &WakeEvent, until: Option<Nanos>) {
        let timeout = until.map(|until| {
            let Nanos(ns) = until.since(clock::now());
            Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 }
        });
        let mut waiting =
            [PollFd::new(&self.connection, PollFlags::IN), PollFd::new(wake, PollFlags::IN)];
        // An error here is an error of the device too, which `take` reports.
        _ = poll(&mut waiting, timeout.as_ref());
        if !waiting[1].revents().is_empty() {
            wake.clear();
        }
    }
}

impl Disk {
    fn outcome(&self, message: &Message<'_>, arrival: Nanos) -> Outcome {
        let unique = message.unique;
        match self.served.handle(message) {
            Handled::Answer(bytes) => Outcome::Answer(bytes),
            Handled::Refusal(errno) => Outcome::Refusal(errno),
            Handled::Silence => Outcome::Silence,
            Handled::Request(FileRequest::Flush) => self.flush(unique, arrival),
            Handled::Request(FileRequest::Read { offset, length }) => {
                let flag = self.flags.find(offset, length);
                self.work(unique, arrival, Work::Read { offset, length, flag })
            }
            Handled::Request(FileRequest::Write { offset, data }) => {
                self.work(unique, arrival, Work::Write { offset, data: Cow::Borrowed(data) })
            }
            Handled::Request(FileRequest::Zero { offset, length }) => {
                self.work(unique, arrival, Work::Discard { offset, length })
            }
        }
    }

    fn flush(&self, unique: u64, arrival: Nanos) -> Outcome {
        let reply = FlushReply { connection: self.connection.clone(), unique };
        match self.flusher.begin(reply) {
            Ok(flush) => {
                let ticket = Ticket { unique, answer: Answer::Flush(flush) };
                Outcome::Request(Incoming {
                    arrival,
                    op: Op::Flush,
                    offset: 0,
                    length: 0,
                    ticket,
                    flag: None,
                })
            }
            Err(reply) => {
                reply.failed();
                Outcome::Silence
            }
        }
    }

    /// Accesses the content while the model's latency elapses.
    fn work(&self, unique: u64, arrival: Nanos, work: Work<'_>) -> Outcome {
        if let Some(workers) = &self.workers {
            workers.give(unique, arrival, work);
            return Outcome::Silence;
        }
        match work.run(&self.store, unique, arrival) {
            Ok(request) => Outcome::Request(request),
            Err(error) => {
                count_failure(&self.engine, error);
                Outcome::Refusal(error)
            }
        }
    }
}
