//! `trimtab array fail`, `remove`, `add`, `replace` and `set`.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use trimtab_volume::{Array, PolicyKind, RunDirectory};

use crate::log;

const WHICH_HELP: &str = "\
Examples:
  sudo trimtab array fail fast b.img
  sudo trimtab array remove fast b.img
  sudo trimtab array add fast e.img

A member is named by its path, or by its place in `array stat`, from 0. The superblocks of
the others say that it has failed: it is no member when the array is assembled again.";

const ADD_HELP: &str = "\
Example:
  sudo trimtab array add fast e.img

The device takes the place of a member that is missing or has failed, and is rebuilt: `array
stat` shows how far it is. If there is none it waits as a spare until a member fails; `remove`
lets go of it. One with a file system, or of another array, needs --force.";

const REPLACE_HELP: &str = "\
Example:
  sudo trimtab array replace fast b.img e.img

The new device is filled with what the member has, or where that cannot be read with what is
computed, and then takes its place. Until then the member is used, so that nothing is less
redundant meanwhile; `array stat` shows how far it is. The old device is let go of, and is no
member any more. The new one may be a spare of the array.";

const SET_HELP: &str = "\
Example:
  sudo trimtab array set fast --policy adaptive";

/// A member.
#[derive(Debug, clap::Args)]
pub(crate) struct Which {
    /// The array.
    name: String,
    /// The member: its path, or its place.
    member: PathBuf,
}

/// A member that fails, or has failed.
#[derive(Debug, clap::Args)]
#[command(after_help = WHICH_HELP)]
pub(crate) struct Lost {
    #[command(flatten)]
    which: Which,
}

/// A new member.
#[derive(Debug, clap::Args)]
#[command(after_help = ADD_HELP)]
pub(crate) struct Add {
    /// The array.
    name: String,
    /// The device or file.
    member: PathBuf,
    /// Overwrite one that has a file system or belongs to an array.
    #[arg(long)]
    force: bool,
}

/// A member, and what replaces it.
#[derive(Debug, clap::Args)]
#[command(after_help = REPLACE_HELP)]
pub(crate) struct Replace {
    #[command(flatten)]
    which: Which,
    /// The device or file that replaces it.
    new: PathBuf,
    /// Overwrite one that has a file system or belongs to an array.
    #[arg(long)]
    force: bool,
}

/// What to change.
#[derive(Debug, clap::Args)]
#[command(after_help = SET_HELP)]
pub(crate) struct Set {
    /// The array.
    name: String,
    /// Which members reads ask: plain, adaptive, trimtab or ioda.
    #[arg(long, value_name = "POLICY")]
    policy: PolicyKind,
}

impl Which {
    /// The member as the array knows it.
    fn member(&self) -> Result<String> {
        let text = self.member.to_string_lossy().into_owned();
        if text.parse::<usize>().is_ok() {
            return Ok(text);
        }
        Ok(absolute(&self.member)?.to_string_lossy().into_owned())
    }
}

fn find(name: &str) -> Result<Array> {
    Ok(Array::find(&RunDirectory::from_environment(), name)?)
}

fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).context("cannot determine the working directory")
}

fn say(notes: &[String]) {
    notes.iter().for_each(|line| log::line(line));
}

pub(crate) fn fail(Lost { which }: &Lost) -> Result<()> {
    Ok(find(&which.name)?.fail(&which.member()?)?)
}

pub(crate) fn remove(Lost { which }: &Lost) -> Result<()> {
    Ok(find(&which.name)?.remove(&which.member()?)?)
}

pub(crate) fn add(args: &Add) -> Result<()> {
    say(&find(&args.name)?.add(&absolute(&args.member)?, args.force)?);
    Ok(())
}

pub(crate) fn replace(args: &Replace) -> Result<()> {
    let Replace { which, new, force } = args;
    say(&find(&which.name)?.replace(&which.member()?, &absolute(new)?, *force)?);
    Ok(())
}

pub(crate) fn set(args: &Set) -> Result<()> {
    say(&find(&args.name)?.set_policy(args.policy)?);
    Ok(())
}
