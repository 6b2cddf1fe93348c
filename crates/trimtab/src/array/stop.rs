//! `trimtab array stop`.

use anyhow::Result;
use trimtab_volume::Array;

use crate::end::end;

const HELP: &str = "\
Examples:
  sudo trimtab array stop fast
  sudo trimtab array stop --all

A mounted or exported array is stopped only with --force; its file system, or the hosts that
are connected to it, then get errors. If an array's server was killed, the remains are
removed; the members are left as they are. --force also removes a mounted array over ublk
that waits to be assembled again.";

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
    let names = (!args.all).then_some(args.names.as_slice());
    end(names, args.force, |home, name, force| Array::find(home, name)?.stop(force))
}
