//! `trimtab trace synth`.

use anyhow::Result;

/// Not there yet.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_args: Args) -> Result<()> {
    anyhow::bail!("comes with a later commit")
}
