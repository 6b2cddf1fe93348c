//! The back end of the engine: requests from the kernel, over ublk or FUSE.
//!
//! ```text
//!   block device ─> ublk, or loop and FUSE ─> Requests ─> Engine ─> reply
//! ```
//!
//! One thread waits both for requests and for the times at which answers are due.

mod requests;
mod work;

use std::sync::Arc;

use trimtab_serve::{Error, FlagTable, Requests, Serve};

use super::cpu_idle::UseNotifier;
use super::engine::Engine;
use super::store::Store;
use requests::KernelRequests;
pub(super) use requests::Ticket;

/// What the thread that serves a drive needs.
pub(super) struct Content {
    pub(super) engine: Arc<Engine<Ticket>>,
    pub(super) store: Arc<Store>,
    /// Which reads an array has flagged.
    pub(super) flags: Arc<FlagTable>,
    pub(super) waker: Option<UseNotifier>,
}

impl Content {
    /// What the thread that has the requests is to do.
    pub(super) fn serve(self, requests: Requests) -> Result<Serve, Error> {
        let engine = Arc::clone(&self.engine);
        let mut requests = KernelRequests::new(requests, self)?;
        Ok(Box::new(move || engine.serve(&mut requests)))
    }
}
