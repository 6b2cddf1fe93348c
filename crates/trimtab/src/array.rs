//! `trimtab array …`: one module per verb, or for a few that are alike.

mod check;
mod cost;
mod create;
mod export;
mod list;
mod member;
mod serve;
mod stat;
mod stop;

use anyhow::Result;
use clap::Subcommand;

pub(crate) const EXAMPLES: &str = "\
Examples:
  sudo trimtab array create fast --level 5 a.img b.img c.img d.img
  sudo trimtab array stat fast --watch
  sudo trimtab array check fast
  sudo trimtab array stop fast
  sudo trimtab array assemble fast a.img b.img c.img d.img

docs/array-devices.md explains them.";

/// The verbs of `trimtab array`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make an array, and print its block device. What the members hold is lost.
    Create(create::Create),
    /// Start an array that its members have, made here or by mdadm.
    Assemble(create::Assemble),
    /// List the arrays that run.
    List(list::Args),
    /// Show an array's state, members and counters.
    Stat(stat::Args),
    /// Change a running array's policy.
    Set(member::Set),
    /// Use a member no more.
    Fail(member::Lost),
    /// Let go of a member that has failed, or of a spare.
    Remove(member::Lost),
    /// Take a device in the place of a missing member, and rebuild it; or as a spare.
    Add(member::Add),
    /// Fill a device with what a member has, and let it take the member's place.
    Replace(member::Replace),
    /// Compare all copies, or data with parity.
    Check(check::Args),
    /// Export an array as an NVMe drive, to this machine or to other hosts.
    Export(export::Export),
    /// Export arrays no more, and remove what crashes left of exports.
    Unexport(export::Unexport),
    /// Measure what arrays cost on this machine: latency, requests per second, processor time.
    Cost(cost::Args),
    /// Stop arrays, and remove what killed servers left behind.
    Stop(stop::Args),
    /// Serve an array that is described on standard input. Run by `create` and `assemble`.
    #[command(hide = true)]
    Serve,
    /// The same, until standard input ends. Run by commands that need an array temporarily.
    #[command(hide = true)]
    ServeWhileRead,
    /// Do for a server what it must not do to its own device. Run by servers.
    #[command(hide = true)]
    Assist,
}

pub(crate) fn run(command: Command) -> Result<()> {
    // Before any look-up that fails in a confusing way for other users.
    if !rustix::process::geteuid().is_root() {
        return Err(trimtab_volume::Error::Privilege.into());
    }
    match command {
        Command::Create(args) => create::create(args),
        Command::Assemble(args) => create::assemble(args),
        Command::List(args) => list::run(&args),
        Command::Stat(args) => stat::run(&args),
        Command::Set(args) => member::set(&args),
        Command::Fail(args) => member::fail(&args),
        Command::Remove(args) => member::remove(&args),
        Command::Add(args) => member::add(&args),
        Command::Replace(args) => member::replace(&args),
        Command::Check(args) => check::run(&args),
        Command::Export(args) => export::export(&args),
        Command::Unexport(args) => export::unexport(&args),
        Command::Stop(args) => stop::run(&args),
        Command::Cost(args) => cost::run(&args),
        Command::Serve => serve::run(false),
        Command::ServeWhileRead => serve::run(true),
        Command::Assist => Ok(trimtab_volume::assist()?),
    }
}
