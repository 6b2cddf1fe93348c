//! `trimtab array fail`, `remove`, `add` and `set`.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use trimtab_volume::{Array, PolicyKind, RunDirectory};

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

The device takes the place of a missing member, and is rebuilt: `array stat` shows how far it
is. One with a file system, or of another array, needs --force.";

const SET_HELP: &str = "\
Example:
  sudo trimtab array set fast --policy adaptive";

/// A member.
#[derive(Debug, clap::Args)]
#[command(after_help = WHICH_HELP)]
pub(crate) struct Which {
    /// The array.
    name: String,
    /// The member: its path, or its place.
    member: PathBuf,
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
        let path = std::path::absolute(&self.member);
        let path = path.context("cannot determine the working directory")?;
        Ok(path.to_string_lossy().into_owned())
    }
}

fn find(name: &str) -> Result<Array> {
    Ok(Array::find(&RunDirectory::from_environment(), name)?)
}

pub(crate) fn fail(args: &Which) -> Result<()> {
    Ok(find(&args.name)?.fail(&args.member()?)?)
}

pub(crate) fn remove(args: &Which) -> Result<()> {
    Ok(find(&args.name)?.remove(&args.member()?)?)
}

pub(crate) fn add(args: &Add) -> Result<()> {
    let path = std::path::absolute(&args.member);
    let path = path.context("cannot determine the working directory")?;
    Ok(find(&args.name)?.add(&path, args.force)?)
}

pub(crate) fn set(args: &Set) -> Result<()> {
    Ok(find(&args.name)?.set_policy(args.policy)?)
}
