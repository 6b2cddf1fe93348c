//! `trimtab drive remove`.

use anyhow::Result;
use trimtab_emu::Drive;

use crate::end::end;

const HELP: &str = "\
Examples:
  sudo trimtab drive remove slow
  sudo trimtab drive remove --all

A mounted or exported drive is removed only with --force; its file system, or the hosts that
are connected to it, then get errors, and a server that does not answer (stopped, or just
starting) is killed. If a drive's server was killed, the remains are removed; --force also
removes a mounted drive over ublk that waits for another server.";

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
    let names = (!args.all).then_some(args.names.as_slice());
    end(names, args.force, |home, name, force| Drive::find(home, name)?.remove(force))
}
