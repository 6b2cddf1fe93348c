//! `trimtab drive …`: one module per verb.

mod check;
mod create;
mod fault;
mod list;
mod remove;
mod serve;
mod set;
mod snapshot;
mod stat;

use anyhow::Result;
use clap::Subcommand;
use trimtab_live::drive;

pub(crate) use serve::on_leash;

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
    /// The drives there are.
    List(list::Args),
    /// What a drive has done, and does.
    Stat(stat::Args),
    /// Change how a drive's firmware works, while it runs.
    Set(set::Args),
    /// Make something go wrong with a drive: stall, slow, error, power-cut; or clear all that.
    Fault(fault::Args),
    /// Keep the state of a drive's flash, to go back to.
    Snapshot(snapshot::Args),
    /// Put a drive's flash back into the state that was kept.
    Restore(snapshot::Args),
    /// Remove drives, and what killed ones have left behind.
    Remove(remove::Args),
    /// Measure how punctual emulated drives are on this machine.
    Check(check::Args),
    /// Serve a drive that is described on standard input. For `create` to call.
    #[command(hide = true)]
    Serve,
    /// The same, until standard input ends. For commands that need a drive for a while.
    #[command(hide = true)]
    ServeWhileRead,
    /// Do for a server what it must not do to its own device. For servers to call.
    #[command(hide = true)]
    Assist,
}

pub(crate) fn run(command: Command) -> Result<()> {
    // Before anything is looked for that others cannot see.
    if !rustix::process::geteuid().is_root() {
        return Err(drive::Error::Privilege.into());
    }
    match command {
        Command::Create(args) => create::run(args),
        Command::List(args) => list::run(&args),
        Command::Stat(args) => stat::run(&args),
        Command::Set(args) => set::run(&args),
        Command::Fault(args) => fault::run(&args),
        Command::Snapshot(args) => snapshot::take(&args),
        Command::Restore(args) => snapshot::restore(&args),
        Command::Remove(args) => remove::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Serve => serve::run(false),
        Command::ServeWhileRead => serve::run(true),
        Command::Assist => Ok(drive::assist()?),
    }
}
