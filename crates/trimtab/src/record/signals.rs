//! Signals that ask for the end.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Ctrl-C and SIGTERM, and optionally SIGHUP.
pub(crate) struct Signals {
    interrupt: Arc<AtomicBool>,
    terminate: Arc<AtomicBool>,
    hang_up: Arc<AtomicBool>,
}

/// The signal since the last look.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    None,
    Interrupt,
    Terminate,
    /// The terminal is gone, or the session.
    HangUp,
}

impl Signals {
    pub(crate) fn catch() -> Result<Self> {
        Ok(Self {
            interrupt: caught(SIGINT)?,
            terminate: caught(SIGTERM)?,
            hang_up: Arc::default(),
        })
    }

    /// SIGHUP too, unless it is ignored: `nohup` asks for that.
    pub(crate) fn catch_all() -> Result<Self> {
        let signals = Self::catch()?;
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        if ignored(&status, SIGHUP) {
            return Ok(signals);
        }
        Ok(Self { hang_up: caught(SIGHUP)?, ..signals })
    }

    pub(crate) fn look(&self) -> Signal {
        let flags = [
            (&self.terminate, Signal::Terminate),
            (&self.hang_up, Signal::HangUp),
            (&self.interrupt, Signal::Interrupt),
        ];
        let came = flags.into_iter().find(|(flag, _)| flag.swap(false, Ordering::Relaxed));
        came.map_or(Signal::None, |(_, signal)| signal)
    }
}

/// A flag that the signal sets.
fn caught(signal: i32) -> Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal, Arc::clone(&flag)).context("cannot catch signals")?;
    Ok(flag)
}

/// Whether a process whose `/proc/…/status` this is ignores the signal.
fn ignored(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.unwrap_or(0) >> (signal - 1) & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_read_from_their_bit() {
        let status = "Name:\ttrimtab\nSigBlk:\t0000000000000001\nSigIgn:\t0000000000001001\n";
        assert!(ignored(status, SIGHUP));
        assert!(!ignored(status, SIGINT));
        assert!(!ignored("", SIGHUP));
    }
}
