//! `trimtab drive export` and `unexport`.

use anyhow::Result;
use trimtab_emu::DriveInfo;

use crate::export::{self, ExportArgs, UnexportArgs};

const EXPORT_HELP: &str = "\
Examples:
  sudo trimtab drive export slow --nvme loop
  sudo trimtab drive export slow --nvme tcp
  sudo trimtab drive export slow --nvme tcp --listen 10.0.0.1 --host nqn.2014-08.org.example:b

Prints the NQN by which hosts connect. The kernel's NVMe target serves it (modprobe nvmet), which
is all that is set up. On an address that other machines reach, --host says which hosts may
connect, or --any-host that all may: NVMe over TCP is neither encrypted nor authenticated here.
An exported drive is not removed without --force. docs/nvme-export.md explains the rest.";

const UNEXPORT_HELP: &str = "\
Examples:
  sudo trimtab drive unexport slow
  sudo trimtab drive unexport --all

Hosts that are connected lose the drive. Removes all that `export` has set up, also what a crash
left of it, and when the drive is gone.";

/// The drive to export.
#[derive(Debug, clap::Args)]
#[command(after_help = EXPORT_HELP)]
pub(crate) struct Export {
    #[command(flatten)]
    args: ExportArgs,
}

/// The drives to export no more.
#[derive(Debug, clap::Args)]
#[command(after_help = UNEXPORT_HELP)]
pub(crate) struct Unexport {
    #[command(flatten)]
    args: UnexportArgs,
}

pub(crate) fn export(args: &Export) -> Result<()> {
    export::export::<DriveInfo>(&args.args)
}

pub(crate) fn unexport(args: &Unexport) -> Result<()> {
    export::unexport::<DriveInfo>(&args.args)
}
