//! `trimtab drive …`: one module per verb.

mod check;
mod create;
mod export;
mod fault;
mod list;
mod remove;
mod serve;
mod set;
mod snapshot;
mod stat;

use anyhow::Result;
use clap::Subcommand;

pub(crate) use serve::with_guard;

pub(crate) const EXAMPLES: &str = "\
Examples:
  sudo trimtab drive create slow --profile consumer-a --size 8G
  sudo trimtab drive stat slow --watch
  sudo trimtab drive fault slow stall --for 500ms
  sudo trimtab drive remove slow

docs/emulated-drives.md explains them.";

/// The verbs of `trimtab drive`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make a drive, and print its block device.
    Create(create::Args),
    /// List the drives.
    List(list::Args),
    /// Show a drive's settings and counters.
    Stat(stat::Args),
    /// Change a running drive's firmware parameters.
    Set(set::Args),
    /// Inject a fault into a drive (stall, slow, error, power-cut), or clear all faults.
    Fault(fault::Args),
    /// Save the state of a drive's flash.
    Snapshot(snapshot::Args),
    /// Put a drive's flash back into the saved state.
    Restore(snapshot::Args),
    /// Export a drive as an NVMe drive, to this machine or to other hosts.
    Export(export::Export),
    /// Export drives no more, and remove what crashes left of exports.
    Unexport(export::Unexport),
    /// Remove drives, and what killed servers left behind.
    Remove(remove::Args),
    /// Measure how accurately emulated drives keep their times on this machine.
    Check(check::Args),
    /// Serve a drive that is described on standard input. Run by `create`.
    #[command(hide = true)]
    Serve,
    /// The same, until standard input ends. Run by commands that need a drive temporarily.
    #[command(hide = true)]
    ServeWhileRead,
    /// Do for a server what it must not do to its own device. Run by servers.
    #[command(hide = true)]
    Assist,
}

pub(crate) fn run(command: Command) -> Result<()> {
    // Before any look-up that fails in a confusing way for other users.
    if !rustix::process::geteuid().is_root() {
        return Err(trimtab_emu::Error::Privilege.into());
    }
    match command {
        Command::Create(args) => create::run(args),
        Command::List(args) => list::run(&args),
        Command::Stat(args) => stat::run(&args),
        Command::Set(args) => set::run(&args),
        Command::Fault(args) => fault::run(&args),
        Command::Snapshot(args) => snapshot::take(&args),
        Command::Restore(args) => snapshot::restore(&args),
        Command::Export(args) => export::export(&args),
        Command::Unexport(args) => export::unexport(&args),
        Command::Remove(args) => remove::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Serve => serve::run(false),
        Command::ServeWhileRead => serve::run(true),
        Command::Assist => Ok(trimtab_emu::assist()?),
    }
}
