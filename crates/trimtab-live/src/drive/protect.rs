//! A process that serves I/O must not wait for I/O: to get memory the kernel would
//! write out dirty pages, to the very drive that waits for the memory.

use rustix::mm::MlockAllFlags;

use super::error::Error;

/// Keeps the process's memory in memory, and tells the kernel that it serves I/O, so
/// that an allocation never waits for a disk (`PR_SET_IO_FLUSHER`). Threads that are
/// started later inherit that.
pub(super) fn serve_io() -> Result<(), Error> {
    // Pages are locked as they are touched: thread stacks and the buffers for the
    // largest requests mostly are not.
    let flags = MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT;
    rustix::mm::mlockall(flags).map_err(Error::system("lock the server's memory (mlockall)"))?;
    rustix::process::configure_io_flusher_behavior(true)
        .map_err(Error::system("tell the kernel that this serves I/O (PR_SET_IO_FLUSHER)"))?;
    // A drive does not get slower because programs compute. Not vital.
    _ = rustix::process::setpriority_process(None, -19);
    Ok(())
}
