//! The server process of a drive: how `create` starts it, and what it does.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader};
use std::ops::ControlFlow;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};
use trimtab_live::drive::{Error, Home, Server, Spec};

use super::create::catch_signals;
use crate::exit::BadInput;

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
pub(crate) fn in_background(spec: &Spec, mut show: impl FnMut(f64)) -> Result<PathBuf> {
    let program = std::env::current_exe().context("cannot find this program's file")?;
    let mut child = Command::new(program)
        .arg0("trimtab")
        .args(["drive", "serve"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .context("cannot start the drive's server")?;
    // Whoever hangs up early says why on the other pipe.
    let mut input = child.stdin.take().expect("is piped");
    _ = serde_json::to_writer(&mut input, spec);
    drop(input);
    let output = child.stdout.take().expect("is piped");
    for line in BufReader::new(output).lines() {
        match serde_json::from_str(&line?)? {
            News::Filled(share) => show(share),
            News::Ready(device) => return Ok(device),
            News::BadInput(why) => return Err(BadInput(why).into()),
            News::Failed(why) => bail!("{why}"),
        }
    }
    bail!("the drive's server ended without a word")
}

/// `trimtab drive serve`.
pub(crate) fn run() -> Result<()> {
    let spec: Spec =
        serde_json::from_reader(io::stdin().lock()).context("no drive is described")?;
    // Away from the terminal, whose Ctrl-C is not meant for the drive, and from a
    // directory that someone may want to unmount.
    rustix::process::setsid().context("cannot begin a session of its own")?;
    std::env::set_current_dir("/").context("cannot leave the working directory")?;
    let end = catch_signals()?;
    let mut progress = |share| match tell(&News::Filled(share)) {
        Ok(()) => ControlFlow::Continue(()),
        // Whoever started this has gone.
        Err(_) => ControlFlow::Break(()),
    };
    let home = Home::from_environment();
    let name = spec.name.clone();
    let started = Server::start(&home, spec, &mut progress)
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

fn tell(news: &News) -> io::Result<()> {
    write(&mut io::stdout().lock(), news)
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
