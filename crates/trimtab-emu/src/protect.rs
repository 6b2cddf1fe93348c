//! A process that serves I/O must not wait for I/O: to get memory the kernel would
//! write out dirty pages, to the very drive that waits for the memory.

use std::io;

use rustix::mm::MlockAllFlags;

/// The memory that can be had without taking it from others, bytes, if the kernel says.
pub(super) fn available_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib << 10)
}

/// Keeps the process's memory in memory, and tells the kernel that it serves I/O, so
/// that an allocation never waits for a disk (`PR_SET_IO_FLUSHER`). Threads that are
/// started later inherit that.
///
/// Containers often lack the capabilities for this. A drive is still of use then, as
/// long as memory is not short; what is missing is returned, in words.
pub(super) fn serve_io() -> Vec<String> {
    // Pages are locked as they are touched: thread stacks and the buffers for the
    // largest requests mostly are not.
    let flags = MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT;
    let locked = rustix::mm::mlockall(flags);
    let told = rustix::process::configure_io_flusher_behavior(true);
    // A drive does not get slower because programs compute. Not vital.
    _ = rustix::process::setpriority_process(None, -19);
    let missing = |what: &str, result: rustix::io::Result<()>| {
        let error = io::Error::from(result.err()?);
        Some(format!("{what}: {error}"))
    };
    [
        missing("its memory is not locked (mlockall, CAP_IPC_LOCK)", locked),
        missing("the kernel may make it wait for I/O (PR_SET_IO_FLUSHER, CAP_SYS_RESOURCE)", told),
    ]
    .into_iter()
    .flatten()
    .collect()
}
