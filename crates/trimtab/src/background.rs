//! Server processes of devices: how a command starts one that survives it, and how a server begins.
//!
//! The command describes the device on the server's standard input, one line of JSON, and reads
//! messages from its standard output until the device exists. Then the server leaves its pipes.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::{Context as _, Result, bail};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use trimtab_emu::Error;
use trimtab_io::{RUN_VARIABLE, run_directory};

use crate::console;
use crate::exit::BadInput;

/// What a server reports to the process that started it, one line of JSON each.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Message {
    /// The share of the work that has been done.
    Filled(f64),
    /// Something to tell the user.
    Note(String),
    /// The device exists. The last message.
    Ready(PathBuf),
    /// The description is invalid. The last message.
    BadInput(String),
    /// The server failed. The last message.
    Failed(String),
}

/// Starts a server, `trimtab NOUN VERB`, and returns its standard input and the device once it exists.
/// `show` gets the messages before that.
pub(crate) fn start(
    noun: &str,
    verb: &str,
    described: &impl Serialize,
    mut show: impl FnMut(&Message),
) -> Result<(ChildStdin, PathBuf)> {
    let program = std::env::current_exe().context("cannot find this program's file")?;
    let mut child = Command::new(program)
        .arg0("trimtab")
        .args([noun, verb])
        // It leaves this working directory.
        .env(RUN_VARIABLE, run_directory())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("cannot start the {noun}'s server"))?;
    // A server that closes its input early reports the reason on its output.
    let mut input = child.stdin.take().expect("is piped");
    let described =
        serde_json::to_string(described).with_context(|| format!("cannot describe the {noun}"))?;
    _ = writeln!(input, "{described}");
    let output = child.stdout.take().expect("is piped");
    for line in BufReader::new(output).lines() {
        match serde_json::from_str(&line?)? {
            Message::Ready(device) => return Ok((input, device)),
            Message::BadInput(why) => return Err(BadInput(why).into()),
            Message::Failed(why) => bail!("{why}"),
            message => show(&message),
        }
    }
    drop(input);
    match child.wait().ok().and_then(|status| status.signal()) {
        Some(signal) => bail!("the {noun}'s server was killed, by signal {signal}"),
        None => bail!("the {noun}'s server ended without a message"),
    }
}

/// Lifetime guard of a device: its server ends when this is dropped or this process ends for any
/// reason.
#[derive(Debug)]
pub(crate) struct LifetimeGuard {
    _input: ChildStdin,
}

impl LifetimeGuard {
    /// Of a server that [watches](watch_guard) its standard input, which this is.
    pub(crate) const fn new(input: ChildStdin) -> Self {
        Self { _input: input }
    }
}

/// Ends the device when the other end of standard input is closed.
pub(crate) fn watch_guard(end: &Arc<AtomicBool>) -> Result<()> {
    let input = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3);
    let mut input = File::from(input.context("cannot keep standard input")?);
    let end = Arc::clone(end);
    thread::spawn(move || {
        // No more input is expected; this returns at its end.
        _ = io::copy(&mut input, &mut io::sink());
        end.store(true, Ordering::Relaxed);
    });
    Ok(())
}

/// Begins a server: reads the description of its device, and leaves the terminal and the working
/// directory. Returns a flag that Ctrl-C and SIGTERM set.
pub(crate) fn begin<T: DeserializeOwned>(noun: &str) -> Result<(T, Arc<AtomicBool>)> {
    let missing = || format!("no {noun} is described");
    let mut described = String::new();
    io::stdin().lock().read_line(&mut described).with_context(missing)?;
    let described = serde_json::from_str(&described).with_context(missing)?;
    // Leaves the terminal, whose Ctrl-C is not meant for the device, and the working directory,
    // whose file system may have to be unmounted.
    rustix::process::setsid().context("cannot start a session")?;
    std::env::set_current_dir("/").context("cannot leave the working directory")?;
    Ok((described, catch_signals()?))
}

/// A flag that Ctrl-C and SIGTERM set.
pub(crate) fn catch_signals() -> Result<Arc<AtomicBool>> {
    let end = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&end)).context("cannot catch signals")?;
    }
    Ok(end)
}

/// Reports the device of a server that has started, or why it has not, and leaves the pipes. `None`:
/// it has not started, which has been reported.
pub(crate) fn report<S>(
    started: Result<S, Error>,
    device: impl Fn(&S) -> PathBuf,
    log: &Path,
) -> Result<Option<S>> {
    let started = started.and_then(|server| leave_pipes(log).map(|pipe| (server, pipe)));
    let (server, mut pipe) = match started {
        Ok(started) => started,
        Err(Error::BadInput(why)) => {
            send(&Message::BadInput(why))?;
            return Ok(None);
        }
        Err(error) => {
            send(&Message::Failed(error.to_string()))?;
            return Ok(None);
        }
    };
    // Without its starter the device would be unknown to the user.
    let ready = write(&mut pipe, &Message::Ready(device(&server)));
    ready.context("the process that asked for the device has ended")?;
    Ok(Some(server))
}

/// Reports something before the device exists.
pub(crate) fn send(message: &Message) -> io::Result<()> {
    write(&mut console::out(true), message)
}

fn write(to: &mut impl io::Write, message: &Message) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    to.write_all(&line)?;
    to.flush()
}

/// Replaces all inherited standard streams by the log, except for the pipe that the last
/// message goes to.
fn leave_pipes(log: &Path) -> Result<File, Error> {
    let failed = |what: &str| {
        let what = format!("cannot {what} {}", log.display());
        move |e: io::Error| Error::Failed(format!("{what}: {e}"))
    };
    let pipe = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3);
    let pipe = pipe.map_err(|e| failed("keep the pipe beside")(e.into()))?;
    let log_file = File::options().create(true).append(true).open(log).map_err(failed("open"))?;
    rustix::stdio::dup2_stdout(&log_file)
        .and_then(|()| rustix::stdio::dup2_stderr(&log_file))
        .and_then(|()| rustix::stdio::dup2_stdin(&log_file))
        .map_err(|e| failed("write to")(e.into()))?;
    Ok(File::from(pipe))
}
