//! The command that runs while recording.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{self, Command, ExitStatus};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, kill_process};

use super::Signal;
use crate::exit::BadInput;

/// A running command.
pub(super) struct Child {
    name: String,
    process: process::Child,
    status: Option<ExitStatus>,
    interrupted: bool,
}

impl Child {
    /// Starts the command, if there is one.
    pub(super) fn spawn(command: &[String]) -> Result<Option<Self>> {
        let Some((program, args)) = command.split_first() else { return Ok(None) };
        match Command::new(program).args(args).spawn() {
            Ok(process) => {
                let name = program.clone();
                Ok(Some(Self { name, process, status: None, interrupted: false }))
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                Err(BadInput(format!("{program}: no such command")).into())
            }
            Err(e) => Err(e).with_context(|| format!("{program}: cannot run")),
        }
    }

    /// Whether it is over. Passes SIGTERM and SIGHUP on to it; Ctrl-C reaches it directly,
    /// since it is in the terminal's foreground too.
    pub(super) fn has_ended(&mut self, signal: Signal) -> Result<bool> {
        self.interrupted |= signal != Signal::None;
        self.status = self.process.try_wait().context("cannot wait for the command")?;
        if self.status.is_some() {
            return Ok(true);
        }
        let passed_on = match signal {
            Signal::Terminate => Some(rustix::process::Signal::TERM),
            Signal::HangUp => Some(rustix::process::Signal::HUP),
            Signal::None | Signal::Interrupt => None,
        };
        if let Some(signal) = passed_on
            && let Some(pid) = Pid::from_raw(self.process.id().cast_signed())
        {
            // It may have ended in the meantime: no error.
            _ = kill_process(pid, signal);
        }
        Ok(false)
    }

    /// An error if the command failed by itself.
    pub(super) fn into_result(child: Option<Self>) -> Result<()> {
        let Some(Self { name, status: Some(status), interrupted, .. }) = child else {
            return Ok(());
        };
        match (status.code(), status.signal()) {
            (Some(0), _) => Ok(()),
            _ if interrupted => Ok(()),
            (Some(code), _) => bail!("the recording is complete, but {name} exited with {code}"),
            (None, signal) => bail!(
                "the recording is complete, but {name} was ended by signal {}",
                signal.unwrap_or_default()
            ),
        }
    }
}
