//! Work on some stripes of all members at a time, in a thread of its own: resynchronising, rebuilding,
//! checking, and correcting what cannot be read.
//!
//! No write is under way to these stripes meanwhile. So a thread that waits for a member that has failed is
//! left alone ([`Windows::give_up`]): when the member answers it finds that out, and writes nothing. Until
//! then it keeps no other device open.

use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;

use trimtab_array::Layout;
use trimtab_block::DirectBuffer;
use trimtab_serve::Error;

use crate::engine::{Mailbox, warn};
use crate::examine::{Examine, PAGE};
use crate::member::MemberDevice;

/// A role, a device, and where data begin on it.
pub(crate) type Target = (usize, Weak<MemberDevice>, u64);

/// What is to be done.
#[derive(Debug)]
pub(crate) struct WindowJob {
    pub(crate) layout: Layout,
    pub(crate) stripes: Range<u64>,
    /// By role, members that have what they must have, and where their data begin.
    pub(crate) members: Vec<Option<(Weak<MemberDevice>, u64)>>,
    /// A device that gets what the member of this role must have.
    pub(crate) target: Option<Target>,
    /// The target replaces a member that is there: it is copied, if it can be read.
    pub(crate) is_copy: bool,
    /// A device that gets all that is written to the member of this role.
    pub(crate) twin: Option<Target>,
    /// Whether what does not fit is made to fit: parity to data, copies to the first.
    pub(crate) fixes: bool,
}

/// What was done.
#[derive(Debug, Default)]
pub(crate) struct WindowDone {
    /// Stripes in which parity did not fit, or copies differed.
    pub(crate) mismatches: u64,
    /// Members of which something could not be read, and was written.
    pub(crate) corrected: Vec<usize>,
    /// Devices that failed, and how.
    pub(crate) failed: Vec<(Arc<MemberDevice>, String)>,
    /// Too little could be read to compute the rest of a stripe.
    pub(crate) lost: Option<String>,
}

/// The thread. It ends when this is dropped, after what it has been given.
pub(crate) struct Windows {
    mailbox: Mailbox,
    thread: Worker,
    /// The last job, with its devices.
    last: Option<(Arc<Gate>, Vec<Weak<MemberDevice>>)>,
}

/// A thread with a queue.
struct Worker {
    jobs: Option<Sender<(WindowJob, Arc<Gate>)>>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread and the engine agree on: that nothing is written once a job was given up.
#[derive(Debug, Default)]
pub(crate) struct Gate(Mutex<Doing>);

#[derive(Debug, Default)]
struct Doing {
    /// The device that is being written to.
    writes_to: Option<Weak<MemberDevice>>,
    is_given_up: bool,
    /// The engine has ended the window: it expects nothing any more.
    engine_left: bool,
    /// The thread has ended it.
    thread_done: bool,
}

/// The job has been given up, or the device is not used any more.
#[derive(Debug)]
struct GivenUp;

/// When a job ends that has been given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// What is being written, if anything, is on the device that has failed.
    Now,
    /// The thread is writing to another device, or has done everything: it says when.
    Soon,
}

impl Gate {
    fn with<T>(&self, what: impl FnOnce(&mut Doing) -> T) -> T {
        // Each change is a single one: none is half made.
        what(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn is_given_up(&self) -> bool {
        self.with(|doing| doing.is_given_up)
    }

    /// Writes to a device, unless the job has been given up before.
    fn write<T>(
        &self,
        device: &Weak<MemberDevice>,
        write: impl FnOnce(&Arc<MemberDevice>) -> T,
    ) -> Result<T, GivenUp> {
        let open = self.with(|doing| {
            let open = device.upgrade().filter(|_| !doing.is_given_up).ok_or(GivenUp)?;
            doing.writes_to = Some(Weak::clone(device));
            Ok(open)
        })?;
        let result = write(&open);
        self.with(|doing| doing.writes_to = None);
        Ok(result)
    }

    /// The thread has ended the job. False if the engine does not expect it any more.
    fn done(&self) -> bool {
        self.with(|doing| {
            doing.thread_done = true;
            !doing.engine_left
        })
    }

    /// Gives the job up because this device has failed.
    fn give_up(&self, device: &Weak<MemberDevice>) -> End {
        self.with(|doing| {
            doing.is_given_up = true;
            let is_harmless = doing.writes_to.as_ref().is_none_or(|one| one.ptr_eq(device));
            doing.engine_left |= is_harmless && !doing.thread_done;
            if doing.engine_left { End::Now } else { End::Soon }
        })
    }
}

impl Windows {
    pub(crate) fn start(mailbox: Mailbox) -> Result<Self, Error> {
        let thread = Worker::start(mailbox.clone()).map_err(Error::system("start a thread"))?;
        Ok(Self { mailbox, thread, last: None })
    }

    pub(crate) fn give(&mut self, job: WindowJob) {
        let gate = Arc::new(Gate::default());
        let targets = [&job.target, &job.twin].into_iter().flatten().map(|target| &target.1);
        let devices = job.members.iter().flatten().map(|member| &member.0).chain(targets);
        self.last = Some((Arc::clone(&gate), devices.map(Weak::clone).collect()));
        if let Some(jobs) = &self.thread.jobs {
            // The thread ends with this only.
            _ = jobs.send((job, gate));
        }
    }

    /// The last job has ended.
    pub(crate) fn ended(&mut self) {
        self.last = None;
    }

    /// Gives the last job up if it may wait for this device, which has failed.
    pub(crate) fn give_up(&mut self, device: &Arc<MemberDevice>) -> Option<End> {
        let device = Arc::downgrade(device);
        let waits = |devices: &[Weak<MemberDevice>]| devices.iter().any(|one| one.ptr_eq(&device));
        let (gate, _) = self.last.as_ref().filter(|last| waits(&last.1))?;
        // Without another thread for the next job it is waited for.
        let next = match Worker::start(self.mailbox.clone()) {
            Ok(next) => next,
            Err(error) => {
                warn(format_args!("no thread can be started: work waits for a member: {error}"));
                return None;
            }
        };
        let end = gate.give_up(&device);
        if end == End::Now {
            // It is not joined: it may wait for ever.
            self.thread.thread = None;
            self.thread = next;
        }
        Some(end)
    }
}

impl Worker {
    fn start(mailbox: Mailbox) -> io::Result<Self> {
        let (jobs, queue) = channel();
        let run = move || work(&queue, &mailbox);
        let thread = std::thread::Builder::new().name("windows".to_owned()).spawn(run)?;
        Ok(Self { jobs: Some(jobs), thread: Some(thread) })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            _ = thread.join();
        }
    }
}

fn work(queue: &Receiver<(WindowJob, Arc<Gate>)>, mailbox: &Mailbox) {
    while let Ok((job, gate)) = queue.recv() {
        let done = run(&job, &gate).unwrap_or_else(|error| WindowDone {
            lost: Some(format!("no memory: {error}")),
            ..WindowDone::default()
        });
        drop(job);
        if gate.done() {
            mailbox.post(move |engine| engine.window_done(done));
        }
    }
}

/// Carries out a job.
fn run(job: &WindowJob, gate: &Gate) -> io::Result<WindowDone> {
    if let (true, Some(target)) = (job.is_copy, &job.target) {
        return replace(job, gate, target);
    }
    examine(job, gate).map(|(done, _)| done)
}

impl WindowJob {
    /// The first byte, from where data begin.
    const fn start(&self) -> u64 {
        self.stripes.start * self.layout.chunk()
    }

    /// Bytes of each member.
    const fn bytes(&self) -> usize {
        ((self.stripes.end - self.stripes.start) * self.layout.chunk()) as usize
    }
}

/// Copies a member to what replaces it. What cannot be read of it is computed.
fn replace(job: &WindowJob, gate: &Gate, target: &Target) -> io::Result<WindowDone> {
    let (role, device, data_offset) = target;
    let bytes = job.bytes();
    let mut buffer = DirectBuffer::new(bytes)?;
    let mut done = WindowDone::default();
    if let Some((member, offset)) = &job.members[*role] {
        let strip = buffer.content(bytes);
        if !read(gate, member, offset + job.start(), strip).contains(&true) {
            done.write(gate, device, strip, data_offset + job.start());
            return Ok(done);
        }
    }
    let (mut done, mut buffers) = examine(job, gate)?;
    // Not all is read of a job that has been given up.
    if done.lost.is_none() && !gate.is_given_up() {
        done.write(gate, device, buffers[*role].content(bytes), data_offset + job.start());
    }
    Ok(done)
}

/// Reads all members, computes what they must have, and writes what they have not.
fn examine(job: &WindowJob, gate: &Gate) -> io::Result<(WindowDone, Vec<DirectBuffer>)> {
    let (start, bytes) = (job.start(), job.bytes());
    let mut buffers = Vec::new();
    let mut bad = vec![Vec::new(); job.members.len()];
    for (role, member) in job.members.iter().enumerate() {
        let mut buffer = DirectBuffer::new(bytes)?;
        if let Some((device, data_offset)) = member {
            bad[role] = read(gate, device, data_offset + start, buffer.content(bytes));
        }
        buffers.push(buffer);
        if gate.is_given_up() {
            return Ok((WindowDone::default(), buffers));
        }
    }
    let mut strips: Vec<&mut [u8]> =
        buffers.iter_mut().map(|buffer| buffer.content(bytes)).collect();
    let examined = Examine {
        layout: &job.layout,
        first: job.stripes.start,
        present: &job.members.iter().map(Option::is_some).collect::<Vec<_>>(),
        bad: &bad,
        target: job.target.as_ref().map(|target| target.0),
        fixes: job.fixes,
    }
    .run(&mut strips);
    let mut done = WindowDone { mismatches: examined.mismatches, ..WindowDone::default() };
    if let Some(stripe) = examined.lost {
        let unreadable = (0..bad.len()).find(|&role| bad[role].contains(&true));
        let which = unreadable.and_then(|role| job.members[role].as_ref());
        let which = which.and_then(|one| one.0.upgrade());
        let which = which.map_or("a member".to_owned(), |one| one.path.display().to_string());
        let at = stripe * job.layout.chunk();
        done.lost = Some(format!("{which} cannot be read at byte {at} of data"));
    }
    for (role, range) in examined.writes {
        let target = job.target.as_ref().filter(|target| target.0 == role);
        let (device, data_offset) = match (&job.members[role], target) {
            (Some((device, data_offset)), _) | (None, Some((_, device, data_offset))) => {
                (device, data_offset)
            }
            (None, None) => continue,
        };
        let at = start + range.start as u64;
        if let Some((_, twin, data_offset)) = job.twin.as_ref().filter(|twin| twin.0 == role) {
            done.write(gate, twin, &strips[role][range.clone()], data_offset + at);
        }
        let is_written = done.write(gate, device, &strips[role][range], data_offset + at);
        if is_written && bad[role].contains(&true) {
            done.corrected.push(role);
        }
    }
    done.corrected.dedup();
    Ok((done, buffers))
}

impl WindowDone {
    /// Writes, or notes that the device failed. False if it has not been written.
    fn write(&mut self, gate: &Gate, device: &Weak<MemberDevice>, bytes: &[u8], at: u64) -> bool {
        let write = |device: &Arc<MemberDevice>| {
            let written = device.file().write_all_at(bytes, at);
            written.map_err(|error| (Arc::clone(device), format!("a write failed: {error}")))
        };
        match gate.write(device, write) {
            Ok(Ok(())) => true,
            Ok(Err(failed)) => {
                self.failed.push(failed);
                false
            }
            Err(GivenUp) => false,
        }
    }
}

/// Reads, page by page where that fails: returns which pages cannot be read.
fn read(gate: &Gate, device: &Weak<MemberDevice>, at: u64, into: &mut [u8]) -> Vec<bool> {
    let Some(device) = device.upgrade() else {
        return vec![true; into.len().div_ceil(PAGE)];
    };
    if device.file().read_exact_at(into, at).is_ok() {
        return Vec::new();
    }
    let pages = into.chunks_mut(PAGE).enumerate();
    let fails = |(page, into): (usize, &mut [u8])| {
        gate.is_given_up() || device.file().read_exact_at(into, at + (page * PAGE) as u64).is_err()
    };
    pages.map(fails).collect()
}
