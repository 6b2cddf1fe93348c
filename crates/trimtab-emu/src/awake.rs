//! Processors stay awake while a drive is in use.
//!
//! A processor without work goes to sleep, and waking it takes some 10 to 50 µs, more in
//! a virtual machine, where the host has to do it. Each step on a request's way wakes
//! somebody, so that what a program would see, above all where its requests are sparse, is
//! that sleep and not the drive. Linux has a file for those who cannot bear it: as long as
//! one holds it open and has written 0 µs to it, idle processors poll
//! (Documentation/power/pm_qos_interface.rst in its source). The kernel ends that with the
//! process, however that ends.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle, Thread};
use std::time::Duration;

use trimtab_io::Nanos;

use super::clock;

/// The kernel's file for it.
pub(super) const LATENCY: &str = "/dev/cpu_dma_latency";

/// A drive is in use until its last request is so long ago.
const LINGER: Nanos = Nanos::from_millis(100);

/// When a drive was used last.
#[derive(Debug, Default)]
struct Use {
    /// By the monotonic clock, ns.
    last: AtomicU64,
    /// Nobody has used it for a while, and the thread waits to be told of it.
    rests: AtomicBool,
    ended: AtomicBool,
}

/// Keeps processors awake while a drive is in use; ended when dropped.
#[derive(Debug)]
pub(super) struct Awake {
    used: Arc<Use>,
    thread: Option<JoinHandle<()>>,
}

impl Awake {
    /// Begins with it; the drive counts as used now.
    ///
    /// # Errors
    /// The kernel has no such file, or it is not for this user: it takes root.
    pub(super) fn start() -> io::Result<Self> {
        let held = hold()?;
        let used = Arc::new(Use::default());
        used.last.store(clock::now().0, Ordering::Relaxed);
        let keeps = Arc::clone(&used);
        let thread = thread::Builder::new().name("awake".to_owned());
        let thread = Some(thread.spawn(move || keeps.keep(held))?);
        Ok(Self { used, thread })
    }

    /// For whoever takes requests.
    pub(super) fn waker(&self) -> Waker {
        let thread = self.thread.as_ref().expect("it runs until this is dropped").thread();
        Waker { used: Arc::clone(&self.used), thread: thread.clone() }
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        self.used.ended.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            _ = thread.join();
        }
    }
}

/// By which a drive is said to be in use.
#[derive(Clone, Debug)]
pub(super) struct Waker {
    used: Arc<Use>,
    thread: Thread,
}

impl Waker {
    /// A request has come.
    pub(super) fn used(&self, now: Nanos) {
        self.used.last.store(now.0, Ordering::Relaxed);
        // If this one comes just as the thread goes to rest, the next one will see it.
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
                    // It could be opened once; if not now, then with the next request.
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

/// As long as this is open no processor goes to sleep.
fn hold() -> io::Result<File> {
    let mut file = OpenOptions::new().write(true).open(LATENCY)?;
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
        files.any(|file| file == std::path::Path::new(LATENCY))
    }

    fn wait_until(what: &str, is_so: impl Fn() -> bool) {
        let until = Instant::now() + Duration::from_secs(20);
        while !is_so() {
            assert!(Instant::now() < until, "{what}");
            thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn processors_are_kept_awake_only_while_the_drive_is_in_use() {
        let Ok(awake) = Awake::start() else {
            let why = format!("{LATENCY} cannot be opened");
            return trimtab_testdisk::skip(trimtab_testdisk::Feature::Kernel, &why);
        };
        let waker = awake.waker();
        for _ in 0..3 {
            wait_until("it holds on without a use", || !holds());
            waker.used(clock::now());
            wait_until("it does not hold on with a use", || {
                waker.used(clock::now());
                holds()
            });
        }
        drop(awake);
        assert!(!holds());
    }
}
