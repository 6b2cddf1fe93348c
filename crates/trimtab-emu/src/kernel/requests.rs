//! Requests from the kernel, and answers to it.

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use trimtab_io::{Nanos, Op};
use trimtab_serve::{self as serve, DiskRequest, Error, FlagTable, Replier, Requests, Taken};

use super::super::content::Payload;
use super::super::cpu_idle::UseNotifier;
use super::super::engine::{Answer as _, BackEnd, DueAnswer, Engine, Incoming, WakeEvent};
use super::super::flush::{ByModel, Flusher};
use super::super::store::Store;
use super::super::{clock, engine};
use super::Content;
use super::work::{Work, Workers, count_failure};

/// Requests taken at once, at most, before the model's time is advanced.
const BATCH: usize = 32;

/// An outstanding request of the kernel.
pub(crate) struct Ticket {
    pub(super) ticket: serve::Ticket,
    pub(super) answer: Answer,
}

/// The answer to a completed request.
pub(super) enum Answer {
    Nothing,
    Data(Payload),
    Flush(ByModel<FlushReply>),
}

/// Answers a flush, possibly from another thread.
pub(super) struct FlushReply {
    replier: Replier,
    ticket: serve::Ticket,
}

impl engine::Answer for FlushReply {
    fn done(self) {
        self.replier.reply(self.ticket, Ok(()));
    }

    fn failed(self) {
        self.replier.reply(self.ticket, Err(Errno::IO));
    }
}

/// The requests of the drive's block device.
pub(super) struct KernelRequests {
    requests: Requests,
    disk: Disk,
}

/// What they are about.
struct Disk {
    replier: Replier,
    store: Arc<Store>,
    flusher: Flusher<FlushReply>,
    engine: Arc<Engine<Ticket>>,
    /// Which reads an array has flagged.
    flags: Arc<FlagTable>,
    waker: Option<UseNotifier>,
    /// Threads for content that may block on a disk.
    workers: Option<Workers>,
}

/// What becomes of a request.
enum Outcome {
    /// Answered at the model's time.
    Request(Incoming<Ticket>),
    /// Fails at once.
    Refusal(Errno),
    /// Another thread answers it, or it has been answered.
    Silence,
}

impl KernelRequests {
    pub(super) fn new(requests: Requests, content: Content) -> Result<Self, Error> {
        let Content { engine, store, flags, waker } = content;
        let replier = requests.replier();
        let start = || Workers::start(&replier, &store, &engine);
        let workers = store.is_slow().then(start).transpose();
        let workers = workers.map_err(Error::system("start a thread"))?;
        let flusher = Flusher::start(Arc::clone(&store))?;
        let disk = Disk { replier, store, flusher, engine, flags, waker, workers };
        Ok(Self { requests, disk })
    }
}

impl BackEnd for KernelRequests {
    type Ticket = Ticket;

    fn take(&mut self, incoming: &mut Vec<Incoming<Ticket>>) -> ControlFlow<()> {
        while incoming.len() < BATCH {
            let (ticket, request) = match self.requests.take() {
                Taken::Request(ticket, request) => (ticket, request),
                Taken::Nothing => break,
                Taken::Ended => return ControlFlow::Break(()),
            };
            match self.disk.outcome(ticket, request, clock::now()) {
                Outcome::Request(request) => incoming.push(request),
                Outcome::Refusal(errno) => self.requests.answer(ticket, Err(errno)),
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
        let DueAnswer { ticket: Ticket { ticket, answer }, fails } = ready;
        match answer {
            Answer::Flush(flush) if fails => flush.failed(),
            Answer::Flush(flush) => flush.done(),
            _ if fails => self.requests.answer(ticket, Err(Errno::IO)),
            Answer::Nothing => self.requests.answer(ticket, Ok(&[])),
            Answer::Data(payload) => self.requests.answer(ticket, Ok(payload.bytes())),
        }
    }

    fn wait(&mut self, wake: &WakeEvent, until: Option<Nanos>) {
        let timeout = until.map(|until| {
            let Nanos(ns) = until.since(clock::now());
            Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 }
        });
        let mut waiting =
            [PollFd::new(&self.requests, PollFlags::IN), PollFd::new(wake, PollFlags::IN)];
        // An error here is an error of the device too, which `take` reports.
        _ = poll(&mut waiting, timeout.as_ref());
        if !waiting[1].revents().is_empty() {
            wake.clear();
        }
    }
}

impl Disk {
    fn outcome(&self, ticket: serve::Ticket, request: DiskRequest<'_>, arrival: Nanos) -> Outcome {
        match request {
            DiskRequest::Flush => self.flush(ticket, arrival),
            DiskRequest::Read { offset, length } => {
                let flag = self.flags.find(offset, length);
                self.work(ticket, arrival, Work::Read { offset, length, flag })
            }
            DiskRequest::Write { offset, data } => {
                self.work(ticket, arrival, Work::Write { offset, data: Cow::Borrowed(data) })
            }
            DiskRequest::Zero { offset, length } => {
                self.work(ticket, arrival, Work::Discard { offset, length })
            }
        }
    }

    fn flush(&self, ticket: serve::Ticket, arrival: Nanos) -> Outcome {
        let reply = FlushReply { replier: self.replier.clone(), ticket };
        match self.flusher.begin(reply) {
            Ok(flush) => {
                let ticket = Ticket { ticket, answer: Answer::Flush(flush) };
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
    fn work(&self, ticket: serve::Ticket, arrival: Nanos, work: Work<'_>) -> Outcome {
        if let Some(workers) = &self.workers {
            workers.give(ticket, arrival, work);
            return Outcome::Silence;
        }
        match work.run(&self.store, ticket, arrival) {
            Ok(request) => Outcome::Request(request),
            Err(error) => {
                count_failure(&self.engine, error);
                Outcome::Refusal(error)
            }
        }
    }
}
