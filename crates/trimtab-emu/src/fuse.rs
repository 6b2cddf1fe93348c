//! The back end: requests from the kernel, by the FUSE file below a loop device.
//!
//! ```text
//!   block device ─> loop ─> FUSE ─> Requests ─> Engine ─> reply
//! ```
//!
//! One thread waits both for requests and for the times at which answers are due.

mod requests;
mod work;

use std::sync::Arc;

use trimtab_serve::{DeviceDirectory, Error, FlagTable, Mounted};

use super::cpu_idle::UseNotifier;
use super::engine::Engine;
use super::store::Store;
use requests::Requests;
pub(super) use requests::Ticket;

/// Mounts a file of `capacity` bytes in a drive's directory.
pub(super) fn mounted(
    directory: &DeviceDirectory,
    capacity: u64,
    engine: Arc<Engine<Ticket>>,
    store: Arc<Store>,
    flags: Arc<FlagTable>,
    waker: Option<UseNotifier>,
) -> Result<Mounted, Error> {
    Mounted::new(directory, |connection| {
        let serves = Arc::clone(&engine);
        let mut requests = Requests::new(connection, capacity, store, serves, flags, waker)?;
        let serve = move || engine.serve(&mut requests);
        let thread = std::thread::Builder::new().name("requests".to_owned()).spawn(serve);
        thread.map_err(Error::system("start a thread"))
    })
}
