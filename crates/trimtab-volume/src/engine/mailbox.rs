//! What other threads have the engine's thread do.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use rustix::event::{EventfdFlags, eventfd};
use trimtab_serve::Error;

use super::Engine;

/// Something for the engine's thread to do.
pub(crate) type Task = Box<dyn FnOnce(&mut Engine) -> Result<(), Fatal> + Send>;

/// Why the engine cannot go on. The server then ends, as if it had been killed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fatal {
    #[error("{0}")]
    Ring(#[from] trimtab_uring::Error),
    #[error("no memory for requests: {0}")]
    Memory(std::io::Error),
    #[error("the planner asks for what cannot be computed: {0:?}")]
    Planner(trimtab_array::TooManyLost),
}

/// Sends tasks to the engine's thread.
#[derive(Clone)]
pub(crate) struct Mailbox {
    tasks: Sender<Task>,
    wake: Arc<OwnedFd>,
}

impl Mailbox {
    /// If the engine has ended, the task is dropped.
    pub(crate) fn post(
        &self,
        task: impl FnOnce(&mut Engine) -> Result<(), Fatal> + Send + 'static,
    ) {
        _ = self.tasks.send(Box::new(task));
        // Fails only if it is signalled already.
        _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }
}

/// The eventfd, as a file of the ring.
pub(super) struct Wake(pub(super) Arc<OwnedFd>);

impl AsFd for Wake {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Tasks may be sent before the engine runs.
pub(crate) struct Inbox {
    pub(crate) mailbox: Mailbox,
    pub(super) tasks: Receiver<Task>,
    pub(super) wake: Arc<OwnedFd>,
}

impl Inbox {
    pub(crate) fn new() -> Result<Self, Error> {
        let wake = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC);
        let wake = Arc::new(wake.map_err(Error::system("make an eventfd"))?);
        let (sender, tasks) = channel();
        Ok(Self { mailbox: Mailbox { tasks: sender, wake: Arc::clone(&wake) }, tasks, wake })
    }
}
