//! The slots of a thread: the one that it reads with, and those of abandoned reads.

use std::cell::RefCell;
use std::io;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Once};

use rustix::io::Errno;

use super::slot::{Outcome, Slot};
use super::{Ask, Came};

/// Completed slots that a thread keeps for reuse.
const KEPT: usize = 2;

thread_local! {
    static SLOTS: RefCell<Slots> = const { RefCell::new(Slots::NONE) };
}

/// How often this process has been forked.
static FORKS: AtomicU32 = AtomicU32::new(0);

struct Slots {
    /// The fork that they belong to: a child cannot use its parent's.
    fork: u32,
    idle: Vec<Arc<Slot>>,
    /// Slots of abandoned reads. `Outstanding` shares them until they have completed.
    left: Vec<Arc<Slot>>,
    /// io_uring is not available to this thread.
    has_none: bool,
}

/// Reads with a slot of this thread. `None` if io_uring is not available, or the thread is
/// about to end.
pub(super) fn read(ask: &Ask<'_>, into: &mut [MaybeUninit<u8>]) -> Option<Came> {
    let read = |slots: &RefCell<Slots>| slots.try_borrow_mut().ok()?.read(ask, into);
    SLOTS.try_with(read).ok().flatten()
}

impl Slots {
    const NONE: Self = Self { fork: 0, idle: Vec::new(), left: Vec::new(), has_none: false };

    fn read(&mut self, ask: &Ask<'_>, into: &mut [MaybeUninit<u8>]) -> Option<Came> {
        let mut slot = self.take()?;
        let ours = Arc::get_mut(&mut slot).expect("an idle slot is not shared");
        match ours.read(ask, into) {
            Outcome::Done(read) => {
                self.idle.push(slot);
                Some(Came::Read(read))
            }
            Outcome::Left => {
                self.left.push(Arc::clone(&slot));
                Some(Came::Late(Some(slot)))
            }
            Outcome::Unsent => None,
        }
    }

    fn take(&mut self) -> Option<Arc<Slot>> {
        if self.fork != FORKS.load(Relaxed) {
            self.forget();
        }
        if !self.left.is_empty() {
            self.reclaim();
        }
        if let Some(slot) = self.idle.pop() {
            return Some(slot);
        }
        if self.has_none {
            return None;
        }
        watch_forks();
        match Slot::new() {
            Ok(slot) => Some(Arc::new(slot)),
            Err(e) => {
                self.has_none = is_permanent(&e);
                None
            }
        }
    }

    /// Reclaims slots whose reads have completed and are no longer counted.
    fn reclaim(&mut self) {
        let Self { idle, left, .. } = self;
        left.retain_mut(|slot| {
            let has_ended = Arc::get_mut(slot).is_some_and(Slot::reclaim);
            if has_ended && idle.len() < KEPT {
                idle.push(Arc::clone(slot));
            }
            !has_ended
        });
    }

    /// They belong to the parent: they must not be used here, not even closed.
    fn forget(&mut self) {
        std::mem::forget((std::mem::take(&mut self.idle), std::mem::take(&mut self.left)));
        (self.fork, self.has_none) = (FORKS.load(Relaxed), false);
    }
}

impl Drop for Slots {
    /// The thread ends. Reads that have not completed stay with `Outstanding`; one that is no
    /// longer counted, and not quite complete, is leaked.
    fn drop(&mut self) {
        if self.fork != FORKS.load(Relaxed) {
            return self.forget();
        }
        self.reclaim();
        for mut slot in self.left.drain(..) {
            if Arc::get_mut(&mut slot).is_some() {
                std::mem::forget(slot);
            }
        }
    }
}

fn watch_forks() {
    extern "C" fn in_child() {
        FORKS.fetch_add(1, Relaxed);
    }
    static WATCH: Once = Once::new();
    // SAFETY: the function only increments a number. If registration fails for lack of memory,
    // the kernel refuses reads of a child.
    WATCH.call_once(|| _ = unsafe { libc::pthread_atfork(None, None, Some(in_child)) });
}

/// Whether io_uring is unavailable to this process, rather than temporarily out of memory.
fn is_permanent(error: &io::Error) -> bool {
    let for_now = [Errno::NOMEM, Errno::MFILE, Errno::NFILE, Errno::AGAIN, Errno::INTR];
    !Errno::from_io_error(error).is_some_and(|errno| for_now.contains(&errno))
}
