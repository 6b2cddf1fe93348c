//! `trimtab generate`: makes man pages and completions from the command's own definitions. It
//! is hidden, because only `make install` and the packages run it.

mod man;
#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Command, ValueEnum};
use clap_complete::Shell;

/// What to make, and where.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What to make.
    what: What,
    /// The directory to write it to.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum What {
    /// A man page for each command.
    Man,
    /// Completions for bash, zsh and fish.
    Completions,
}

pub(crate) fn run(args: &Args, command: &Command) -> Result<()> {
    let directory = &args.directory;
    let write = match args.what {
        What::Man => man::write,
        What::Completions => completions,
    };
    std::fs::create_dir_all(directory)
        .and_then(|()| write(shown(command), directory))
        .with_context(|| format!("{}: cannot write", directory.display()))
}

fn completions(mut command: Command, directory: &Path) -> io::Result<()> {
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        let name = command.get_name().to_owned();
        clap_complete::generate_to(shell, &mut command, name, directory)?;
    }
    Ok(())
}

/// The command without hidden subcommands, which completions would otherwise offer.
fn shown(command: &Command) -> Command {
    let below = command.get_subcommands().filter(|below| !below.is_hide_set()).map(shown);
    let mut shown = Command::new(command.get_name().to_owned())
        .subcommand_required(command.is_subcommand_required_set())
        .args(command.get_arguments())
        .groups(command.get_groups())
        .subcommands(below);
    if let Some(version) = command.get_version() {
        shown = shown.version(version.to_owned());
    }
    if let Some(about) = command.get_about() {
        shown = shown.about(about.clone());
    }
    if let Some(about) = command.get_long_about() {
        shown = shown.long_about(about.clone());
    }
    if let Some(help) = command.get_after_help() {
        shown = shown.after_help(help.clone());
    }
    shown
}
