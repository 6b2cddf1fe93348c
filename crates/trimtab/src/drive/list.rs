//! `trimtab drive list`.

use std::io::Write as _;

use anyhow::Result;
use serde::Serialize;
use trimtab_emu::{DriveInfo, DriveStatus, RunDirectory};
use trimtab_report::{Align, Table, bytes};

use crate::console;
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

/// A drive in JSON: the fields of [`DriveInfo`], where known, and its state.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Drive {
    Known {
        #[serde(flatten)]
        info: DriveInfo,
        state: &'static str,
    },
    Unknown {
        name: String,
        state: &'static str,
    },
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let home = RunDirectory::from_environment();
    let listed = |(name, found): (String, DriveStatus)| match found {
        DriveStatus::Running(info) => Drive::Known { info, state: "running" },
        DriveStatus::Stopped(info) => Drive::Known { info, state: "stopped: does not answer" },
        DriveStatus::Changing => Drive::Unknown { name, state: "starting or ending" },
        DriveStatus::Dead if home.waiting(&name).is_some() => {
            Drive::Unknown { name, state: "killed, and waits: create it again, or remove it" }
        }
        DriveStatus::Dead => Drive::Unknown { name, state: "killed: remove it" },
    };
    let all: Vec<_> = home.list()?.into_iter().map(listed).collect();
    if args.json {
        return Json::StandardOutput.write(&all);
    }
    let columns = ["drive", "device", "back end", "state", "profile", "size", "data", "seed"];
    let align = |name| if ["size", "seed"].contains(&name) { Align::Right } else { Align::Left };
    let mut table = Table::new(&columns.map(|name| (name, align(name))));
    for drive in all {
        table.row(match drive {
            Drive::Known { info, state } => {
                let device = info.device.display().to_string();
                let (size, seed) = (bytes(info.capacity), info.seed.to_string());
                let backend = info.backend.text().to_owned();
                [info.name, device, backend, state.to_owned(), info.profile, size, info.data, seed]
            }
            Drive::Unknown { name, state } => {
                let mut row = <[String; 8]>::default();
                (row[0], row[3]) = (name, state.to_owned());
                row
            }
        });
    }
    Ok(write!(console::out(false), "{table}")?)
}
