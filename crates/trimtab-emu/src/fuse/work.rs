//! What requests do to a drive's content, and the threads that do it where that waits for
//! a disk.
//!
//! Content in memory is read and written by the thread that serves the drive. Content in
//! a file may have to be fetched from a disk, and answers that are due must not wait for
//! that: workers do it, and hand the request to the model when they have.

use std::borrow::Cow;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use rustix::io::Errno;
use trimtab_io::{Nanos, Op};

use super::super::engine::{Arrived, Engine};
use super::super::store::Store;
use super::requests::{Answer, Ticket, reply};

/// Threads for one drive.
const WORKERS: usize = 2;

/// What a request does to the content.
#[derive(Debug)]
pub(super) enum Work<'a> {
    Read { offset: u64, length: u64 },
    Write { offset: u64, data: Cow<'a, [u8]> },
    Discard { offset: u64, length: u64 },
}

impl Work<'_> {
    /// The request: what it is, its first byte and its length.
    fn request(&self) -> (Op, u64, u64) {
        match self {
            Self::Read { offset, length } => (Op::Read, *offset, *length),
            Self::Write { offset, data } => (Op::Write, *offset, data.len() as u64),
            Self::Discard { offset, length } => (Op::Discard, *offset, *length),
        }
    }

    /// Does it. The request is then for the model to answer, or fails at once.
    pub(super) fn run(
        &self,
        store: &Store,
        unique: u64,
        arrival: Nanos,
    ) -> Result<Arrived<Ticket>, Errno> {
        let answer = match self {
            Self::Read { offset, length } => {
                Answer::Data(store.read(*offset, *length as usize).map_err(|e| errno(&e))?)
            }
            Self::Write { offset, data } => {
                store.write(*offset, data).map_err(|e| errno(&e))?;
                Answer::Written(data.len() as u32)
            }
            Self::Discard { offset, length } => {
                store.discard(*offset, *length).map_err(|e| errno(&e))?;
                Answer::Nothing
            }
        };
        let (op, offset, length) = self.request();
        Ok(Arrived { arrival, op, offset, length, ticket: Ticket { unique, answer } })
    }

    /// The same, for another thread.
    fn into_owned(self) -> Work<'static> {
        match self {
            Self::Read { offset, length } => Work::Read { offset, length },
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

/// Work for a worker.
struct Job {
    unique: u64,
    arrival: Nanos,
    work: Work<'static>,
}

/// Threads that read and write content by waiting for a disk. Ended when dropped.
pub(super) struct Workers {
    jobs: Option<Sender<Job>>,
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    pub(super) fn start(
        device: &Arc<OwnedFd>,
        store: &Arc<Store>,
        engine: &Arc<Engine<Ticket>>,
    ) -> io::Result<Self> {
        let (jobs, queue) = channel();
        let queue = Arc::new(Mutex::new(queue));
        let mut workers = Self { jobs: Some(jobs), threads: Vec::new() };
        for _ in 0..WORKERS {
            let (device, store, engine) =
                (Arc::clone(device), Arc::clone(store), Arc::clone(engine));
            let queue = Arc::clone(&queue);
            let run = move || work(&queue, &device, &store, &engine);
            workers.threads.push(thread::Builder::new().name("content".to_owned()).spawn(run)?);
        }
        Ok(workers)
    }

    pub(super) fn give(&self, unique: u64, arrival: Nanos, work: Work<'_>) {
        let job = Job { unique, arrival, work: work.into_owned() };
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

fn work(queue: &Mutex<Receiver<Job>>, device: &OwnedFd, store: &Store, engine: &Engine<Ticket>) {
    loop {
        let job = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Job { unique, arrival, work }) = job else { return };
        match work.run(store, unique, arrival) {
            Ok(arrived) => engine.submit(arrived),
            Err(error) => {
                count_failure(engine, error);
                reply(device, unique, Err(error));
            }
        }
    }
}

/// Counts a request that found no room for its data.
pub(super) fn count_failure(engine: &Engine<Ticket>, error: Errno) {
    if error == Errno::NOSPC {
        engine.state().figures.no_room += 1;
    }
}
