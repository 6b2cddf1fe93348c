//! `trimtab array list`.

use std::io::Write as _;

use anyhow::Result;
use serde::Serialize;
use trimtab_nvmet::Exported;
use trimtab_report::{Align, Table, bytes};
use trimtab_volume::{Array, ArrayInfo, ArrayStatus, RunDirectory, Stat};

use crate::console;
use crate::export::{self, Exports};
use crate::json::Json;

const HELP: &str = "\
Examples:
  sudo trimtab array list
  sudo trimtab array list --json | jq -r '.[].device'";

/// How to list them.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// An array in JSON: the fields of [`ArrayInfo`], where known, and its state.
#[derive(Debug, Serialize)]
struct Listed {
    name: String,
    #[serde(flatten)]
    info: Option<ArrayInfo>,
    state: String,
    /// How many spares it has, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    spares: Option<usize>,
    /// How it is exported as an NVMe drive, if it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    exported: Option<Exported>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let home = RunDirectory::from_environment();
    let exports = Exports::read::<ArrayInfo>()?;
    let listed = |(name, status): (String, ArrayStatus)| {
        let mut spares = None;
        let (info, state) = match status {
            ArrayStatus::Running(info) => {
                let stat = Array::find(&home, &name).and_then(|array| array.stat());
                let of_spares =
                    |stat: &Stat| stat.others.iter().filter(|other| other.state == "spare").count();
                spares = stat.as_ref().ok().map(of_spares);
                let state = stat.map_or_else(|_| "does not answer".to_owned(), |stat| stat.state);
                (Some(info), state)
            }
            ArrayStatus::Stopped(info) => (Some(info), "stopped: does not answer".to_owned()),
            ArrayStatus::Changing => (None, "starting or ending".to_owned()),
            ArrayStatus::Dead if home.waiting(&name).is_some() => {
                (None, "killed, and waits: assemble it, or stop it".to_owned())
            }
            ArrayStatus::Dead => (None, "killed: assemble it, or stop it".to_owned()),
        };
        let exported = match &info {
            Some(info) => exports.of(info),
            None => exports.of_dead(home.info_of_dead(&name).as_ref()),
        };
        Listed { exported: exported.cloned(), name, info, state, spares }
    };
    let mut all: Vec<Listed> = home.list()?.into_iter().map(listed).collect();
    let known: Vec<_> =
        all.iter().flat_map(|one| &one.exported).map(|one| one.nqn.clone()).collect();
    all.extend(exports.others(&known).map(|exported| Listed {
        name: exported.name.clone().unwrap_or_default(),
        info: None,
        state: "gone".to_owned(),
        spares: None,
        exported: Some(exported.clone()),
    }));
    if args.json {
        return Json::StandardOutput.write(&all);
    }
    let columns = ["array", "device", "back end", "state", "level", "members", "size", "exported"];
    let align = |name| if ["size", "members"].contains(&name) { Align::Right } else { Align::Left };
    let mut table = Table::new(&columns.map(|name| (name, align(name))));
    for Listed { name, info, state, spares, exported } in all {
        let device = info.as_ref().map(|info| info.device.as_path());
        let exported =
            exported.map(|exported| export::shown(&exported, device)).unwrap_or_default();
        let [device, backend, level, members, size] = info.map_or_else(Default::default, |info| {
            let device = info.device.display().to_string();
            let members = match spares {
                None | Some(0) => info.members.to_string(),
                Some(spares) => format!("{} + {spares} spare", info.members),
            };
            let backend = info.backend.text().to_owned();
            [device, backend, info.level, members, bytes(info.capacity)]
        });
        table.row([name, device, backend, state, level, members, size, exported]);
    }
    Ok(write!(console::out(false), "{table}")?)
}
