//! `trimtab drive list`.

use std::io::{self, Write as _};

use anyhow::Result;
use serde::Serialize;
use trimtab_live::drive::{Found, Home, Info};
use trimtab_report::{Align, Table, bytes};

use crate::json::Json;

const HELP: &str = "\
Examples:
  sudo trimtab drive list
  sudo trimtab drive list --json | jq -r '.[].device'";

/// How to list them.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Listed {
    name: String,
    state: &'static str,
    #[serde(flatten)]
    info: Option<Info>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let listed = |(name, found)| match found {
        Found::Running(info) => Listed { name, state: "running", info: Some(info) },
        Found::Changing => Listed { name, state: "starting or ending", info: None },
        Found::Dead => Listed { name, state: "killed: remove it", info: None },
    };
    let all: Vec<_> = Home::from_environment().list()?.into_iter().map(listed).collect();
    if args.json {
        return Json::StandardOutput.write(&all);
    }
    let columns = ["drive", "device", "state", "profile", "size", "data", "seed"];
    let align = |name| if ["size", "seed"].contains(&name) { Align::Right } else { Align::Left };
    let mut table = Table::new(&columns.map(|name| (name, align(name))));
    for Listed { name, state, info } in all {
        let [device, profile, size, data, seed] = info.map_or_else(Default::default, |info| {
            let device = info.device.display().to_string();
            [device, info.profile, bytes(info.capacity), info.data, info.seed.to_string()]
        });
        table.row([name, device, state.to_owned(), profile, size, data, seed]);
    }
    Ok(write!(io::stdout().lock(), "{table}")?)
}
