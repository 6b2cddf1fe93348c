//! The server process of an array.

use anyhow::Result;
use trimtab_volume::{Helper, RunDirectory, Server, Spec};

use crate::background::{self, Message, send};

/// `trimtab array serve`.
pub(crate) fn run() -> Result<()> {
    let (spec, end) = background::begin::<Spec>("array")?;
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
