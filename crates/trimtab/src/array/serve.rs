//! The server process of an array.

use std::path::PathBuf;

use anyhow::Result;
use trimtab_volume::{Helper, RunDirectory, Server, Spec};

use crate::background::{self, LifetimeGuard, Message, send};

/// Starts a server that lives as long as the guard, and returns its device.
pub(super) fn with_guard(spec: &Spec) -> Result<(LifetimeGuard, PathBuf)> {
    let (input, device) = background::start("array", "serve-while-read", spec, |_| {})?;
    Ok((LifetimeGuard::new(input), device))
}

/// `trimtab array serve`, or, under a lifetime guard, `serve-while-read`.
pub(crate) fn run(guarded: bool) -> Result<()> {
    let (spec, end) = background::begin::<Spec>("array")?;
    if guarded {
        background::watch_guard(&end)?;
    }
    let home = RunDirectory::from_environment();
    let log = home.log(&spec.name);
    // The program remains this one even if its file is replaced meanwhile.
    let helper = Helper::new("/proc/self/exe", ["array", "assist"]);
    let started = Server::start(&home, &spec, helper);
    if let Ok(server) = &started {
        for line in server.lines() {
            send(&Message::Note(line.clone()))?;
        }
    }
    let server = background::report(started, |server| server.device().to_owned(), &log)?;
    server.map_or(Ok(()), |server| Ok(server.serve(&end)?))
}
