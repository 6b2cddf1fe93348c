//! `trimtab drive set`.

use anyhow::Result;
use trimtab_emu::{Drive, RunDirectory};

const HELP: &str = "\
Examples:
  sudo trimtab drive set slow gc.preemptive=true
  sudo trimtab drive set slow lead_us=0
  sudo trimtab drive set slow firmware=ideal
  sudo trimtab drive set slow gc.high_watermark=0.4 gc.low_watermark=0.1

Keys that can change while a drive runs: gc.victim, gc.choices, gc.high_watermark,
gc.low_watermark, gc.watermarks_of, gc.preemptive, gc.suspend, gc.suspend_us
(docs/device-profile.md), lead_us (docs/emulated-drives.md), and firmware: standard,
or ideal, with which cleaning takes no time, until it is set back or a snapshot is
restored. Garbage collection under way ends with the old values. Of a disk: queue.order,
queue.depth, queue.starvation_ms, and lead_us.";

/// What to change.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The drive.
    name: String,
    /// Keys of its profile, and their new values.
    #[arg(value_name = "KEY=VALUE", required = true)]
    settings: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    Ok(Drive::find(&RunDirectory::from_environment(), &args.name)?.set(&args.settings)?)
}
