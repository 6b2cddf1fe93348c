//! `trimtab trace …`: one module per verb.

mod convert;
mod cut;
mod info;
mod recover;
mod report;
mod rerate;
mod synth;
mod written;

use anyhow::Result;
use clap::Subcommand;

pub(crate) use self::info::summary_text;

pub(crate) const EXAMPLES: &str = "\
Examples:
  trimtab trace info usr_0.csv.gz
  trimtab trace convert usr_0.csv.gz -o usr_0.parquet
  trimtab trace report usr_0.parquet -o usr_0.html";

/// The verbs of `trimtab trace`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Describe traces: sizes, rates, footprint, queue depth, latency.
    Info(info::Args),
    /// Write a trace in another format.
    Convert(convert::Args),
    /// Keep a part of a trace: a time range, its busiest window, one device.
    Cut(cut::Args),
    /// Make a trace faster or slower.
    Rerate(rerate::Args),
    /// Make a synthetic trace from a description in TOML.
    Synth(synth::Args),
    /// Make a trace from the spool of an interrupted recording.
    Recover(recover::Args),
    /// Draw traces: a self-contained HTML page with plots.
    Report(report::Args),
}

pub(crate) fn run(command: Command) -> Result<()> {
    match command {
        Command::Info(args) => info::run(args),
        Command::Convert(args) => convert::run(args),
        Command::Cut(args) => cut::run(args),
        Command::Rerate(args) => rerate::run(args),
        Command::Synth(args) => synth::run(args),
        Command::Recover(args) => recover::run(&args),
        Command::Report(args) => report::run(args),
    }
}
