//! The process that holds a device's lock: its condition, and how to end it.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// Whether a process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    Lives,
    /// Stopped by a signal or a debugger.
    Stopped,
    /// Killed. It may still wait in the kernel.
    Dying,
}

/// The process that a lock file names, verified to hold the lock on that file.
pub(crate) struct Holder {
    pid: Pid,
    /// A pidfd: refers to that process even if its number is reused.
    process: OwnedFd,
}

impl Holder {
    /// `None` if it has ended, or is not visible to this process.
    pub(crate) fn of(lock: &Path) -> Option<Self> {
        let pid = fs::read_to_string(lock).ok()?.trim().parse().ok()?;
        let pid = Pid::from_raw(pid)?;
        let process = pidfd_open(pid, PidfdFlags::empty()).ok()?;
        // Checked after the pidfd is open: then the lock belongs to that process, or to none.
        let path = fs::canonicalize(lock).ok()?;
        tasks(pid).iter().any(|task| has_locked(task, &path)).then_some(Self { pid, process })
    }

    pub(crate) const fn pid(&self) -> Pid {
        self.pid
    }

    pub(crate) fn condition(&self) -> Condition {
        condition(self.pid)
    }

    /// Kills it. The lock shows when it has ended.
    pub(crate) fn kill(&self) -> rustix::io::Result<()> {
        pidfd_send_signal(&self.process, Signal::KILL)
    }
}

fn condition(pid: Pid) -> Condition {
    let of = |what| fs::read_to_string(format!("/proc/{}/{what}", pid.as_raw_nonzero()));
    let read = of("stat").and_then(|stat| Ok(read_condition(&stat, &of("status")?)));
    read.unwrap_or(Condition::Dying)
}

/// The condition, from procfs (proc_pid_stat(5), proc_pid_status(5)).
fn read_condition(stat: &str, status: &str) -> Condition {
    const PF_EXITING: u32 = 4;
    // After the name, which may contain anything: state is field 3, flags are 9.
    let mut fields = stat.rsplit_once(") ").map_or("", |(_, rest)| rest).split(' ');
    let state = fields.next().unwrap_or_default();
    let flags = fields.nth(5).and_then(|flags| flags.parse::<u32>().ok()).unwrap_or_default();
    // A process that waits in the kernel has the kill signal still pending.
    let is_killed = |key| {
        let set = status.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
        let set = set.and_then(|set| u64::from_str_radix(set, 16).ok());
        set.is_some_and(|set| set & 1 << (Signal::KILL.as_raw() - 1) != 0)
    };
    match state {
        // Includes a thread-group leader that has ended before other threads.
        "" | "Z" | "X" => Condition::Dying,
        _ if is_killed("SigPnd:") || is_killed("ShdPnd:") => Condition::Dying,
        "T" | "t" => Condition::Stopped,
        _ if flags & PF_EXITING != 0 => Condition::Dying,
        _ => Condition::Lives,
    }
}

/// The procfs directories of its threads.
fn tasks(pid: Pid) -> Vec<PathBuf> {
    let tasks = fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero()));
    tasks.map_or_else(|_| Vec::new(), |tasks| tasks.flatten().map(|task| task.path()).collect())
}

/// Whether a task has a file open on which it holds an exclusive lock, by procfs: the files
/// themselves may be on any file system.
fn has_locked(task: &Path, path: &Path) -> bool {
    let Ok(open) = fs::read_dir(task.join("fd")) else { return false };
    open.flatten().any(|fd| {
        let info = || fs::read_to_string(task.join("fdinfo").join(fd.file_name()));
        fs::read_link(fd.path()).is_ok_and(|file| file == path)
            && info().is_ok_and(|info| {
                let is_exclusive =
                    |line: &str| line.starts_with("lock:") && line.contains(" WRITE ");
                info.lines().any(is_exclusive)
            })
    })
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::{Child, Command, Stdio};
    use std::time::{Duration, Instant};

    use rustix::fs::{FlockOperation, flock};

    use super::*;

    /// A process that holds a lock; ended with the test.
    struct Holding(Child);

    impl Holding {
        fn new(lock: &Path) -> Self {
            let file = File::options().create(true).append(true).open(lock).unwrap();
            flock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
            // The child inherits the open file, and with it the lock.
            let child = Command::new("sleep").arg("600").stdin(Stdio::from(file)).spawn().unwrap();
            fs::write(lock, child.id().to_string()).unwrap();
            Self(child)
        }
    }

    impl Drop for Holding {
        fn drop(&mut self) {
            _ = self.0.kill();
            _ = self.0.wait();
        }
    }

    #[test]
    fn holder_is_the_process_with_the_lock() {
        let directory = tempfile::tempdir().unwrap();
        let lock = directory.path().join("lock");
        assert!(Holder::of(&lock).is_none());
        // This process is named, but holds no lock.
        fs::write(&lock, std::process::id().to_string()).unwrap();
        assert!(Holder::of(&lock).is_none());
        let _open = File::open(&lock).unwrap();
        assert!(Holder::of(&lock).is_none());
        let mut holding = Holding::new(&lock);
        let holder = Holder::of(&lock).unwrap();
        assert_eq!(holder.pid(), Pid::from_child(&holding.0));
        assert_eq!(holder.condition(), Condition::Lives);
        rustix::process::kill_process(holder.pid(), Signal::STOP).unwrap();
        let begun = Instant::now();
        while holder.condition() != Condition::Stopped {
            assert!(begun.elapsed() < Duration::from_secs(20), "it does not stop");
        }
        holder.kill().unwrap();
        assert_eq!(holding.0.wait().unwrap().signal(), Some(9));
        assert_eq!(holder.condition(), Condition::Dying);
        assert!(Holder::of(&lock).is_none());
    }

    #[test]
    fn killed_process_is_dying_even_when_blocked() {
        let condition = |state: &str, flags: u32, pending: &str| {
            let stat = format!("17 (a) b) {state} 1 17 17 0 -1 {flags} 0 0 0");
            read_condition(&stat, &format!("Name:\tx\nSigPnd:\t{pending}\nShdPnd:\t0\n"))
        };
        assert_eq!(condition("S", 0x40_0140, "0000000000000000"), Condition::Lives);
        assert_eq!(condition("D", 0x40_0140, "0000000000000100"), Condition::Dying);
        assert_eq!(condition("D", 0x40_0140, "0000000000000002"), Condition::Lives);
        assert_eq!(condition("T", 0x40_0140, "0000000000000000"), Condition::Stopped);
        assert_eq!(condition("R", 0x40_0144, "0000000000000000"), Condition::Dying);
        assert_eq!(condition("Z", 0x40_0144, "0000000000000000"), Condition::Dying);
        assert_eq!(read_condition("", ""), Condition::Dying);
    }
}
