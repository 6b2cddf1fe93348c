//! Exports of arrays and emulated drives as NVMe drives: what `trimtab array` and `trimtab drive` share.

use std::io::Write as _;
use std::path::Path;
use std::str::FromStr;

use anyhow::Result;
use serde::Serialize;
use trimtab_block::claim::{Claim, ClaimError};
use trimtab_emu::DriveInfo;
use trimtab_nvmet::{Access, Export, Exported, Target, Transport, Uuid, Volume, parse_listen};
use trimtab_serve::{Client, DeviceInfo, Error, RunDirectory, Status, check_name};
use trimtab_volume::ArrayInfo;

use crate::console;
use crate::exit::BadInput;
use crate::log;

/// A kind of device that can be exported.
pub(crate) trait Exportable: DeviceInfo {
    /// What tells its content from that of all others, as text.
    fn uuid(&self) -> &str;
}

impl Exportable for ArrayInfo {
    fn uuid(&self) -> &str {
        &self.uuid
    }
}

impl Exportable for DriveInfo {
    fn uuid(&self) -> &str {
        &self.uuid
    }
}

/// How hosts reach an export.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Tcp,
    Loop,
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "tcp" => Ok(Self::Tcp),
            "loop" => Ok(Self::Loop),
            _ => Err(format!("`{name}`: expected tcp or loop")),
        }
    }
}

/// What to export, and to which hosts.
#[derive(Debug, clap::Args)]
pub(crate) struct ExportArgs {
    /// Its name.
    name: String,
    /// How hosts reach it: over TCP (tcp), or this machine only, without a network (loop).
    #[arg(long, value_name = "TRANSPORT")]
    nvme: Kind,
    /// The address to listen on, with tcp: loopback unless given; the port is 4420 unless given.
    #[arg(long, value_name = "ADDRESS[:PORT]")]
    listen: Option<String>,
    /// Hosts that may connect, by their NQN. Others may not.
    #[arg(long, value_name = "NQN", num_args = 1..)]
    host: Vec<String>,
    /// Any host that reaches the address may connect. Said already if only this machine does.
    #[arg(long, conflicts_with = "host")]
    any_host: bool,
}

/// What to export no more.
#[derive(Debug, clap::Args)]
pub(crate) struct UnexportArgs {
    /// Their names.
    #[arg(value_name = "NAME", required_unless_present = "all")]
    names: Vec<String>,
    /// All that are exported.
    #[arg(long, conflicts_with = "names")]
    all: bool,
}

pub(crate) fn export<I: Exportable>(args: &ExportArgs) -> Result<()> {
    let home = RunDirectory::<I>::from_environment();
    let device = Client::find(&home, &args.name)?;
    let (export, transport) = wanted(device.info(), args)?;
    let target = Target::system();
    let is_exported = target.list()?.iter().any(|exported| exported.nqn == export.nqn());
    // The kernel opens it without a claim. If it is exported, that is said below.
    let _claim = if is_exported { None } else { Some(claim(&device)?) };
    target.export(&export)?;
    let nqn = export.nqn();
    let by = match transport {
        Transport::Loop => "-t loop -a trimtab".to_owned(),
        Transport::Tcp(address) => format!("-t tcp -a {} -s {}", address.ip(), address.port()),
    };
    log::line(&format!("{transport}; a host connects with: nvme connect {by} -n {nqn}"));
    Ok(writeln!(console::out(false), "{nqn}")?)
}

fn wanted<I: Exportable>(info: &I, args: &ExportArgs) -> Result<(Export, Transport)> {
    let transport = match (args.nvme, &args.listen) {
        (Kind::Loop, None) => Transport::Loop,
        (Kind::Loop, Some(_)) => {
            let why = "--listen: with `--nvme loop` there is no address to listen on";
            return Err(BadInput(why.to_owned()).into());
        }
        (Kind::Tcp, listen) => Transport::Tcp(parse_listen(listen.as_deref())?),
    };
    let access = match args.host.as_slice() {
        [] if args.any_host => Access::Any,
        [] => Access::Default,
        hosts => Access::Hosts(hosts.to_vec()),
    };
    let noun = I::KIND.noun;
    let uuid = info.uuid().parse().map_err(|_| {
        let why = "its server is of an earlier version and gives it no id: make it anew";
        Error::Failed(format!("{noun} `{}`: {why}", info.name()))
    })?;
    let (name, device) = (info.name().to_owned(), info.device().to_owned());
    let volume = Volume { noun: noun.to_owned(), name, uuid, device };
    Ok((Export::new(volume, transport, access)?, transport))
}

/// Verifies that the device is still this one's, and that nothing uses it.
fn claim<I: DeviceInfo>(device: &Client<I>) -> Result<Claim> {
    device.open()?;
    Claim::member(device.info().device()).map_err(|error| match error {
        ClaimError::InUse { .. } => BadInput(error.to_string()).into(),
        error => Error::Failed(error.to_string()).into(),
    })
}

pub(crate) fn unexport<I: Exportable>(args: &UnexportArgs) -> Result<()> {
    let target = Target::system();
    let noun = I::KIND.noun;
    if args.all {
        target.unexport_all(noun)?;
        return Ok(());
    }
    let home = RunDirectory::<I>::from_environment();
    for name in &args.names {
        check_name(noun, name)?;
        let uuid = match home.find(name) {
            Ok(Status::Running(info) | Status::Stopped(info)) => info.uuid().parse().ok(),
            // It is known by its name in the kernel.
            _ => None,
        };
        if target.unexport(noun, name, uuid)?.is_empty() {
            let why = format!("`{name}`: the {noun} is not exported (see `trimtab {noun} list`)");
            return Err(BadInput(why).into());
        }
    }
    Ok(())
}

/// Before the end of a device by command: one that runs is not exported, or with `force` no more; what
/// one that was killed has left there is removed. A device of the same name in another run directory stays
/// exported.
pub(crate) fn before_end<I: Exportable>(
    home: &RunDirectory<I>,
    name: &str,
    status: &Status<I>,
    force: bool,
) -> Result<(), trimtab_nvmet::Error> {
    let noun = I::KIND.noun;
    let (target, exports) = (Target::system(), Exports::read::<I>()?);
    match status {
        Status::Running(info) | Status::Stopped(info) => {
            let Some(exported) = exports.of(info) else { return Ok(()) };
            if !force {
                let by = exported.transport.join(", ");
                let why = format!(
                    "`{name}`: the {noun} is exported as an NVMe drive ({by}): `trimtab {noun} \
                     unexport {name}` first, or --force"
                );
                return Err(trimtab_nvmet::Error::Failed(why));
            }
            target.unexport_nqn(&exported.nqn)?;
        }
        Status::Dead => {
            if let Some(exported) = exports.of_dead(home.info_of_dead(name).as_ref()) {
                target.unexport_nqn(&exported.nqn)?;
            }
        }
        Status::Changing => {}
    }
    Ok(())
}

/// What is exported of one kind of device.
pub(crate) struct Exports(Vec<Exported>);

impl Exports {
    pub(crate) fn read<I: Exportable>() -> Result<Self, trimtab_nvmet::Error> {
        let mut all = Target::system().list()?;
        all.retain(|exported| exported.noun == I::KIND.noun);
        Ok(Self(all))
    }

    /// The export of a device, if there is one: also what a crash left of it.
    pub(crate) fn of(&self, info: &impl Exportable) -> Option<&Exported> {
        let uuid: Option<Uuid> = info.uuid().parse().ok();
        self.0.iter().find(|exported| {
            let is_same = uuid.is_some() && exported.uuid == uuid;
            is_same || exported.device.as_deref() == Some(info.device())
        })
    }

    /// The export of a device whose server was killed. The same volume may be served elsewhere since, by
    /// another device.
    pub(crate) fn of_dead(&self, info: Option<&impl Exportable>) -> Option<&Exported> {
        let info = info?;
        let is_here = |exported: &&Exported| {
            exported.device.as_deref().is_none_or(|device| device == info.device())
        };
        self.of(info).filter(is_here)
    }

    /// Exports other than these, by their qualified names: their devices are gone.
    pub(crate) fn others<'a>(&'a self, known: &'a [String]) -> impl Iterator<Item = &'a Exported> {
        self.0.iter().filter(|exported| !known.contains(&exported.nqn))
    }
}

/// Statistics in JSON, and how the device is exported, if it is.
#[derive(Serialize)]
pub(crate) struct WithExport<'a, S> {
    #[serde(flatten)]
    pub(crate) stat: &'a S,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) exported: Option<&'a Exported>,
}

/// An export in a few words. `device`: the one that is served now.
pub(crate) fn shown(exported: &Exported, device: Option<&Path>) -> String {
    let by = exported.transport.join(", ");
    if !exported.is_complete {
        "cut short: unexport it".to_owned()
    } else if device.is_none_or(|device| exported.device.as_deref() != Some(device)) {
        format!("{by}, of a server that is gone: unexport it")
    } else {
        by
    }
}

/// The same with what hosts need to know.
pub(crate) fn described(exported: &Exported, device: &Path) -> String {
    let hosts = match &exported.hosts {
        None => "any host".to_owned(),
        Some(hosts) => format!("hosts {}", hosts.join(", ")),
    };
    format!("{}, {}, {hosts}", shown(exported, Some(device)), exported.nqn)
}

#[cfg(test)]
mod tests {
    use trimtab_serve::Backend;

    use super::*;

    const UUIDS: [&str; 2] =
        ["00000000:00000000:00000000:00000001", "00000000:00000000:00000000:00000002"];

    fn array(uuid: &str, device: &str) -> ArrayInfo {
        ArrayInfo {
            name: "fast".to_owned(),
            device: device.into(),
            pid: 1,
            capacity: 1 << 30,
            level: "raid1".to_owned(),
            members: 2,
            uuid: uuid.to_owned(),
            backend: Backend::Fuse,
            scheduler_before: None,
        }
    }

    /// The export of an array of the name `fast`.
    fn exports(uuid: &str, device: Option<&str>) -> Exports {
        Exports(vec![Exported {
            nqn: format!("nqn of {uuid}"),
            noun: "array".to_owned(),
            name: Some("fast".to_owned()),
            uuid: uuid.parse().ok(),
            device: device.map(Into::into),
            transport: vec!["loop".to_owned()],
            hosts: None,
            is_complete: true,
        }])
    }

    #[test]
    fn export_of_another_run_directory_is_not_that_of_a_dead_array() {
        let dead = array(UUIDS[0], "/dev/loop0");
        assert!(exports(UUIDS[0], Some("/dev/loop0")).of_dead(Some(&dead)).is_some());
        // Cut short before it had a device.
        assert!(exports(UUIDS[0], None).of_dead(Some(&dead)).is_some());
        // Another array of the same name.
        assert!(exports(UUIDS[1], Some("/dev/loop1")).of_dead(Some(&dead)).is_none());
        // The same array, which was assembled elsewhere.
        assert!(exports(UUIDS[0], Some("/dev/loop1")).of_dead(Some(&dead)).is_none());
        assert!(exports(UUIDS[0], Some("/dev/loop1")).of(&dead).is_some());
    }
}
