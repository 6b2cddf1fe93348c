//! `trimtab profile …`: one module per verb, and the look-up of profiles.

mod fit;
mod fit_device;
mod fit_disk;
mod list;
mod queue;
mod show;

use std::path::Path;

use anyhow::Result;
use clap::Subcommand;
use trimtab_device::{DriveProfile, Profile};
use trimtab_io::WholeFile;

use crate::exit::BadInput;

pub(crate) const EXAMPLES: &str = "\
Examples:
  trimtab profile list
  trimtab profile show femu > mine.toml
  trimtab profile show mine.toml --capacity 64G
  trimtab profile fit disk.parquet -o disk.toml
  trimtab profile queue disk-7200 --deadline 20ms -o sda.safetensors
  sudo trimtab profile fit --device /dev/sda -o sda.toml";

/// The verbs of `trimtab profile`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// The drives that come with the program.
    List(list::Args),
    /// A drive's description, with every key.
    Show(show::Args),
    /// Make a description of a drive from a recording of it, or of a disk by reading from it.
    Fit(fit::Args),
    /// Make a model of a drive's queue from its description, without training.
    Queue(queue::Args),
}

pub(crate) fn run(command: Command) -> Result<()> {
    match command {
        Command::List(args) => list::run(&args),
        Command::Show(args) => show::run(&args),
        Command::Fit(args) => fit::run(&args),
        Command::Queue(args) => queue::run(&args),
    }
}

/// A built-in profile of a flash drive, or one in a file.
pub(crate) fn find(name_or_file: &str) -> Result<Profile> {
    match find_any(name_or_file)? {
        DriveProfile::Flash(profile) => Ok(profile),
        DriveProfile::Disk(_) => {
            let why =
                format!("{name_or_file}: is a disk's profile; a flash drive's is needed here");
            Err(BadInput(why).into())
        }
    }
}

/// A built-in profile, or one in a file. A file in the working directory does not hide a
/// built-in profile of the same name.
pub(crate) fn find_any(name_or_file: &str) -> Result<DriveProfile> {
    if let Some(profile) = DriveProfile::builtin(name_or_file) {
        return Ok(profile);
    }
    let path = Path::new(name_or_file);
    let is_file = path.extension().is_some() || path.components().count() > 1 || path.exists();
    if !is_file {
        let known: Vec<_> = DriveProfile::builtin_names().collect();
        let known = known.join(", ");
        let why = format!("no profile is called `{name_or_file}`, and no file; known: {known}");
        return Err(BadInput(why).into());
    }
    let text = WholeFile::toml("a drive's profile")
        .read_text(path)
        .map_err(|e| BadInput(format!("{name_or_file}: cannot read: {e}")))?;
    Ok(DriveProfile::parse(&text).map_err(|e| BadInput(format!("{name_or_file}: {e}")))?)
}
