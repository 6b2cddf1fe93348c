//! `trimtab sim …`: one module per verb.

mod run;
mod summary;

use anyhow::Result;
use clap::Subcommand;

pub(crate) const EXAMPLES: &str = "\
Examples:
  trimtab sim run examples/sim-closed-loop.toml
  trimtab sim run examples/sim-mixed.toml --json mixed.json";

/// The verbs of `trimtab sim`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a scenario: devices, workloads, and a duration.
    Run(run::Args),
}

pub(crate) fn run(command: Command) -> Result<()> {
    match command {
        Command::Run(args) => run::run(args),
    }
}
