//! Writes metadata to the members, in a thread of its own: that may block on a slow member.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use trimtab_md::DeviceRole;
use trimtab_serve::Error;

use crate::engine::Mailbox;
use crate::member::MemberDevice;
use crate::metadata::Job;

/// A job, and the devices by place; none where one is not written to.
pub(crate) type KeeperJob = (Job, Vec<Option<Arc<MemberDevice>>>);

/// The thread. It ends when this is dropped, after what it has been given.
pub(crate) struct Keeper {
    jobs: Option<Sender<KeeperJob>>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    pub(crate) fn start(mailbox: Mailbox) -> Result<Self, Error> {
        let (jobs, queue) = channel();
        let run = move || work(&queue, &mailbox);
        let thread = std::thread::Builder::new().name("metadata".to_owned()).spawn(run);
        let thread = thread.map_err(Error::system("start a thread"))?;
        Ok(Self { jobs: Some(jobs), thread: Some(thread) })
    }

    pub(crate) fn give(&self, job: KeeperJob) {
        if let Some(jobs) = &self.jobs {
            // The thread ends with this only.
            _ = jobs.send(job);
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            _ = thread.join();
        }
    }
}

fn work(queue: &Receiver<KeeperJob>, mailbox: &Mailbox) {
    while let Ok((job, devices)) = queue.recv() {
        let version = job.version;
        let all = job.all;
        let written = write(&job, &devices);
        mailbox.post(move |engine| engine.metadata_written(version, all, written));
    }
}

/// What became of a job.
#[derive(Debug, Default)]
pub(crate) struct Written {
    /// Members that failed, with the reason. The others have what was to be written ...
    pub(crate) failed: Vec<(Arc<MemberDevice>, String)>,
    /// ... unless data could not be brought to stable storage before: then nothing was written.
    pub(crate) is_nothing: bool,
}

/// Writes to all members.
pub(crate) fn write(job: &Job, devices: &[Option<Arc<MemberDevice>>]) -> Written {
    let mut failed = Vec::new();
    let members = || {
        let all = devices.iter().zip(&job.superblocks);
        all.filter_map(|(device, superblock)| Some((device.as_ref()?, superblock.as_ref()?)))
    };
    if job.sync_first {
        // On all of them before the first bit is cleared on any.
        for (device, _) in members() {
            if let Err(error) = device.sync() {
                failed.push((Arc::clone(device), format!("a flush failed: {error}")));
            }
        }
        if !failed.is_empty() {
            return Written { failed, is_nothing: true };
        }
    }
    for (device, superblock) in members() {
        // The bitmap first: it must not be older than the superblock. Spares need none, as with md.
        let bitmap = job.bitmap.as_ref().filter(|_| superblock.role() != DeviceRole::Spare);
        let result =
            bitmap.map_or(Ok(()), |bitmap| device.metadata.write_bitmap(superblock, bitmap));
        let result = result.and_then(|()| match job.all {
            true => device.metadata.write_superblock(superblock),
            false => Ok(()),
        });
        if let Err(error) = result {
            failed.push((Arc::clone(device), error.to_string()));
        }
    }
    Written { failed, is_nothing: false }
}
