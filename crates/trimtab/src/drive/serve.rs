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

/// How often a server tells how far it is.
const PERIOD: Duration = Duration::from_millis(50);

/// What a server tells whoever started it, one line of JSON each.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum News {
    /// So much of the flash has been filled.
    Filled(f64),
    /// The device is there. It is the last news.
    Ready(PathBuf),
    /// It cannot be. It is the last news.
    BadInput(String),
    /// It failed. It is the last news.
    Failed(String),
}

/// Starts a server that goes on when this process ends, and returns the device once
/// it is there.
pub(crate) fn in_background(spec: &Spec, show: impl FnMut(f64)) -> Result<PathBuf> {
    let (_, device) = start(spec, "serve", show)?;
    Ok(device)
}

/// Keeps a drive: it goes when this is dropped, or this process ends, however it does.
#[derive(Debug)]
pub(crate) struct Leash {
    _input: ChildStdin,
}

/// Starts a server that lives as long as the leash.
pub(crate) fn on_leash(spec: &Spec) -> Result<Leash> {
    let (input, _) = start(spec, "serve-while-read", |_| {})?;
    Ok(Leash { _input: input })
}

/// What does for a server in this process what that must not do itself. Were the program's
/// file replaced meanwhile, it would still be this one.
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
    // Whoever hangs up early says why on the other pipe.
    let mut input = child.stdin.take().expect("is piped");
    let described = serde_json::to_string(spec).context("cannot describe the drive")?;
    _ = writeln!(input, "{described}");
    let output = child.stdout.take().expect("is piped");
    for line in BufReader::new(output).lines() {
        match serde_json::from_str(&line?)? {
            News::Filled(share) => show(share),
            News::Ready(device) => return Ok((input, device)),
            News::BadInput(why) => return Err(BadInput(why).into()),
            News::Failed(why) => bail!("{why}"),
        }
    }
    drop(input);
    match child.wait().ok().and_then(|status| status.signal()) {
        Some(signal) => bail!("the drive's server was killed, by signal {signal}"),
        None => bail!("the drive's server ended without a word"),
    }
}

/// `trimtab drive serve`, or, on a leash, `serve-while-read`.
pub(crate) fn run(leashed: bool) -> Result<()> {
    let mut described = String::new();
    io::stdin().lock().read_line(&mut described).context("no drive is described")?;
    let spec: Spec = serde_json::from_str(&described).context("no drive is described")?;
    // Away from the terminal, whose Ctrl-C is not meant for the drive, and from a
    // directory that someone may want to unmount.
    rustix::process::setsid().context("cannot begin a session of its own")?;
    std::env::set_current_dir("/").context("cannot leave the working directory")?;
    let end = catch_signals()?;
    if leashed {
        watch_leash(&end)?;
    }
    let mut told: Option<Instant> = None;
    let mut progress = |share| {
        // A drive that is small is filled in less.
        if told.is_some_and(|told| told.elapsed() < PERIOD) {
            return ControlFlow::Continue(());
        }
        told = Some(Instant::now());
        match tell(&News::Filled(share)) {
            Ok(()) if !end.load(Ordering::Relaxed) => ControlFlow::Continue(()),
            // Whoever started this has gone, or wants it gone.
            _ => ControlFlow::Break(()),
        }
    };
    let home = RunDirectory::from_environment();
    let name = spec.name.clone();
    let started = Server::start(&home, spec, helper(), &mut progress)
        .and_then(|server| leave_pipes(&home.log(&name)).map(|news| (server, news)));
    let (server, mut news) = match started {
        Ok(started) => started,
        Err(Error::BadInput(why)) => return Ok(tell(&News::BadInput(why))?),
        Err(error) => return Ok(tell(&News::Failed(error.to_string()))?),
    };
    let ready = News::Ready(server.device().to_owned());
    let told = write(&mut news, &ready);
    drop(news);
    // Nobody is left who would know of it.
    told.context("whoever asked for the drive has gone")?;
    Ok(server.serve(&end)?)
}

/// Ends the drive when whoever has the other end of standard input is gone.
fn watch_leash(end: &Arc<AtomicBool>) -> Result<()> {
    let input = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3);
    let mut input = File::from(input.context("cannot keep the leash")?);
    let end = Arc::clone(end);
    thread::spawn(move || {
        // Nothing more is said on it.
        _ = io::copy(&mut input, &mut io::sink());
        end.store(true, Ordering::Relaxed);
    });
    Ok(())
}

fn tell(news: &News) -> io::Result<()> {
    write(&mut console::out(true), news)
}

fn write(to: &mut impl io::Write, news: &News) -> io::Result<()> {
    let mut line = serde_json::to_vec(news)?;
    line.push(b'\n');
    to.write_all(&line)?;
    to.flush()
}

/// Puts the log in the place of all that this process inherited, but for the pipe
/// that the last news go to.
fn leave_pipes(log: &Path) -> Result<File, Error> {
    let failed = |what: &str| {
        let what = format!("cannot {what} {}", log.display());
        move |e: io::Error| Error::Failed(format!("{what}: {e}"))
    };
    let news = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3);
    let news = news.map_err(|e| failed("keep the pipe beside")(e.into()))?;
    let log_file = File::options().create(true).append(true).open(log).map_err(failed("open"))?;
    rustix::stdio::dup2_stdout(&log_file)
        .and_then(|()| rustix::stdio::dup2_stderr(&log_file))
        .and_then(|()| rustix::stdio::dup2_stdin(&log_file))
        .map_err(|e| failed("write to")(e.into()))?;
    Ok(File::from(news))
}
