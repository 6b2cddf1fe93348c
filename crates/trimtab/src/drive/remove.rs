//! `trimtab drive remove`.

use anyhow::Result;
use trimtab_emu::{Drive, DriveStatus, Error, RunDirectory};

use crate::exit::BadInput;
use crate::log;

const HELP: &str = "\
Examples:
  sudo trimtab drive remove slow
  sudo trimtab drive remove --all

A mounted drive is removed only with --force; its file system then gets errors, and a
server that does not answer (stopped, or just starting) is killed. If a drive's server was
killed, the remains are removed.";

/// What to remove.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The drives.
    #[arg(value_name = "NAME", required_unless_present = "all")]
    names: Vec<String>,
    /// All drives.
    #[arg(long, conflicts_with = "names")]
    all: bool,
    /// Even if it is mounted or in use, or its server does not answer.
    #[arg(long)]
    force: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let home = RunDirectory::from_environment();
    let names = match args.all {
        true => home.list()?.into_iter().map(|(name, _)| name).collect(),
        false => args.names.clone(),
    };
    names.iter().try_for_each(|name| remove(&home, name, args.force))
}

fn remove(home: &RunDirectory, name: &str, force: bool) -> Result<()> {
    let mounted = match home.find(name)? {
        DriveStatus::Running(_) | DriveStatus::Stopped(_) => {
            let removed = Drive::find(home, name).and_then(|drive| drive.remove(force));
            match removed {
                Err(Error::NoAnswer(_)) if force => home.end(name)?,
                // It was killed in the meantime.
                Err(_) if matches!(home.find(name), Ok(DriveStatus::Dead)) => {
                    home.remove_dead(name)?
                }
                removed => return Ok(removed?),
            }
        }
        DriveStatus::Dead => home.remove_dead(name)?,
        DriveStatus::Changing if force => home.end(name)?,
        DriveStatus::Changing => {
            let why = "it is starting or ending; --force kills it now";
            return Err(BadInput(format!("`{name}`: {why}")).into());
        }
    };
    if let Some(at) = mounted {
        let what = format!("a file system on `{name}` is still mounted at {at}");
        log::line(&format!("{what}: unmount it, and its device goes too"));
    }
    Ok(())
}
