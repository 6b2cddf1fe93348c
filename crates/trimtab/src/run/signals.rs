//! Signals that are passed on to the program.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result};
use rustix::process::{Signal, getpgrp};
use rustix::termios::tcgetpgrp;
use signal_hook::flag;

use super::program::Program;

/// Those that ask for something. All but the last two always come from a process.
const PASSED_ON: [Signal; 6] =
    [Signal::TERM, Signal::HUP, Signal::USR1, Signal::USR2, Signal::INT, Signal::QUIT];

/// Catches signals, and sends them to the program.
pub(super) struct Forwarder {
    caught: [(Signal, Arc<AtomicBool>); PASSED_ON.len()],
}

impl Forwarder {
    /// Catches them from now on.
    pub(super) fn catch() -> Result<Self> {
        let caught = PASSED_ON.map(|signal| (signal, Arc::default()));
        for (signal, flag) in &caught {
            flag::register(signal.as_raw(), Arc::clone(flag)).context("cannot catch signals")?;
        }
        Ok(Self { caught })
    }

    /// Sends those that have come since the last call. What a terminal sends to the group in
    /// its foreground (Ctrl-C, Ctrl-\) has reached the program already.
    pub(super) fn forward(&self, program: &Program) {
        for (signal, flag) in &self.caught {
            if flag.swap(false, Ordering::Relaxed) {
                let by_terminal = matches!(*signal, Signal::INT | Signal::QUIT);
                if !(by_terminal && is_in_foreground()) {
                    program.signal(*signal);
                }
            }
        }
    }
}

fn is_in_foreground() -> bool {
    File::open("/dev/tty").is_ok_and(|tty| tcgetpgrp(tty).ok() == Some(getpgrp()))
}
