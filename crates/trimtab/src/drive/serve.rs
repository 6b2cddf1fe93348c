//! The server process of a drive: how `create` starts it, and what it does.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ChildStdin;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::Result;
use trimtab_emu::{Helper, RunDirectory, Server, Spec};

use crate::background::{self, LifetimeGuard, Message, send};

/// How often a server reports progress.
const PERIOD: Duration = Duration::from_millis(50);

/// Starts a server that survives this process, and returns the device once it exists.
pub(crate) fn in_background(spec: &Spec, show: impl FnMut(f64)) -> Result<PathBuf> {
    let (_, device) = start(spec, "serve", show)?;
    Ok(device)
}

/// Starts a server that lives as long as the guard.
pub(crate) fn with_guard(spec: &Spec) -> Result<LifetimeGuard> {
    let (input, _) = start(spec, "serve-while-read", |_| {})?;
    Ok(LifetimeGuard::new(input))
}

/// The program that performs operations which a server must not do to its own device.
/// `/proc/self/exe` remains this program even if its file is replaced meanwhile.
pub(super) fn helper() -> Helper {
    Helper::new("/proc/self/exe", ["drive", "assist"])
}

fn start(spec: &Spec, verb: &str, mut show: impl FnMut(f64)) -> Result<(ChildStdin, PathBuf)> {
    background::start("drive", verb, spec, |message| {
        if let Message::Filled(share) = message {
            show(*share);
        }
    })
}

/// `trimtab drive serve`, or, under a lifetime guard, `serve-while-read`.
pub(crate) fn run(guarded: bool) -> Result<()> {
    let (spec, end) = background::begin::<Spec>("drive")?;
    if guarded {
        background::watch_guard(&end)?;
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
    let log = home.log(&spec.name);
    let started = Server::start(&home, spec, helper(), &mut progress);
    let server = background::report(started, |server| server.device().to_owned(), &log)?;
    server.map_or(Ok(()), |server| Ok(server.serve(&end)?))
}
