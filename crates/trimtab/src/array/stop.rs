//! `trimtab array stop`.

use anyhow::Result;
use trimtab_volume::{Array, ArrayStatus, Error, RunDirectory};

use crate::exit::BadInput;
use crate::log;

const HELP: &str = "\
Examples:
  sudo trimtab array stop fast
  sudo trimtab array stop --all

A mounted array is stopped only with --force; its file system then gets errors. If an array's
server was killed, the remains are removed; the members are left as they are.";

/// What to stop.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The arrays.
    #[arg(value_name = "NAME", required_unless_present = "all")]
    names: Vec<String>,
    /// All arrays.
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
    names.iter().try_for_each(|name| stop(&home, name, args.force))
}

fn stop(home: &RunDirectory, name: &str, force: bool) -> Result<()> {
    let mounted = match home.find(name)? {
        ArrayStatus::Running(_) | ArrayStatus::Stopped(_) => {
            let stopped = Array::find(home, name).and_then(|array| array.stop(force));
            match stopped {
                Err(Error::NoAnswer(_)) if force => home.end(name)?,
                // It was killed in the meantime.
                Err(_) if matches!(home.find(name), Ok(ArrayStatus::Dead)) => {
                    home.remove_dead(name)?
                }
                stopped => return Ok(stopped?),
            }
        }
        ArrayStatus::Dead => home.remove_dead(name)?,
        ArrayStatus::Changing if force => home.end(name)?,
        ArrayStatus::Changing => {
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
