//! The thread that looks files and stacks of devices over: one for all readers of a process.
//!
//! A file in many pieces takes milliseconds to look over, and a drive may have to be
//! read for it; a stack of devices takes some system calls. No read waits for that: it leaves word here, and is decided by what was
//! known before. The thread starts with the first word, and ends when there has been
//! none for a second.

use std::io;
use std::process;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError, Weak};
use std::thread;
use std::time::Duration;

/// What is looked over now and then.
pub(crate) trait Refresh: Send + Sync {
    /// Looks it over. Takes its time.
    fn refresh(&self);
}

/// As others see it (`top -H`).
pub(crate) const NAME: &str = "trimtab-places";
/// It ends after so long without work.
const IDLE: Duration = Duration::from_secs(1);
/// What may wait. One that finds no room asks again.
const ROOM: usize = 256;

/// The thread, as those that ask see it.
struct Walker {
    /// A thread does not follow its process through `fork(2)`.
    process: u32,
    queue: SyncSender<Weak<dyn Refresh>>,
}

static WALKER: Mutex<Option<Walker>> = Mutex::new(None);

/// Has something looked over before long. False if that could not be said without waiting:
/// to be tried again.
pub(crate) fn ask(what: Weak<dyn Refresh>) -> bool {
    let Ok(mut walker) = WALKER.try_lock() else { return false };
    if walker.as_ref().is_some_and(|walker| walker.process != process::id()) {
        // Its locks may be held by threads that this process has not.
        std::mem::forget(walker.take());
    }
    if walker.is_none() {
        *walker = start().ok();
    }
    walker.as_ref().is_some_and(|walker| walker.queue.try_send(what).is_ok())
}

fn start() -> io::Result<Walker> {
    let (queue, asked) = sync_channel(ROOM);
    thread::Builder::new().name(NAME.to_owned()).spawn(move || run(&asked))?;
    Ok(Walker { process: process::id(), queue })
}

fn run(asked: &Receiver<Weak<dyn Refresh>>) {
    loop {
        let next = asked.recv_timeout(IDLE).ok().or_else(|| last(asked));
        let Some(next) = next else { return };
        // Its reader may be gone by now.
        if let Some(what) = next.upgrade() {
            what.refresh();
        }
    }
}

/// What was asked in the last moment. If nothing was, the next one who asks starts
/// another thread.
fn last(asked: &Receiver<Weak<dyn Refresh>>) -> Option<Weak<dyn Refresh>> {
    // Nobody asks while this is held.
    let mut walker = WALKER.lock().unwrap_or_else(PoisonError::into_inner);
    let last = asked.try_recv().ok();
    if last.is_none() {
        *walker = None;
    }
    last
}
