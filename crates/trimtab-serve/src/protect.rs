//! Protects a server from memory pressure. A process that serves I/O must not wait for I/O: to free
//! memory the kernel would write dirty pages, to the very drive that waits for the memory.

use std::io;
use std::path::Path;

use rustix::mm::MlockAllFlags;

/// `MemAvailable`, bytes, if the kernel reports it.
#[must_use]
pub fn available_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib << 10)
}

/// Whether this process's control group, or one above it, has a limit of memory. Of groups of version 2:
/// those of version 1 do not make writers wait.
pub(crate) fn memory_is_limited() -> bool {
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/"));
    own.is_some_and(|own| is_limited(Path::new("/sys/fs/cgroup"), own))
}

/// Whether this group below `root`, or one above it, has a limit of memory.
fn is_limited(root: &Path, group: &str) -> bool {
    let group = root.join(group);
    let groups = group.ancestors().take_while(|group| group.starts_with(root));
    let mut limits = groups.filter_map(|at| std::fs::read_to_string(at.join("memory.max")).ok());
    limits.any(|limit| limit.trim() != "max")
}

/// Favours this process over programs that compute, which would slow the device. Failure is
/// harmless.
fn favour() {
    const NICE: i32 = -19;
    _ = rustix::process::setpriority_process(None, NICE);
    // With autogroups (sched(7)) that counts within the session only, and sessions are equal. One
    // that is not this process's own has others' programs in it.
    let own = rustix::process::getpid().as_raw_nonzero().get();
    // SAFETY: no pointer is passed. The session of a guest's first process is 0, which is none for
    // rustix.
    if unsafe { libc::getsid(0) } == own {
        _ = std::fs::write("/proc/self/autogroup", NICE.to_string());
    }
}

/// Locks the process's memory, and marks it as an I/O server (`PR_SET_IO_FLUSHER`), so that its
/// allocations never wait for a disk. Threads started later inherit both.
///
/// Containers often lack the capabilities for this. The device still works then, except under memory
/// pressure. Returns what could not be set, in words.
#[must_use]
pub fn serve_io() -> Vec<String> {
    // Locked on fault: thread stacks and buffers for the largest requests are mostly untouched.
    let flags = MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT;
    let locked = rustix::mm::mlockall(flags);
    let told = rustix::process::configure_io_flusher_behavior(true);
    favour();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_of_any_group_above_counts() {
        let root = tempfile::tempdir().unwrap();
        let set = |group: &str, limit: &str| {
            let path = root.path().join(group);
            std::fs::create_dir_all(&path).unwrap();
            std::fs::write(path.join("memory.max"), limit).unwrap();
        };
        set("user/shell", "max\n");
        assert!(!is_limited(root.path(), "user/shell") && !is_limited(root.path(), ""));
        set("user", "67108864\n");
        assert!(is_limited(root.path(), "user/shell") && is_limited(root.path(), "user"));
        set("other", "max\n");
        assert!(!is_limited(root.path(), "other") && !is_limited(root.path(), "none"));
    }
}
