//! The end of drives and arrays by command: in order, or what a crash left, exports included.

use anyhow::Result;
use trimtab_serve::{Error, RunDirectory, Status};

use crate::exit::BadInput;
use crate::export::{self, Exportable};
use crate::log;
use crate::progress::during;

/// Ends the named ones, or all. `end` asks the server of one that runs; one that has been killed is
/// taken down here, and with `force` one that does not answer, too.
pub(crate) fn end<I: Exportable>(
    names: Option<&[String]>,
    force: bool,
    end: impl Fn(&RunDirectory<I>, &str) -> Result<(), Error>,
) -> Result<()> {
    let home = RunDirectory::from_environment();
    let names = match names {
        Some(names) => names.to_vec(),
        None => home.list()?.into_iter().map(|(name, _)| name).collect(),
    };
    // None is ended if one of them is not there.
    names.iter().try_for_each(|name| home.find(name).map(drop))?;
    names.iter().try_for_each(|name| {
        let ended = during(&format!("ending `{name}`"), || end_one(&home, name, force, &end))?;
        if let Some(at) = ended {
            let what = format!("a file system on `{name}` is still mounted at {at}");
            log::line(&format!("{what}: unmount it, and its device goes too"));
        }
        Ok(())
    })
}

/// Returns where a file system on it is still mounted.
fn end_one<I: Exportable>(
    home: &RunDirectory<I>,
    name: &str,
    force: bool,
    end: &impl Fn(&RunDirectory<I>, &str) -> Result<(), Error>,
) -> Result<Option<String>> {
    let status = home.find(name)?;
    export::before_end(home, name, &status, force)?;
    Ok(match status {
        Status::Running(_) | Status::Stopped(_) => match end(home, name) {
            Err(Error::NoAnswer(_)) if force => home.end(name)?,
            // It was killed in the meantime.
            Err(_) if matches!(home.find(name), Ok(Status::Dead)) => {
                home.remove_dead(name, force)?
            }
            ended => ended.map(|()| None)?,
        },
        Status::Dead => home.remove_dead(name, force)?,
        Status::Changing if force => home.end(name)?,
        Status::Changing => {
            let why = "it is starting or ending; --force kills it now";
            return Err(BadInput(format!("`{name}`: {why}")).into());
        }
    })
}
