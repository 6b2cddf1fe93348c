//! `trimtab trace synth`.

use std::path::PathBuf;

use anyhow::Result;
use trimtab_io::WholeFile;
use trimtab_trace::{Error, Synth};

use super::written::Output;
use crate::exit::BadInput;
use crate::output::WriteArgs;
use crate::progress::Progress;

/// The description, and the seed.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example, from a description that explains every key:
  trimtab trace synth examples/synth-poisson.toml -o poisson.parquet")]
pub(crate) struct Args {
    /// The description, in TOML.
    #[arg(value_name = "SPEC.toml")]
    spec: PathBuf,
    /// The seed, instead of the description's.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    #[command(flatten)]
    write: WriteArgs,
    /// Print what was written as JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Result<()> {
    let path = &args.spec;
    let text = WholeFile::toml("a description of a trace")
        .read_text(path)
        .map_err(|source| Error::Open { path: path.clone(), source })?;
    let mut synth = Synth::from_toml(&text, args.seed)
        .map_err(|e| BadInput(format!("{}: {e}", path.display())))?;
    let mut output = Output::new(args.write.create(synth.meta())?);
    let mut batch = Vec::new();
    let mut progress = Progress::new();
    while synth.read(&mut batch) {
        output.write(&batch, synth.names())?;
        progress.add(batch.len());
    }
    drop(progress);
    let written = output.finish()?;
    written.print(args.json)?;
    written.into_result()
}
