//! The end of drives and arrays by command: in order, or what a crash left, exports included.

use anyhow::Result;
use trimtab_serve::{Error, RunDirectory, Status, still_used};

use crate::exit::{self, BadInput};
use crate::export::{self, Exportable};
use crate::log;
use crate::progress::during;

/// Ends the named ones, or all. `end` asks the server of one that runs; one that has been killed is
/// taken down here, and with `force` one that does not answer, too.
pub(crate) fn end<I: Exportable>(
    names: Option<&[String]>,
    force: bool,
    end: impl Fn(&RunDirectory<I>, &str, bool) -> Result<(), Error>,
) -> Result<()> {
    let home = RunDirectory::from_environment();
    let names = match names {
        Some(names) => names.to_vec(),
        None => home.list()?.into_iter().map(|(name, _)| name).collect(),
    };
    // None is ended if one of them is not there.
    names.iter().try_for_each(|name| home.find(name).map(drop))?;
    let mut remaining: Vec<&String> = Vec::new();
    for name in &names {
        if !remaining.contains(&name) {
            remaining.push(name);
        }
    }
    // One that is used by another one goes after that, and by force only what does not go otherwise.
    let mut forced = force && remaining.len() == 1;
    loop {
        let before = remaining.len();
        let mut errors = Vec::new();
        for name in std::mem::take(&mut remaining) {
            let work = || end_one(&home, name, forced, &end);
            match during(&format!("ending `{name}`"), work) {
                Ok(left) => left.iter().for_each(|line| log::line(line)),
                Err(error) => {
                    errors.push(named(name, error));
                    remaining.push(name);
                }
            }
        }
        if remaining.is_empty() {
            return Ok(());
        }
        if remaining.len() == before {
            if forced == force {
                return Err(all_but_one_told(errors));
            }
            forced = true;
        }
    }
}

/// Tells all errors but one: the one that gives the exit code, which is not the user's fault if any is not.
fn all_but_one_told(mut errors: Vec<anyhow::Error>) -> anyhow::Error {
    let last = errors.iter().rposition(|error| !exit::is_bad_input(error));
    let last = errors.remove(last.unwrap_or(errors.len() - 1));
    errors.into_iter().for_each(|error| _ = exit::code(Err(error)));
    last
}

/// The error, which says whose it is.
fn named(name: &str, error: anyhow::Error) -> anyhow::Error {
    let quoted = format!("`{name}`");
    if error.to_string().contains(&quoted) { error } else { error.context(quoted) }
}

/// Returns what is to be said of its device, if that is still there.
fn end_one<I: Exportable>(
    home: &RunDirectory<I>,
    name: &str,
    force: bool,
    end: &impl Fn(&RunDirectory<I>, &str, bool) -> Result<(), Error>,
) -> Result<Option<String>> {
    let status = home.find(name)?;
    export::before_end(home, name, &status, force)?;
    let mounted = match &status {
        Status::Running(info) | Status::Stopped(info) => match end(home, name, force) {
            Err(Error::NoAnswer(_)) if force => home.end(name)?,
            // It was killed in the meantime.
            Err(_) if matches!(home.find(name), Ok(Status::Dead)) => {
                home.remove_dead(name, force)?
            }
            Ok(()) => return Ok(still_used(info.device()).map(|why| format!("`{name}`: {why}"))),
            Err(error) => return Err(error.into()),
        },
        Status::Dead => home.remove_dead(name, force)?,
        Status::Changing if force => home.end(name)?,
        Status::Changing => {
            let why = "it is starting or ending; --force kills it now";
            return Err(BadInput(format!("`{name}`: {why}")).into());
        }
    };
    Ok(mounted.map(|at| {
        let what = format!("a file system on `{name}` is still mounted at {at}");
        format!("{what}: unmount it, and its device goes too")
    }))
}
