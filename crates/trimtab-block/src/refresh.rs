//! The thread that examines files and stacks of devices again: one for all readers of a
//! process.
//!
//! Mapping a fragmented file takes milliseconds, and may have to read from a drive; examining
//! a stack of devices takes some system calls. Reads never wait for that: they queue a request
//! here, and use the previous result. The thread starts with the first request, and ends when
//! there has been none for a second.

use std::io;
use std::process;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError, Weak};
use std::thread;
use std::time::Duration;

/// Something that is examined again periodically.
pub(crate) trait Refresh: Send + Sync {
    /// Examines it. May block.
    fn refresh(&self);
}

/// The thread's name, as in `top -H`.
pub(crate) const NAME: &str = "trimtab-places";
/// The thread ends after this time without requests.
const IDLE: Duration = Duration::from_secs(1);
/// Capacity of the queue. A request that does not fit is repeated later.
const ROOM: usize = 256;

/// The thread, from the side of those that send requests.
struct Walker {
    /// The process that started it: a thread does not survive `fork(2)`.
    process: u32,
    queue: SyncSender<Weak<dyn Refresh>>,
}

static WALKER: Mutex<Option<Walker>> = Mutex::new(None);

/// Requests an examination. Returns false if the request could not be queued without blocking;
/// try again later.
pub(crate) fn ask(what: Weak<dyn Refresh>) -> bool {
    let Ok(mut walker) = WALKER.try_lock() else { return false };
    if walker.as_ref().is_some_and(|walker| walker.process != process::id()) {
        // Its locks may be held by threads that do not exist in this process.
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

/// The last pending request. If there is none, the next request starts another thread.
fn last(asked: &Receiver<Weak<dyn Refresh>>) -> Option<Weak<dyn Refresh>> {
    // Excludes new requests while this is held.
    let mut walker = WALKER.lock().unwrap_or_else(PoisonError::into_inner);
    let last = asked.try_recv().ok();
    if last.is_none() {
        *walker = None;
    }
    last
}
