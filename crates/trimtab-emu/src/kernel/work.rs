//! What requests do to a drive's content, and worker threads for content that may block.
//!
//! The serving thread reads and writes content in memory. Content in a file may have to come from a
//! disk, and due answers must not wait for that: workers access it, and then submit the request to
//! the model.

use std::borrow::Cow;
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use rustix::io::Errno;
use trimtab_io::{Nanos, Op};
use trimtab_serve::{self as serve, Flag, Replier};

use super::super::engine::{Engine, Incoming};
use super::super::store::Store;
use super::requests::{Answer, Ticket};

/// Worker threads per drive.
const WORKERS: usize = 2;

/// An access to the content.
#[derive(Debug)]
pub(super) enum Work<'a> {
    Read { offset: u64, length: u64, flag: Option<Flag> },
    Write { offset: u64, data: Cow<'a, [u8]> },
    Discard { offset: u64, length: u64 },
}

impl Work<'_> {
    /// The request's operation, first byte and length.
    fn request(&self) -> (Op, u64, u64) {
        match self {
            Self::Read { offset, length, .. } => (Op::Read, *offset, *length),
            Self::Write { offset, data } => (Op::Write, *offset, data.len() as u64),
            Self::Discard { offset, length } => (Op::Discard, *offset, *length),
        }
    }

    /// Runs it. The model then answers the request, or it fails at once.
    pub(super) fn run(
        &self,
        store: &Store,
        ticket: serve::Ticket,
        arrival: Nanos,
    ) -> Result<Incoming<Ticket>, Errno> {
        let answer = match self {
            Self::Read { offset, length, .. } => {
                Answer::Data(store.read(*offset, *length as usize).map_err(|e| errno(&e))?)
            }
            Self::Write { offset, data } => {
                store.write(*offset, data).map_err(|e| errno(&e))?;
                Answer::Nothing
            }
            Self::Discard { offset, length } => {
                store.discard(*offset, *length).map_err(|e| errno(&e))?;
                Answer::Nothing
            }
        };
        let (op, offset, length) = self.request();
        let ticket = Ticket { ticket, answer };
        let flag = if let Self::Read { flag, .. } = self { *flag } else { None };
        Ok(Incoming { arrival, op, offset, length, ticket, flag })
    }

    /// A copy with its own data, for another thread.
    fn into_owned(self) -> Work<'static> {
        match self {
            Self::Read { offset, length, flag } => Work::Read { offset, length, flag },
            Self::Write { offset, data } => {
                Work::Write { offset, data: Cow::Owned(data.into_owned()) }
            }
            Self::Discard { offset, length } => Work::Discard { offset, length },
        }
    }
}

fn errno(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

/// An access for a worker.
struct Job {
    ticket: serve::Ticket,
    arrival: Nanos,
    work: Work<'static>,
}

/// Threads that access content and may block on a disk. Ended when dropped.
pub(super) struct Workers {
    jobs: Option<Sender<Job>>,
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    pub(super) fn start(
        replier: &Replier,
        store: &Arc<Store>,
        engine: &Arc<Engine<Ticket>>,
    ) -> io::Result<Self> {
        let (jobs, queue) = channel();
        let queue = Arc::new(Mutex::new(queue));
        let mut workers = Self { jobs: Some(jobs), threads: Vec::new() };
        for _ in 0..WORKERS {
            let (replier, store, engine) = (replier.clone(), Arc::clone(store), Arc::clone(engine));
            let queue = Arc::clone(&queue);
            let run = move || work(&queue, &replier, &store, &engine);
            workers.threads.push(thread::Builder::new().name("content".to_owned()).spawn(run)?);
        }
        Ok(workers)
    }

    pub(super) fn give(&self, ticket: serve::Ticket, arrival: Nanos, work: Work<'_>) {
        let job = Job { ticket, arrival, work: work.into_owned() };
        let jobs = self.jobs.as_ref().expect("is there until it is dropped");
        jobs.send(job).expect("workers live until this is dropped");
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.jobs = None;
        self.threads.drain(..).for_each(|thread| _ = thread.join());
    }
}

fn work(queue: &Mutex<Receiver<Job>>, replier: &Replier, store: &Store, engine: &Engine<Ticket>) {
    loop {
        let job = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Job { ticket, arrival, work }) = job else { return };
        match work.run(store, ticket, arrival) {
            Ok(arrived) => engine.submit(arrived),
            Err(error) => {
                count_failure(engine, error);
                replier.reply(ticket, Err(error));
            }
        }
    }
}

/// Counts a request without space for its data.
pub(super) fn count_failure(engine: &Engine<Ticket>, error: Errno) {
    if error == Errno::NOSPC {
        engine.state().figures.no_room += 1;
    }
}
