//! Writes metadata to the members, each in a thread of its own: that may block on a slow member.
//!
//! ```text
//!   engine ── job ──> metadata ── flush, then write ──> a thread for each device
//!     ▲                  │  ▲                                   │
//!     └───── written ────┘  └───────────── answers ─────────────┘
//! ```
//!
//! A job is over when all devices have answered. One that is given up is not waited for: its thread
//! ends when it answers, and keeps the device open until then.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Weak};
use std::thread::{Builder, JoinHandle};

use trimtab_md::DeviceRole;
use trimtab_serve::Error;

use crate::engine::Mailbox;
use crate::member::MemberDevice;
use crate::metadata::Job;

/// A job, and the devices by place; none where one is not written to.
pub(crate) type KeeperJob = (Job, Vec<Option<Arc<MemberDevice>>>);

/// Bytes of the stack of a device's thread, which only makes system calls.
const STACK: usize = 256 << 10;

/// The thread that has others write. It ends when this is dropped, after what it has been given.
pub(crate) struct Keeper {
    messages: Sender<Message>,
    thread: Option<JoinHandle<()>>,
}

enum Message {
    Job(KeeperJob),
    /// A device has done what it was asked for, or why it has not.
    Answer(Weak<MemberDevice>, Result<(), String>),
    /// A device is not used any more.
    GivenUp(Weak<MemberDevice>),
    End,
}

impl Keeper {
    pub(crate) fn start(mailbox: Mailbox) -> Result<Self, Error> {
        let (messages, inbox) = channel();
        let outbox = messages.clone();
        let work = Work { mailbox, outbox, writers: Vec::new(), running: None };
        let run = move || work.run(&inbox);
        let thread = Builder::new().name("metadata".to_owned()).spawn(run);
        let thread = thread.map_err(Error::system("start a thread"))?;
        Ok(Self { messages, thread: Some(thread) })
    }

    /// Has metadata written. The job before it must be over.
    pub(crate) fn give(&self, job: KeeperJob) {
        // The thread ends with this only.
        _ = self.messages.send(Message::Job(job));
    }

    /// Does not wait any more for a device, which has failed.
    pub(crate) fn give_up(&self, device: &Arc<MemberDevice>) {
        _ = self.messages.send(Message::GivenUp(Arc::downgrade(device)));
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        _ = self.messages.send(Message::End);
        if let Some(thread) = self.thread.take() {
            _ = thread.join();
        }
    }
}

/// What a device's thread does next.
type Step = Box<dyn FnOnce() -> Result<(), String> + Send>;

/// A device's thread. It ends when this is dropped, and it has answered.
struct Writer {
    device: Weak<MemberDevice>,
    steps: Sender<Step>,
}

impl Writer {
    fn start(device: Weak<MemberDevice>, answers: Sender<Message>) -> std::io::Result<Self> {
        let (steps, queue) = channel::<Step>();
        let of = Weak::clone(&device);
        let run = move || {
            while let Ok(step) = queue.recv() {
                // The step, which keeps the device open, is gone before the answer.
                let result = step();
                _ = answers.send(Message::Answer(Weak::clone(&of), result));
            }
        };
        Builder::new().name("metadata".to_owned()).stack_size(STACK).spawn(run)?;
        Ok(Self { device, steps })
    }
}

/// A job that is being carried out.
struct Running {
    job: Arc<Job>,
    devices: Vec<Option<Arc<MemberDevice>>>,
    is_flushing: bool,
    awaited: Vec<Weak<MemberDevice>>,
    failed: Vec<(Weak<MemberDevice>, String)>,
    /// A device that was given up, and may not have what it was to flush.
    is_unflushed: bool,
}

/// The state of the thread.
struct Work {
    mailbox: Mailbox,
    outbox: Sender<Message>,
    writers: Vec<Writer>,
    running: Option<Running>,
}

impl Work {
    fn run(mut self, inbox: &Receiver<Message>) {
        let mut ends = false;
        while !(ends && self.running.is_none()) {
            let Ok(message) = inbox.recv() else { return };
            match message {
                Message::Job((job, devices)) => self.begin(job, devices),
                Message::Answer(device, result) => self.answered(&device, result),
                Message::GivenUp(device) => self.give_up(&device),
                Message::End => ends = true,
            }
        }
    }

    fn begin(&mut self, job: Job, devices: Vec<Option<Arc<MemberDevice>>>) {
        self.writers.retain(|writer| writer.device.strong_count() > 0);
        let is_flushing = job.sync_first;
        self.running = Some(Running {
            job: Arc::new(job),
            devices,
            is_flushing,
            awaited: Vec::new(),
            failed: Vec::new(),
            is_unflushed: false,
        });
        self.next_step();
    }

    /// Has all devices flush, or written to.
    fn next_step(&mut self) {
        let Some(running) = &mut self.running else { return };
        let mut steps = Vec::new();
        for (place, device) in running.devices.iter().enumerate() {
            let Some(device) = device.as_ref().filter(|_| running.job.has(place)) else { continue };
            let (job, is_flushing) = (Arc::clone(&running.job), running.is_flushing);
            let (device, of) = (Arc::clone(device), Arc::downgrade(device));
            running.awaited.push(Weak::clone(&of));
            let step: Step = Box::new(move || match is_flushing {
                true => flush(&device),
                false => write_to(&job, place, &device),
            });
            steps.push((of, step));
        }
        for (of, step) in steps {
            self.give(of, step);
        }
        self.finish_step();
    }

    fn give(&mut self, device: Weak<MemberDevice>, step: Step) {
        let is_its = |writer: &Writer| writer.device.ptr_eq(&device);
        let place = self.writers.iter().position(is_its).or_else(|| {
            let writer = Writer::start(Weak::clone(&device), self.outbox.clone()).ok()?;
            self.writers.push(writer);
            Some(self.writers.len() - 1)
        });
        match place {
            // Its thread ends with the sender only.
            Some(place) => _ = self.writers[place].steps.send(step),
            // Without a thread of its own it holds up all.
            None => _ = self.outbox.send(Message::Answer(device, step())),
        }
    }

    fn answered(&mut self, device: &Weak<MemberDevice>, result: Result<(), String>) {
        let Some(running) = &mut self.running else { return };
        if !running.stop_awaiting(device) {
            return;
        }
        if let Err(why) = result {
            running.failed.push((Weak::clone(device), why));
        }
        self.finish_step();
    }

    fn give_up(&mut self, device: &Weak<MemberDevice>) {
        // Its thread ends when it has answered.
        self.writers.retain(|writer| !writer.device.ptr_eq(device));
        let Some(running) = &mut self.running else { return };
        running.is_unflushed |= running.stop_awaiting(device) && running.is_flushing;
        let is_its = |one: &Arc<MemberDevice>| std::ptr::eq(Arc::as_ptr(one), device.as_ptr());
        for place in &mut running.devices {
            place.take_if(|one| is_its(one));
        }
        self.finish_step();
    }

    /// Goes on when no device is waited for.
    fn finish_step(&mut self) {
        let Some(running) = self.running.take_if(|running| running.awaited.is_empty()) else {
            return;
        };
        let is_nothing =
            running.is_flushing && (running.is_unflushed || !running.failed.is_empty());
        if running.is_flushing && !is_nothing {
            self.running = Some(Running { is_flushing: false, ..running });
            return self.next_step();
        }
        let failed = running.failed.into_iter();
        let failed = failed.filter_map(|(device, why)| Some((device.upgrade()?, why))).collect();
        let (version, all) = (running.job.version, running.job.all);
        let written = Written { failed, is_nothing };
        self.mailbox.post(move |engine| engine.metadata_written(version, all, written));
    }
}

impl Running {
    /// A device is not waited for any more. False if it was not.
    fn stop_awaiting(&mut self, device: &Weak<MemberDevice>) -> bool {
        let place = self.awaited.iter().position(|one| one.ptr_eq(device));
        place.map(|place| self.awaited.swap_remove(place)).is_some()
    }
}

/// What became of a job.
#[derive(Debug, Default)]
pub(crate) struct Written {
    /// Members that failed, with the reason. The others, but for those that were given up, have what was
    /// to be written ...
    pub(crate) failed: Vec<(Arc<MemberDevice>, String)>,
    /// ... unless data could not be brought to stable storage before: then nothing was written.
    pub(crate) is_nothing: bool,
}

/// Writes to all members, in the calling thread.
pub(crate) fn write(job: &Job, devices: &[Option<Arc<MemberDevice>>]) -> Written {
    let all = || {
        let all = devices.iter().enumerate().filter(|(place, _)| job.has(*place));
        all.filter_map(|(place, device)| Some((place, device.as_ref()?)))
    };
    let failure = |device: &Arc<MemberDevice>, result: Result<(), String>| {
        result.err().map(|why| (Arc::clone(device), why))
    };
    if job.sync_first {
        // On all of them before the first bit is cleared on any.
        let failed: Vec<_> =
            all().filter_map(|(_, device)| failure(device, flush(device))).collect();
        if !failed.is_empty() {
            return Written { failed, is_nothing: true };
        }
    }
    let write = |(place, device)| failure(device, write_to(job, place, device));
    Written { failed: all().filter_map(write).collect(), is_nothing: false }
}

fn flush(device: &MemberDevice) -> Result<(), String> {
    device.sync().map_err(|error| format!("a flush failed: {error}"))
}

/// Writes what a job has for the device at this place.
fn write_to(job: &Job, place: usize, device: &MemberDevice) -> Result<(), String> {
    let Some(superblock) = &job.superblocks[place] else { return Ok(()) };
    let write = || {
        // The bitmap first: it must not be older than the superblock. Spares need none, as with md.
        if let Some(bitmap) = &job.bitmap
            && superblock.role() != DeviceRole::Spare
        {
            device.metadata.write_bitmap(superblock, bitmap)?;
        }
        if job.all { device.metadata.write_superblock(superblock) } else { Ok(()) }
    };
    write().map_err(|error| error.to_string())
}
