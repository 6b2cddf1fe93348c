//! `trimtab drive snapshot` and `restore`.

use anyhow::Result;
use trimtab_emu::{Drive, RunDirectory};

const HELP: &str = "\
Examples:
  sudo trimtab drive snapshot slow      # before an experiment
  sudo trimtab drive restore slow       # and before each further one

Saves the state of the flash: the mapping, the buffer, garbage collection under way.
Content is not saved: later writes stay. The drive must be idle.";

/// The drives to save or restore.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The drives.
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,
}

pub(crate) fn take(args: &Args) -> Result<()> {
    for_each(args, |drive| Ok(drive.snapshot()?))
}

pub(crate) fn restore(args: &Args) -> Result<()> {
    for_each(args, |drive| Ok(drive.restore()?))
}

fn for_each(args: &Args, act: impl Fn(&Drive) -> Result<()>) -> Result<()> {
    let home = RunDirectory::from_environment();
    args.names.iter().try_for_each(|name| act(&Drive::find(&home, name)?))
}
