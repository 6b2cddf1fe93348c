//! The thread that maps files: one for all readers of a process.
//!
//! A fragmented file takes milliseconds to map, and a drive may have to be read for it. No
//! read waits for that: it queues the file here, and is decided by the old map. The thread
//! starts with the first file in the queue, and ends after a second without one.

use std::io;
use std::process;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use super::Layout;

/// As others see it (`top -H`).
pub(super) const NAME: &str = "trimtab-places";
/// It ends after this long without work.
const IDLE: Duration = Duration::from_secs(1);
/// Files that may wait. One that finds no room asks again.
const ROOM: usize = 256;

/// The thread, as those that ask see it.
struct Walker {
    /// A thread does not follow its process through `fork(2)`.
    process: u32,
    queue: SyncSender<Weak<Layout>>,
}

static WALKER: Mutex<Option<Walker>> = Mutex::new(None);

/// Has a file looked over before long. False if that could not be said without waiting:
/// to be tried again.
pub(super) fn ask(layout: &Arc<Layout>) -> bool {
    let Ok(mut walker) = WALKER.try_lock() else { return false };
    if walker.as_ref().is_some_and(|walker| walker.process != process::id()) {
        // Its locks may be held by threads that this process has not.
        std::mem::forget(walker.take());
    }
    if walker.is_none() {
        *walker = start().ok();
    }
    walker.as_ref().is_some_and(|walker| walker.queue.try_send(Arc::downgrade(layout)).is_ok())
}

fn start() -> io::Result<Walker> {
    let (queue, asked) = sync_channel(ROOM);
    thread::Builder::new().name(NAME.to_owned()).spawn(move || run(&asked))?;
    Ok(Walker { process: process::id(), queue })
}

fn run(asked: &Receiver<Weak<Layout>>) {
    loop {
        let next = asked.recv_timeout(IDLE).ok().or_else(|| last(asked));
        let Some(layout) = next else { return };
        // Its reader may be gone by now.
        if let Some(layout) = layout.upgrade() {
            layout.walk();
        }
    }
}

/// A file that was queued at the last moment. If there is none, the next caller starts
/// another thread.
fn last(asked: &Receiver<Weak<Layout>>) -> Option<Weak<Layout>> {
    // No caller queues a file while this is held.
    let mut walker = WALKER.lock().unwrap_or_else(PoisonError::into_inner);
    let last = asked.try_recv().ok();
    if last.is_none() {
        *walker = None;
    }
    last
}
