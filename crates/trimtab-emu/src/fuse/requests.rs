//! Requests from the kernel's FUSE device, and answers to it.

use std::borrow::Cow;
use std::io::IoSlice;
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use trimtab_io::{Nanos, Op};

use super::super::content::Payload;
use super::super::cpu_idle::UseNotifier;
use super::super::engine::{Answer as _, BackEnd, DueAnswer, Engine, Incoming, WakeEvent};
use super::super::error::Error;
use super::super::flush::{ByModel, Flusher};
use super::super::store::Store;
use super::super::{clock, engine};
use super::wire::{self, Attributes, Call, Message};
use super::work::{Work, Workers, count_failure};
use super::{FILE, MAX_IN_FLIGHT};

/// The inode of the only file.
const DISK: u64 = 2;
/// The granularity of discards.
const BLOCK: u32 = 4096;
/// The longest read or write; the kernel splits longer ones.
const MAX_BYTES: u32 = 1 << 20;
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
    device: Arc<OwnedFd>,
    unique: u64,
}

impl engine::Answer for FlushReply {
    fn done(self) {
        reply(&self.device, self.unique, Ok(&[]));
    }

    fn failed(self) {
        reply(&self.device, self.unique, Err(Errno::IO));
    }
}

/// The file system: one file, the drive.
pub(super) struct Requests {
    device: Arc<OwnedFd>,
    /// Buffer for the longest message.
    message: Box<[u8]>,
    disk: Disk,
}

/// The file.
struct Disk {
    capacity: u64,
    device: Arc<OwnedFd>,
    store: Arc<Store>,
    flusher: Flusher<FlushReply>,
    engine: Arc<Engine<Ticket>>,
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
        device: Arc<OwnedFd>,
        capacity: u64,
        store: Arc<Store>,
        engine: Arc<Engine<Ticket>>,
        waker: Option<UseNotifier>,
    ) -> Result<Self, Error> {
        let start = || Workers::start(&device, &store, &engine);
        let workers = store.is_slow().then(start).transpose();
        let workers = workers.map_err(Error::system("start a thread"))?;
        let flusher = Flusher::start(Arc::clone(&store))?;
        let kernel = Arc::clone(&device);
        let disk = Disk { capacity, device: kernel, store, flusher, engine, waker, workers };
        // Includes the header of a write, and spare space, as the kernel requires.
        let message = vec![0; MAX_BYTES as usize + 4096].into();
        Ok(Self { device, message, disk })
    }

    fn reply(&self, unique: u64, outcome: Result<&[u8], Errno>) {
        reply(&self.device, unique, outcome);
    }
}

/// An error is ignored: the kernel may have dropped the request, and nothing waits for the answer.
pub(super) fn reply(device: &OwnedFd, unique: u64, outcome: Result<&[u8], Errno>) {
    let header = wire::header(unique, outcome.map(<[u8]>::len));
    let parts = [IoSlice::new(&header), IoSlice::new(outcome.unwrap_or_default())];
    _ = rustix::io::writev(device, &parts);
}

impl BackEnd for Requests {
    type Ticket = Ticket;

    fn take(&mut self, incoming: &mut Vec<Incoming<Ticket>>) -> ControlFlow<()> {
        while incoming.len() < BATCH {
            let length = match rustix::io::read(&self.device, &mut *self.message) {
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
            Answer::Written(bytes) => self.reply(unique, Ok(&wire::wrote(bytes))),
        }
    }

    fn wait(&mut self, wake: &WakeEvent, until: Option<Nanos>) {
        let timeout = until.map(|until| {
            let Nanos(ns) = until.since(clock::now());
            Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 }
        });
        let mut waiting =
            [PollFd::new(&self.device, PollFlags::IN), PollFd::new(wake, PollFlags::IN)];
        // An error here is an error of the device too, which `take` reports.
        _ = poll(&mut waiting, timeout.as_ref());
        if !waiting[1].revents().is_empty() {
            wake.clear();
        }
    }
}

impl Disk {
    fn outcome(&self, message: &Message<'_>, arrival: Nanos) -> Outcome {
        let attributes = || self.attributes(message.inode);
        match message.call {
            Call::Init { major, flags } => {
                let page = rustix::param::page_size() as u32;
                let answer = wire::initialised(major, flags, MAX_IN_FLIGHT, MAX_BYTES, page);
                answer.map_or(Outcome::Refusal(Errno::PROTO), Outcome::Answer)
            }
            Call::Lookup { name } if message.inode == wire::ROOT && name == FILE.as_bytes() => {
                Outcome::Answer(wire::entry(&self.attributes(DISK)))
            }
            Call::Lookup { .. } => Outcome::Refusal(Errno::NOENT),
            Call::GetAttributes => Outcome::Answer(wire::attributes(&attributes())),
            // The loop device takes its discard granularity from here.
            Call::StatFs => {
                Outcome::Answer(wire::filesystem(self.capacity / u64::from(BLOCK), BLOCK))
            }
            Call::Open if message.inode == DISK => Outcome::Answer(wire::opened()),
            Call::Open => Outcome::Refusal(Errno::ISDIR),
            // Sent when a file is closed; no flush of the drive's buffer.
            Call::Flush | Call::Release => Outcome::Answer(Vec::new()),
            Call::Notice => Outcome::Silence,
            Call::Other => Outcome::Refusal(Errno::NOSYS),
            Call::Sync => self.flush(message.unique, arrival),
            Call::Read { offset, size } => {
                let offset = offset.min(self.capacity);
                let length = u64::from(size).min(self.capacity - offset);
                self.work(message.unique, arrival, Work::Read { offset, length })
            }
            Call::Write { offset, data } if self.within(offset, data.len() as u64) => {
                let work = Work::Write { offset, data: Cow::Borrowed(data) };
                self.work(message.unique, arrival, work)
            }
            Call::Write { .. } => Outcome::Refusal(Errno::NOSPC),
            // Discards, and zeroing without data.
            Call::Allocate { offset, length, mode } if makes_zeroes(mode) => {
                if self.within(offset, length) {
                    self.work(message.unique, arrival, Work::Discard { offset, length })
                } else {
                    Outcome::Refusal(Errno::INVAL)
                }
            }
            Call::Allocate { .. } => Outcome::Refusal(Errno::OPNOTSUPP),
        }
    }

    fn flush(&self, unique: u64, arrival: Nanos) -> Outcome {
        let reply = FlushReply { device: Arc::clone(&self.device), unique };
        match self.flusher.begin(reply) {
            Ok(flush) => {
                let ticket = Ticket { unique, answer: Answer::Flush(flush) };
                Outcome::Request(Incoming { arrival, op: Op::Flush, offset: 0, length: 0, ticket })
            }
            Err(reply) => {
                reply.failed();
                Outcome::Silence
            }
        }
    }

    fn attributes(&self, inode: u64) -> Attributes {
        const FILE_OF_ROOT: u32 = 0o100_600;
        const DIRECTORY_OF_ROOT: u32 = 0o040_700;
        match inode {
            DISK => Attributes { inode, size: self.capacity, mode: FILE_OF_ROOT, block: BLOCK },
            _ => Attributes { inode, size: 0, mode: DIRECTORY_OF_ROOT, block: BLOCK },
        }
    }

    /// Whether a range lies within the drive.
    fn within(&self, offset: u64, length: u64) -> bool {
        offset.checked_add(length).is_some_and(|end| end <= self.capacity)
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

fn makes_zeroes(mode: u32) -> bool {
    let mode = FallocateFlags::from_bits_retain(mode);
    mode.intersects(FallocateFlags::PUNCH_HOLE | FallocateFlags::ZERO_RANGE)
}
