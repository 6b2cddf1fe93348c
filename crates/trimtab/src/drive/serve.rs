//! The server process of a drive: how `create` starts it, and what it does.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::ops::ControlFlow;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};
use trimtab_emu::{Error, Helper, RunDirectory, Server, Spec};

use super::create::catch_signals;
use crate::console;
use crate::exit::BadInput;

/// How often a server reports progress.
const PERIOD: Duration = Duration::from_millis(50);

/// What a server reports to the process that started it, one line of JSON each.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Message {
    /// The share of the flash that has been filled.
    Filled(f64),
    /// The device exists. The last message.
    Ready(PathBuf),
    /// The description is invalid. The last message.
    BadInput(String),
    /// The server failed. The last message.
    Failed(String),
}

/// Starts a server that survives this process, and returns the device once it exists.
pub(crate) fn in_background(spec: &Spec, show: impl FnMut(f64)) -> Result<PathBuf> {
    let (_, device) = start(spec, "serve", show)?;
    Ok(device)
}

/// Lifetime guard of a drive: the drive ends when this is dropped or this process ends for any
/// reason.
#[derive(Debug)]
pub(crate) struct LifetimeGuard {
    _input: ChildStdin,
}

/// Starts a server that lives as long as the guard.
pub(crate) fn with_guard(spec: &Spec) -> Result<LifetimeGuard> {
    let (input, _) = start(spec, "serve-while-read", |_| {})?;
    Ok(LifetimeGuard { _input: input })
}

/// The program that performs operations which a server must not do to its own device.
/// `/proc/self/exe` remains this program even if its file is replaced meanwhile.
pub(super) fn helper() -> Helper {
    Helper::new("/proc/self/exe", ["drive", "assist"])
}

fn start(spec: &Spec, command: &str, mut show: impl FnMut(f64)) -> Result<(ChildStdin, PathBuf)> {
    let program = std::env::current_exe().context("cannot find this program's file")?;
    let mut child = Command::new(program)
        .arg0("trimtab")
        .args(["drive", command])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .context("cannot start the drive's server")?;
    // A server that closes its input early reports the reason on its output.
    let mut input = child.stdin.take().expect("is piped");
    let described = serde_json::to_string(spec).context("cannot describe the drive")?;
    _ = writeln!(input, "{described}");
    let output = child.stdout.take().expect("is piped");
    for line in BufReader::new(output).lines() {
        match serde_json::from_str(&line?)? {
            Message::Filled(share) => show(share),
            Message::Ready(device) => return Ok((input, device)),
            Message::BadInput(why) => return Err(BadInput(why).into()),
            Message::Failed(why) => bail!("{why}"),
        }
    }
    drop(input);
    match child.wait().ok().and_then(|status| status.signal()) {
        Some(signal) => bail!("the drive's server was killed, by signal {signal}"),
        None => bail!("the drive's server ended without a message"),
    }
}

/// `trimtab drive serve`, or, under a lifetime guard, `serve-while-read`.
pub(crate) fn run(guarded: bool) -> Result<()> {
    let mut described = String::new();
    io::stdin().lock().read_line(&mut described).context("no drive is described")?;
    let spec: Spec = serde_json::from_str(&described).context("no drive is described")?;
    // Leaves the terminal, whose Ctrl-C is not meant for the drive, and the working directory,
    // whose file system may have to be unmounted.
    rustix::process::setsid().context("cannot start a session")?;
    std::env::set_current_dir("/").context("cannot leave the working directory")?;
    let end = catch_signals()?;
    if guarded {
        watch_guard(&end)?;
    }
    let mut last: Option<Instant> = None;
    let mut progress = |share| {
        // A small drive is filled in less than this.
        if last.is_some_and(|last| last.elapsed() < PERIOD) {
            return ControlFlow::Continue(());
        }
        last = Some(Instant::now());
        match send(&Message::Filled(share)) {
            Ok(()) if !end.load(Ordering::Relaxed) => ControlFlow::Continue(()),
            // The process that started this has ended, or asks for the end.
            _ => ControlFlow::Break(()),
        }
    };
    let home = RunDirectory::from_environment();
    let name = spec.name.clone();
    let started = Server::start(&home, spec, helper(), &mut progress)
        .and_then(|server| leave_pipes(&home.log(&name)).map(|pipe| (server, pipe)));
    let (server, mut pipe) = match started {
        Ok(started) => started,
        Err(Error::BadInput(why)) => return Ok(send(&Message::BadInput(why))?),
        Err(error) => return Ok(send(&Message::Failed(error.to_string()))?),
    };
    let ready = Message::Ready(server.device().to_owned());
    let written = write(&mut pipe, &ready);
    drop(pipe);
    // Without its starter the drive would be unknown to the user.
    written.context("the process that asked for the drive has ended")?;
    Ok(server.serve(&end)?)
}

/// Ends the drive when the other end of standard input is closed.
fn watch_guard(end: &Arc<AtomicBool>) -> Result<()> {
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

fn send(message: &Message) -> io::Result<()> {
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
