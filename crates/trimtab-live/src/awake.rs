//! Keeping processors awake while something is measured.
//!
//! A processor without work goes to sleep, and waking it takes some 10 to 50 µs, in a
//! virtual machine, where the host has to be asked, more. Where requests are sparse
//! every step on their way wakes somebody, and what is measured is the sleep and not
//! the drive. A machine in a laboratory is therefore booted with `idle=poll`, or held
//! awake through `/dev/cpu_dma_latency`, which does not help in a virtual machine. This
//! does the same without a privilege: one thread for each processor that turns round
//! and gives way to everyone else (`SCHED_IDLE`).

use std::hint;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// While this lives, no processor that the calling thread may use goes to sleep.
#[derive(Debug)]
pub struct Awake {
    end: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Awake {
    /// Begins with it.
    ///
    /// # Errors
    /// A thread cannot be made.
    pub fn begin() -> io::Result<Self> {
        let allowed = sched_getaffinity(None)?;
        let mut awake = Self { end: Arc::default(), threads: Vec::new() };
        for processor in (0..CpuSet::MAX_CPU).filter(|&number| allowed.is_set(number)) {
            let end = Arc::clone(&awake.end);
            let turn = move || {
                // With a policy that others have it would take time from them.
                if gives_way().is_ok() && stays_on(processor).is_ok() {
                    while !end.load(Ordering::Relaxed) {
                        hint::spin_loop();
                    }
                }
            };
            let name = format!("awake-{processor}");
            awake.threads.push(thread::Builder::new().name(name).spawn(turn)?);
        }
        Ok(awake)
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            _ = thread.join();
        }
    }
}

/// The calling thread runs where nobody else wants to.
fn gives_way() -> io::Result<()> {
    let parameter = libc::sched_param { sched_priority: 0 };
    // SAFETY: the parameter is valid and read only; 0 is the calling thread.
    let failed = unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameter) };
    if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn stays_on(processor: usize) -> io::Result<()> {
    let mut only = CpuSet::new();
    only.set(processor);
    Ok(sched_setaffinity(None, &only)?)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    /// The policies of this process's threads that keep processors awake.
    fn policies() -> Vec<String> {
        let of = |task: io::Result<std::fs::DirEntry>| {
            let path = task.unwrap().path();
            let name = std::fs::read_to_string(path.join("comm")).unwrap_or_default();
            let stat = std::fs::read_to_string(path.join("stat")).unwrap_or_default();
            // Field 41, and the first after the name is the third.
            let policy = stat.rsplit(") ").next()?.split(' ').nth(38)?.to_owned();
            name.starts_with("awake-").then_some(policy)
        };
        std::fs::read_dir("/proc/self/task").unwrap().filter_map(of).collect()
    }

    #[test]
    fn all_processors_are_kept_awake_by_threads_that_give_way_and_end() {
        let processors = sched_getaffinity(None).unwrap().count() as usize;
        let awake = Awake::begin().unwrap();
        let all_give_way = || {
            let policies = policies();
            policies.len() == processors && policies.iter().all(|policy| policy == "5")
        };
        let until = Instant::now() + Duration::from_secs(20);
        while !all_give_way() {
            assert!(Instant::now() < until, "{:?}", policies());
            thread::sleep(Duration::from_millis(5));
        }
        drop(awake);
        assert_eq!(policies().len(), 0);
    }
}
