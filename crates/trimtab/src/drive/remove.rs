//! `trimtab drive remove`.

use std::io::{self, Write as _};

use anyhow::Result;
use trimtab_live::drive::{Drive, Found, Home};

use crate::exit::BadInput;

const HELP: &str = "\
Examples:
  sudo trimtab drive remove slow
  sudo trimtab drive remove --all

A mounted drive is not removed without --force; with it, the file system on it gets
errors. Of a drive whose server was killed, what is left is removed.";

/// What to remove.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The drives.
    #[arg(value_name = "NAME", required_unless_present = "all")]
    names: Vec<String>,
    /// All there are.
    #[arg(long, conflicts_with = "names")]
    all: bool,
    /// Even if it is mounted or in use.
    #[arg(long)]
    force: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let home = Home::from_environment();
    let names = match args.all {
        true => home.list()?.into_iter().map(|(name, _)| name).collect(),
        false => args.names.clone(),
    };
    for name in names {
        match home.find(&name)? {
            Found::Running(_) => Drive::find(&home, &name)?.remove(args.force)?,
            Found::Dead => {
                if let Some(at) = home.remove_dead(&name)? {
                    let what = format!("trimtab: what was on `{name}` is still mounted at {at}");
                    writeln!(io::stderr().lock(), "{what}: unmount it, and its device goes too")?;
                }
            }
            Found::Changing => {
                return Err(BadInput(format!("`{name}`: it is just starting or ending")).into());
            }
        }
    }
    Ok(())
}
