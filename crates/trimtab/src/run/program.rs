//! The program that runs with a deadline.

use std::fs::File;
use std::io;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};

use anyhow::{Context as _, Result, anyhow};
use rustix::process::{Pid, Signal, kill_process};
use trimtab_refuse::ProgramGroup;

use crate::exit::BadInput;

/// A thread that waits to start the program. A thread's capabilities are its own, so the
/// program gets all that this process had, while the other threads give theirs up.
pub(super) struct Starter {
    go: Sender<Vec<String>>,
    thread: JoinHandle<Option<io::Result<Child>>>,
}

impl Starter {
    /// Makes the thread, for a program in this group.
    pub(super) fn new(group: &ProgramGroup) -> Result<Self> {
        let entry = group.entry().try_clone().context("cannot use the control group")?;
        let (go, wait) = channel::<Vec<String>>();
        let thread = thread::Builder::new().name("starter".to_owned());
        let thread = thread.spawn(move || Some(spawn(&wait.recv().ok()?, entry)));
        Ok(Self { go, thread: thread.context("cannot make a thread")? })
    }

    /// Starts the program.
    pub(super) fn start(self, command: &[String]) -> Result<Program> {
        let name = &command[0];
        // It fails only if the thread is gone, which its result shows.
        _ = self.go.send(command.to_owned());
        let spawned = self.thread.join().ok().flatten();
        match spawned.ok_or_else(|| anyhow!("{name}: cannot run: its thread ended"))? {
            Ok(child) => Ok(Program { child }),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                Err(BadInput(format!("{name}: no such command")).into())
            }
            Err(e) => Err(e).with_context(|| format!("{name}: cannot run")),
        }
    }
}

fn spawn(command: &[String], entry: File) -> io::Result<Child> {
    let (program, args) = command.split_first().expect("the parser requires it");
    let mut command = Command::new(program);
    // SAFETY: between fork and exec only a system call is made, with memory that is constant.
    unsafe {
        // A process that writes 0 moves itself: it is in the group before it runs.
        command.pre_exec(move || rustix::io::write(&entry, b"0").map(drop).map_err(Into::into));
    }
    command.args(args).spawn()
}

/// The running program.
pub(super) struct Program {
    child: Child,
}

impl Program {
    /// Its exit code, if it has ended: 128 and the signal's number if a signal ended it.
    pub(super) fn has_ended(&mut self) -> Result<Option<u8>> {
        let status = self.child.try_wait().context("cannot wait for the program")?;
        Ok(status.map(code))
    }

    /// Sends it a signal.
    pub(super) fn signal(&self, signal: Signal) {
        if let Some(pid) = Pid::from_raw(self.child.id().cast_signed()) {
            // It may have ended in the meantime: no error.
            _ = kill_process(pid, signal);
        }
    }
}

fn code(status: ExitStatus) -> u8 {
    let signal = || status.signal().map_or(1, |signal| 128 + signal);
    u8::try_from(status.code().unwrap_or_else(signal)).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_become_codes_as_in_a_shell() {
        for (wait_status, expected) in [(0, 0), (7 << 8, 7), (9, 137), (15, 143)] {
            assert_eq!(code(ExitStatus::from_raw(wait_status)), expected);
        }
    }
}
