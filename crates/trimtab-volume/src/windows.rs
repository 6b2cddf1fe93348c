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

/// What is to be done.
#[derive(Debug)]
pub(crate) struct WindowJob {
    pub(crate) layout: Layout,
    pub(crate) stripes: Range<u64>,
    /// By role, members that have what they must have, and where their data begin.
    pub(crate) members: Vec<Option<(Arc<MemberDevice>, u64)>>,
    /// A member that gets what it must have.
    pub(crate) target: Option<(usize, Arc<MemberDevice>, u64)>,
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
    /// Members that failed, and how.
    pub(crate) failed: Vec<(usize, String)>,
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
    let chunk = job.layout.chunk();
    let start = job.stripes.start * chunk;
    let bytes = ((job.stripes.end - job.stripes.start) * chunk) as usize;
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
        done.lost = Some(format!("{which} cannot be read at byte {} of data", stripe * chunk));
    }
    for (role, range) in examined.writes {
        let target = job.target.as_ref().filter(|target| target.0 == role);
        let (device, data_offset) = match (target, &job.members[role]) {
            (Some((_, device, data_offset)), _) | (None, Some((device, data_offset))) => {
                (device, data_offset)
            }
            (None, None) => continue,
        };
        let at = data_offset + start + range.start as u64;
        match device.file().write_all_at(&strips[role][range], at) {
            Ok(()) if bad[role].contains(&true) => done.corrected.push(role),
            Ok(()) => {}
            Err(error) => {
                done.failed.push((role, format!("a write failed: {error}")));
            }
        }
    }
    done.corrected.dedup();
    Ok(done)
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
