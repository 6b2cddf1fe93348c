//! Ctrl-C and SIGTERM, for work that must end in order.
//!
//! Most commands leave these signals at their default: the system ends the process at once,
//! and incomplete files have no name yet. Work that has to report or clean up first polls
//! [`Interrupt::has_come`]. If it fails to poll for about a second, a watchdog thread applies
//! the signal's default action, so that a command that hangs still ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use signal_hook::{consts, flag, low_level};

/// The processor time that the work may use before it polls, and the limit in elapsed time,
/// for a machine that is too busy to run it. To set up the tables of a drive of 2 TB takes half a
/// second, and twice that where other work holds the machine's memory.
const GRACE: Duration = Duration::from_millis(1200);
const PATIENCE: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(50);

/// Whether a signal has asked the process to end. A second signal ends it at once.
#[derive(Clone, Debug)]
pub(crate) struct Interrupt {
    /// The signal's number; 0 until one arrives.
    signal: Arc<AtomicUsize>,
    noticed: Arc<AtomicBool>,
    /// The processor time that the process may use before it polls.
    grace: Duration,
}

impl Interrupt {
    /// Catches Ctrl-C, SIGTERM and `more` from now on.
    pub(crate) fn catch(more: &[i32]) -> Result<Self> {
        Self::catch_beside(0, more)
    }

    /// [`catch`](Self::catch), for a thread that polls beside so many that work.
    pub(crate) fn catch_beside(threads: usize, more: &[i32]) -> Result<Self> {
        let grace = GRACE * (1 + threads as u32);
        let interrupt = Self { signal: Arc::default(), noticed: Arc::default(), grace };
        let come = Arc::new(AtomicBool::new(false));
        for &signal in [consts::SIGINT, consts::SIGTERM].iter().chain(more) {
            // In this order: the first handler must not see what the others set.
            flag::register_conditional_default(signal, Arc::clone(&come))
                .and_then(|_| flag::register(signal, Arc::clone(&come)))
                .and_then(|_| {
                    flag::register_usize(signal, Arc::clone(&interrupt.signal), signal as usize)
                })
                .context("cannot catch signals")?;
        }
        let watched = interrupt.clone();
        thread::Builder::new()
            .name("interrupt".to_owned())
            .spawn(move || watched.end_if_unnoticed())
            .context("cannot watch for signals")?;
        Ok(interrupt)
    }

    /// Whether a signal has arrived. A caller that gets `true` must end soon: the watchdog
    /// stops.
    pub(crate) fn has_come(&self) -> bool {
        let come = self.signal.load(Ordering::Relaxed) != 0;
        if come {
            self.noticed.store(true, Ordering::Relaxed);
        }
        come
    }

    fn end_if_unnoticed(&self) {
        let mut since: Option<(Instant, Duration)> = None;
        while !self.noticed.load(Ordering::Relaxed) {
            thread::sleep(POLL);
            let signal = self.signal.load(Ordering::Relaxed);
            if signal == 0 {
                continue;
            }
            let (begun, used) = *since.get_or_insert_with(|| (Instant::now(), processor_time()));
            let is_late =
                processor_time().saturating_sub(used) >= self.grace || begun.elapsed() >= PATIENCE;
            // It may have been noticed since.
            if is_late && !self.noticed.load(Ordering::Relaxed) {
                // Never returns: the default action of these signals ends the process.
                _ = low_level::emulate_default_handler(signal as i32);
            }
        }
    }
}

/// Processor time that this process has used.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}
