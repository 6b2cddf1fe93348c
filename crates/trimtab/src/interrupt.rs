//! Ctrl-C and SIGTERM, for work that wants to end in order when they come.
//!
//! Most commands leave these signals alone: the system ends them at once, and files that
//! are not complete have no name. Work that has something to say or to take away first
//! asks [`Interrupt::has_come`] from time to time. Should it not ask within a second, for
//! a reason that nobody has thought of, it is ended as if it had not wanted to know.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use signal_hook::{consts, flag, low_level};

/// How much of the processors' time the work may take to notice, and how long it may take
/// on a machine that has none to give.
const GRACE: Duration = Duration::from_millis(700);
const PATIENCE: Duration = Duration::from_secs(3);
const LOOK: Duration = Duration::from_millis(50);

/// Whether a signal has asked for the end. The second one ends the process as it is.
#[derive(Clone, Debug)]
pub(crate) struct Interrupt {
    /// The signal, once there is one.
    signal: Arc<AtomicUsize>,
    noticed: Arc<AtomicBool>,
}

impl Interrupt {
    /// Catches Ctrl-C, SIGTERM and `more` from now on.
    pub(crate) fn catch(more: &[i32]) -> Result<Self> {
        let interrupt = Self { signal: Arc::default(), noticed: Arc::default() };
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
            .spawn(move || watched.end_the_deaf())
            .context("cannot watch for signals")?;
        Ok(interrupt)
    }

    /// Whether it has come. Who asks promises to end soon if it has.
    pub(crate) fn has_come(&self) -> bool {
        let come = self.signal.load(Ordering::Relaxed) != 0;
        if come {
            self.noticed.store(true, Ordering::Relaxed);
        }
        come
    }

    fn end_the_deaf(&self) {
        let mut since: Option<(Instant, Duration)> = None;
        while !self.noticed.load(Ordering::Relaxed) {
            thread::sleep(LOOK);
            let signal = self.signal.load(Ordering::Relaxed);
            if signal == 0 {
                continue;
            }
            let (begun, used) = *since.get_or_insert_with(|| (Instant::now(), processor_time()));
            if processor_time().saturating_sub(used) >= GRACE || begun.elapsed() >= PATIENCE {
                // Does not return: it is one of the signals that end a process.
                _ = low_level::emulate_default_handler(signal as i32);
            }
        }
    }
}

/// What this process has used of the processors.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}
