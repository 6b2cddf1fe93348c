//! `trimtab profile show`.

use std::io::Write as _;

use anyhow::Result;

use crate::console;
use crate::exit::BadInput;
use crate::size;

/// Which drive to show.
///
/// The output has every key, including those with default values, and can be read again.
/// docs/device-profile.md describes the keys.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  trimtab profile show femu
  trimtab profile show p4600 --capacity 64G > small.toml
  trimtab profile show small.toml --json | jq .geometry.blocks_per_plane")]
pub(crate) struct Args {
    /// A profile that comes with the program (`trimtab profile list`), or a file.
    #[arg(value_name = "NAME|FILE")]
    profile: String,
    /// Scale the drive to about this capacity, such as 64G (64 · 2^30 bytes; units K, M, G,
    /// T). Only its number of blocks changes; of a disk, its cylinders and their distances.
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    capacity: Option<u64>,
    /// Print JSON, with the keys of the TOML.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let mut profile = super::find_any(&args.profile)?;
    if let Some(bytes) = args.capacity {
        let what = format!("{} with --capacity {}", profile.name(), trimtab_report::bytes(bytes));
        profile = profile.with_capacity(bytes).map_err(|e| BadInput(format!("{what}: {e}")))?;
    }
    let mut out = console::out(args.json);
    if args.json {
        serde_json::to_writer_pretty(&mut out, &profile)?;
        writeln!(out)?;
    } else {
        out.write_all(profile.to_toml().as_bytes())?;
    }
    Ok(out.flush()?)
}
