//! Work on some stripes of all members at a time, in a thread of its own: resynchronising, rebuilding,
//! checking, and correcting what cannot be read.
//!
//! No write is under way to these stripes meanwhile.

use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use trimtab_array::Layout;
use trimtab_block::DirectBuffer;
use trimtab_serve::Error;

use crate::engine::Mailbox;
use crate::examine::{Examine, PAGE};
use crate::member::MemberDevice;

/// A role, a device, and where data begin on it.
pub(crate) type Target = (usize, Arc<MemberDevice>, u64);

/// What is to be done.
#[derive(Debug)]
pub(crate) struct WindowJob {
    pub(crate) layout: Layout,
    pub(crate) stripes: Range<u64>,
    /// By role, members that have what they must have, and where their data begin.
    pub(crate) members: Vec<Option<(Arc<MemberDevice>, u64)>>,
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
    jobs: Option<Sender<WindowJob>>,
    thread: Option<JoinHandle<()>>,
}

impl Windows {
    pub(crate) fn start(mailbox: Mailbox) -> Result<Self, Error> {
        let (jobs, queue) = channel();
        let run = move || work(&queue, &mailbox);
        let thread = std::thread::Builder::new().name("windows".to_owned()).spawn(run);
        let thread = thread.map_err(Error::system("start a thread"))?;
        Ok(Self { jobs: Some(jobs), thread: Some(thread) })
    }

    pub(crate) fn give(&self, job: WindowJob) {
        if let Some(jobs) = &self.jobs {
            // The thread ends with this only.
            _ = jobs.send(job);
        }
    }
}

impl Drop for Windows {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            _ = thread.join();
        }
    }
}

fn work(queue: &Receiver<WindowJob>, mailbox: &Mailbox) {
    while let Ok(job) = queue.recv() {
        let done = run(&job).unwrap_or_else(|error| WindowDone {
            lost: Some(format!("no memory: {error}")),
            ..WindowDone::default()
        });
        mailbox.post(move |engine| engine.window_done(done));
    }
}

/// Carries out a job.
fn run(job: &WindowJob) -> io::Result<WindowDone> {
    if let (true, Some(target)) = (job.is_copy, &job.target) {
        return replace(job, target);
    }
    examine(job).map(|(done, _)| done)
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
fn replace(job: &WindowJob, target: &Target) -> io::Result<WindowDone> {
    let (role, device, data_offset) = target;
    let bytes = job.bytes();
    let mut buffer = DirectBuffer::new(bytes)?;
    let mut done = WindowDone::default();
    if let Some((member, offset)) = &job.members[*role] {
        let strip = buffer.content(bytes);
        if !read(member, offset + job.start(), strip).contains(&true) {
            done.write(device, strip, data_offset + job.start());
            return Ok(done);
        }
    }
    let (mut done, mut buffers) = examine(job)?;
    if done.lost.is_none() {
        done.write(device, buffers[*role].content(bytes), data_offset + job.start());
    }
    Ok(done)
}

/// Reads all members, computes what they must have, and writes what they have not.
fn examine(job: &WindowJob) -> io::Result<(WindowDone, Vec<DirectBuffer>)> {
    let (start, bytes) = (job.start(), job.bytes());
    let mut buffers = Vec::new();
    let mut bad = vec![Vec::new(); job.members.len()];
    for (role, member) in job.members.iter().enumerate() {
        let mut buffer = DirectBuffer::new(bytes)?;
        if let Some((device, data_offset)) = member {
            bad[role] = read(device, data_offset + start, buffer.content(bytes));
        }
        buffers.push(buffer);
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
        let which = which.map_or("a member".to_owned(), |one| one.0.path.display().to_string());
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
            done.write(twin, &strips[role][range.clone()], data_offset + at);
        }
        let is_written = done.write(device, &strips[role][range], data_offset + at);
        if is_written && bad[role].contains(&true) {
            done.corrected.push(role);
        }
    }
    done.corrected.dedup();
    Ok((done, buffers))
}

impl WindowDone {
    /// Writes, or notes that the device failed.
    fn write(&mut self, device: &Arc<MemberDevice>, bytes: &[u8], at: u64) -> bool {
        let result = device.file().write_all_at(bytes, at);
        if let Err(error) = &result {
            self.failed.push((Arc::clone(device), format!("a write failed: {error}")));
        }
        result.is_ok()
    }
}

/// Reads, page by page where that fails: returns which pages cannot be read.
fn read(device: &MemberDevice, at: u64, into: &mut [u8]) -> Vec<bool> {
    if device.file().read_exact_at(into, at).is_ok() {
        return Vec::new();
    }
    let pages = into.chunks_mut(PAGE).enumerate();
    let fails = |(page, into): (usize, &mut [u8])| {
        device.file().read_exact_at(into, at + (page * PAGE) as u64).is_err()
    };
    pages.map(fails).collect()
}
