//! Keeps processors out of idle states while a drive is in use.
//!
//! Waking an idle processor takes some 10 to 50 µs, more in a virtual machine, where the host
//! has to do it. Each step on a request's path wakes a thread, so a program with sparse
//! requests would see these wake-ups and not the drive. Linux has a file against this: while a
//! process holds it open with 0 µs written to it, idle processors poll
//! (Documentation/power/pm_qos_interface.rst in its source). The kernel drops the setting when
//! the process ends for any reason.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle, Thread};
use std::time::Duration;

use trimtab_io::Nanos;

use super::clock;

/// The kernel's PM QoS file.
pub(super) const PM_QOS_FILE: &str = "/dev/cpu_dma_latency";

/// A drive counts as in use for this long after its last request.
const LINGER: Nanos = Nanos::from_millis(100);

/// When a drive was last used.
#[derive(Debug, Default)]
struct Use {
    /// By the monotonic clock, ns.
    last: AtomicU64,
    /// No request for [`LINGER`]: the thread is parked until the next one.
    rests: AtomicBool,
    ended: AtomicBool,
}

/// Keeps processors awake while a drive is in use. Stops when dropped.
#[derive(Debug)]
pub(super) struct IdleInhibitor {
    used: Arc<Use>,
    thread: Option<JoinHandle<()>>,
}

impl IdleInhibitor {
    /// Starts the thread; the drive counts as used now.
    ///
    /// # Errors
    /// The kernel has no such file, or this user may not open it: it takes root.
    pub(super) fn start() -> io::Result<Self> {
        let held = hold()?;
        let used = Arc::new(Use::default());
        used.last.store(clock::now().0, Ordering::Relaxed);
        let keeps = Arc::clone(&used);
        let thread = thread::Builder::new().name("awake".to_owned());
        let thread = Some(thread.spawn(move || keeps.keep(held))?);
        Ok(Self { used, thread })
    }

    /// A handle for the thread that takes requests.
    pub(super) fn waker(&self) -> UseNotifier {
        let thread = self.thread.as_ref().expect("it runs until this is dropped").thread();
        UseNotifier { used: Arc::clone(&self.used), thread: thread.clone() }
    }
}

impl Drop for IdleInhibitor {
    fn drop(&mut self) {
        self.used.ended.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            _ = thread.join();
        }
    }
}

/// Reports that the drive is in use.
#[derive(Clone, Debug)]
pub(super) struct UseNotifier {
    used: Arc<Use>,
    thread: Thread,
}

impl UseNotifier {
    /// A request has arrived.
    pub(super) fn used(&self, now: Nanos) {
        self.used.last.store(now.0, Ordering::Relaxed);
        // If the thread parks just now, the next request wakes it.
        if self.used.rests.load(Ordering::Relaxed) && self.used.rests.swap(false, Ordering::AcqRel)
        {
            self.thread.unpark();
        }
    }
}

impl Use {
    fn keep(&self, held: File) {
        let mut held = Some(held);
        while !self.ended.load(Ordering::Acquire) {
            let until = Nanos(self.last.load(Ordering::Relaxed)) + LINGER;
            let now = clock::now();
            if now < until {
                if held.is_none() {
                    // The file could be opened at start; if not now, the next request tries again.
                    held = hold().ok();
                }
                thread::park_timeout(Duration::from_nanos(until.since(now).0));
                continue;
            }
            held = None;
            self.rests.store(true, Ordering::Release);
            while self.rests.load(Ordering::Acquire) && !self.ended.load(Ordering::Acquire) {
                thread::park();
            }
        }
    }
}

/// While this file is open, no processor enters an idle state.
fn hold() -> io::Result<File> {
    let mut file = OpenOptions::new().write(true).open(PM_QOS_FILE)?;
    file.write_all(&0_i32.to_ne_bytes())?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    /// Whether this process has the file open.
    fn holds() -> bool {
        let open = std::fs::read_dir("/proc/self/fd").unwrap();
        let mut files = open.filter_map(|fd| std::fs::read_link(fd.unwrap().path()).ok());
        files.any(|file| file == std::path::Path::new(PM_QOS_FILE))
    }

    fn wait_until(what: &str, is_so: impl Fn() -> bool) {
        let until = Instant::now() + Duration::from_secs(20);
        while !is_so() {
            assert!(Instant::now() < until, "{what}");
            thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn idle_states_are_blocked_only_while_the_drive_is_in_use() {
        let Ok(awake) = IdleInhibitor::start() else {
            let why = format!("{PM_QOS_FILE} cannot be opened");
            return trimtab_testdisk::skip(trimtab_testdisk::Feature::Kernel, &why);
        };
        let waker = awake.waker();
        for _ in 0..3 {
            wait_until("the file stays open without use", || !holds());
            waker.used(clock::now());
            wait_until("the file is not held in use", || {
                waker.used(clock::now());
                holds()
            });
        }
        drop(awake);
        assert!(!holds());
    }
}
