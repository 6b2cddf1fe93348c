//! `trimtab drive list`.

use std::io::Write as _;

use anyhow::Result;
use serde::Serialize;
use trimtab_emu::{DriveInfo, DriveStatus, RunDirectory};
use trimtab_nvmet::Exported;
use trimtab_report::{Align, Table, bytes};

use crate::console;
use crate::export::{self, Exports};
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

/// A drive in JSON: the fields of [`DriveInfo`], where known, its state, and how it is exported as an
/// NVMe drive, if it is.
#[derive(Debug, Serialize)]
struct Listed {
    #[serde(flatten)]
    drive: Drive,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    exported: Option<Exported>,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Drive {
    Known(DriveInfo),
    Unknown { name: String },
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let exports = Exports::read::<DriveInfo>()?;
    let home = RunDirectory::from_environment();
    let listed = |(name, found): (String, DriveStatus)| {
        let (drive, state) = match found {
            DriveStatus::Running(info) => (Drive::Known(info), "running"),
            DriveStatus::Stopped(info) => (Drive::Known(info), "stopped: does not answer"),
            DriveStatus::Changing => (Drive::Unknown { name }, "starting or ending"),
            DriveStatus::Dead if home.waiting(&name).is_some() => {
                (Drive::Unknown { name }, "killed, and waits: create it again, or remove it")
            }
            DriveStatus::Dead => (Drive::Unknown { name }, "killed: remove it"),
        };
        let exported = match &drive {
            Drive::Known(info) => exports.of(info),
            Drive::Unknown { name } => exports.of_dead(home.info_of_dead(name).as_ref()),
        };
        Listed { exported: exported.cloned(), drive, state }
    };
    let mut all: Vec<_> = home.list()?.into_iter().map(listed).collect();
    let known: Vec<_> =
        all.iter().flat_map(|one| &one.exported).map(|one| one.nqn.clone()).collect();
    all.extend(exports.others(&known).map(|exported| Listed {
        drive: Drive::Unknown { name: exported.name.clone().unwrap_or_default() },
        state: "gone",
        exported: Some(exported.clone()),
    }));
    if args.json {
        return Json::StandardOutput.write(&all);
    }
    let columns =
        ["drive", "device", "back end", "state", "profile", "size", "data", "seed", "exported"];
    let align = |name| if ["size", "seed"].contains(&name) { Align::Right } else { Align::Left };
    let mut table = Table::new(&columns.map(|name| (name, align(name))));
    for Listed { drive, state, exported } in all {
        let by = |device| exported.map_or_else(String::new, |by| export::shown(&by, device));
        table.row(match drive {
            Drive::Known(info) => {
                let device = info.device.display().to_string();
                let (size, seed) = (bytes(info.capacity), info.seed.to_string());
                let by = by(Some(&info.device));
                let backend = info.backend.text().to_owned();
                let state = state.to_owned();
                [info.name, device, backend, state, info.profile, size, info.data, seed, by]
            }
            Drive::Unknown { name } => {
                let mut row = <[String; 9]>::default();
                (row[0], row[3], row[8]) = (name, state.to_owned(), by(None));
                row
            }
        });
    }
    Ok(write!(console::out(false), "{table}")?)
}
